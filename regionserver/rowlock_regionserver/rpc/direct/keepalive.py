"""TCP's options by which the server's side of a direct connection finds that the other one's machine is gone.

Keepalive probes an idle connection. While answers are not acknowledged the system repeats those and sends no probes,
by default for a quarter of an hour; TCP_USER_TIMEOUT, which Linux has, bounds that by the same time. It also ends a
connection whose client takes nothing from a full socket for this long.

The system answers for a process, so an idle client that reads nothing passes. Unix sockets have no need for it.
"""

from __future__ import annotations

import contextlib
import socket

IDLE_SECONDS = 60
INTERVAL_SECONDS = 5
PROBES = 4
LOST_SECONDS = IDLE_SECONDS + PROBES * INTERVAL_SECONDS

# TCP_KEEPALIVE is the name of TCP_KEEPIDLE on macOS.
_OPTIONS = (
    (("TCP_KEEPIDLE", "TCP_KEEPALIVE"), IDLE_SECONDS),
    (("TCP_KEEPINTVL",), INTERVAL_SECONDS),
    (("TCP_KEEPCNT",), PROBES),
    (("TCP_USER_TIMEOUT",), LOST_SECONDS * 1000),
)


def keep_alive(connected: socket.socket) -> None:
    """Makes the system probe an idle peer, and report a lost connection after LOST_SECONDS."""
    if connected.family == socket.AF_UNIX:
        return
    with contextlib.suppress(OSError):  # The peer has gone already.
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for names, value in _OPTIONS:
            option = next((getattr(socket, name) for name in names if hasattr(socket, name)), None)
            if option is not None:
                connected.setsockopt(socket.IPPROTO_TCP, option, value)
