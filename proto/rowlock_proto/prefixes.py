"""The rows that begin with a prefix. No I/O."""

from __future__ import annotations


def prefix_stop(prefix: bytes) -> bytes:
    """Returns the first row after all rows that begin with the prefix; empty if there is none, as after ff ff."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else b""
