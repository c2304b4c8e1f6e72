"""TCP's options by which one side of a direct connection finds that the other one's machine is gone.

Keepalive probes an idle connection. While sent bytes are not acknowledged, the system repeats those and sends no
probes, by default for a quarter of an hour. TCP_USER_TIMEOUT, which Linux has, bounds that, too. It also ends a
connection whose peer takes nothing from a full socket for this long.

The system answers for a process, so an idle peer that reads nothing passes. Unix sockets have no need for it.
"""

from __future__ import annotations

import contextlib
import socket

_INTERVAL_S = 5


def keep_alive(connected: socket.socket, idle_s: int, lost_s: int, *, bounds_unread: bool) -> None:
    """Makes the system probe a peer that was idle for `idle_s`, and report it as lost after `lost_s` without an answer.

    bounds_unread: so it does if the peer acknowledges or reads nothing of what was sent for `lost_s`.
    """
    if connected.family == socket.AF_UNIX:
        return
    options = [
        (("TCP_KEEPIDLE", "TCP_KEEPALIVE"), idle_s),  # The second is its name on macOS.
        (("TCP_KEEPINTVL",), _INTERVAL_S),
        (("TCP_KEEPCNT",), (lost_s - idle_s) // _INTERVAL_S),
    ]
    if bounds_unread:
        options.append((("TCP_USER_TIMEOUT",), lost_s * 1000))
    with contextlib.suppress(OSError):  # The peer has gone already.
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for names, value in options:
            option = next((getattr(socket, name) for name in names if hasattr(socket, name)), None)
            if option is not None:
                connected.setsockopt(socket.IPPROTO_TCP, option, value)
