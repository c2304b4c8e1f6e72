"""The client's I/O with threads: channels, streams, calls, forks, and private servers."""
