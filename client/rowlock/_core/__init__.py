"""The client's logic without I/O: routing, retries, and the meaning of answers."""
