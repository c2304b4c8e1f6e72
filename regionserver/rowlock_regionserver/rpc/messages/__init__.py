"""Converts values to and from the messages of rowlock.v1."""
