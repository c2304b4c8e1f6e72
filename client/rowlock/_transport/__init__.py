"""Where the client does I/O with threads: channels, streams, calls, forks, the server of a folder."""
