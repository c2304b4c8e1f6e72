"""Sends the parts of a message on a socket, without joining them."""

from __future__ import annotations

import socket

# The system takes at most this many at once.
_PARTS_MAX = 1024


def send_some(connected: socket.socket, parts: list[memoryview]) -> None:
    """Sends as much of the parts as the system takes at once, and removes that. Raises OSError as `sendmsg`."""
    byte_count = connected.sendmsg(parts[:_PARTS_MAX])
    while byte_count:
        first = parts[0]
        if byte_count < len(first):
            parts[0] = first[byte_count:]
            return
        byte_count -= len(first)
        del parts[0]
