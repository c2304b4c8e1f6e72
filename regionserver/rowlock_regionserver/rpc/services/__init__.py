"""The services of rowlock.v1."""
