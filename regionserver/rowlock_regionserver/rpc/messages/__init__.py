"""To and from the messages of rowlock.v1."""
