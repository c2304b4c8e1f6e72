"""What the client decides without I/O: which request goes where, what comes again, what an answer means."""
