"""TCP's keepalive, by which each side of a direct connection finds that the other one's machine is gone.

The system answers for a process, so an idle client that reads nothing passes. Unix sockets have no need for it.
"""

from __future__ import annotations

import contextlib
import socket

IDLE_SECONDS = 60
_INTERVAL_SECONDS = 5
_PROBES = 4


def keep_alive(connected: socket.socket) -> None:
    """Makes the system probe an idle peer, and report a lost connection after a minute and a half."""
    if connected.family == socket.AF_UNIX:
        return
    with contextlib.suppress(OSError):  # The peer has gone already.
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # TCP_KEEPALIVE is the name of TCP_KEEPIDLE on macOS.
        for names, value in (
            (("TCP_KEEPIDLE", "TCP_KEEPALIVE"), IDLE_SECONDS),
            (("TCP_KEEPINTVL",), _INTERVAL_SECONDS),
            (("TCP_KEEPCNT",), _PROBES),
        ):
            option = next((getattr(socket, name) for name in names if hasattr(socket, name)), None)
            if option is not None:
                connected.setsockopt(socket.IPPROTO_TCP, option, value)
