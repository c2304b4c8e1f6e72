"""Making clients survive a fork.

1. grpc reads GRPC_ENABLE_FORK_SUPPORT once, when it is first imported; without it some forked children hang for ever.
   So the package's __init__ imports this module first of all. When somebody else imported grpc first and without it,
   that is said at the fork of a process that has a client open, which is when it does harm.
2. Even then a connection that is in use does not survive (tried: with threads that call all the time, 1 or 2 of 20
   children hung, and the parent's stream was dead). So every call of the threaded client passes the gate; a fork closes
   it, ends the connections, and lets grpc's own threads come to rest: it has no way to tell. Without the pause 3 of 160
   children hung, with it 0 of 160, on a machine with six times the work that it can do. Threads that fork at the same
   time do so together (fork_gate.py). Parent and child open new connections at their next call; calls that were cut off
   are tried again, and scans that other threads have begun go on at a new read point.
3. In the child the parent's threads and locks mean nothing: each registered client drops what is left of them.
4. grpc's asyncio side does not survive a fork at all: with one of its channels open in the parent, whatever the child
   does with grpc hangs or crashes (tried: 6 of 6). Such a fork warns, and in its child every client refuses to
   connect. A client of rowlock.aio that was closed before does no harm, once its objects are collected.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import warnings
import weakref
from typing import Protocol

from rowlock._transport.fork_gate import ForkGate
from rowlock.errors import ClosedError

_SWITCH = "GRPC_ENABLE_FORK_SUPPORT"
_ON = ("1", "true", "yes", "on")

_is_too_late = "grpc" in sys.modules and os.environ.get(_SWITCH, "").lower() not in _ON
os.environ.setdefault(_SWITCH, "1")

# How long grpc's own threads take to come to rest after a connection was ended; it has no way to tell.
_SETTLE_S = 0.1


class SurvivesFork(Protocol):
    """What is told in the child of a fork."""

    @property
    def is_connected(self) -> bool: ...

    @property
    def is_asyncio(self) -> bool: ...

    def before_fork(self) -> None:
        """Ends its connections. No call is under way, or one that takes too long."""
        ...

    def after_fork_in_parent(self) -> None:
        """Opens again what must be open without a call."""
        ...

    def after_fork_in_child(self) -> None:
        """Drops everything that belonged to the parent, without closing it. No other thread runs."""
        ...


gate = ForkGate()

# Reentrant, because a signal handler may fork while its thread registers a client.
_register_lock = threading.RLock()
# Guarded by _register_lock:
_is_registered = False
_survivors: weakref.WeakSet[SurvivesFork] = weakref.WeakSet()
# Written in the child of a fork, before it has threads.
_is_spoilt = False
# When grpc's threads are at rest, as far as connections were ended until now.
_settled_at = 0.0
# The parent's grpc objects, kept alive in the child: their destructors take locks that a thread of the parent may
# have held at the fork.
_never_collected: list[object] = []


class _Fork(threading.local):
    """What a thread that forks keeps until it has."""

    will_be_spoilt = False


_fork = _Fork()


def register(survivor: SurvivesFork) -> None:
    """Tells it of every fork from now on, as long as it lives. Called when it has opened its first channel.

    grpc has registered its own handlers by then. The last registered is told first that a fork begins, so ours can
    still end connections; after grpc's, every thread of grpc stands still.
    """
    global _is_registered
    with _register_lock:
        _survivors.add(survivor)
        if not _is_registered:
            _is_registered = True
            os.register_at_fork(
                before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
            )


def _all_survivors() -> list[SurvivesFork]:
    with _register_lock:
        return list(_survivors)


def keep(parents_object: object) -> None:
    """Keeps an object of the parent from being destroyed in the child."""
    _never_collected.append(parents_object)


def check_usable() -> None:
    """Raises ClosedError in the child of a fork that grpc did not survive."""
    if _is_spoilt:
        raise ClosedError(
            "the parent of this process had a client of rowlock.aio open when it forked, which grpc does not survive; "
            "close it before the fork, or use the threaded client there"
        )


def disconnected() -> None:
    """Says that a connection was ended; a fork gives grpc a moment after that."""
    global _settled_at
    _settled_at = time.monotonic() + _SETTLE_S


def _before_fork() -> None:
    connected = [survivor for survivor in _all_survivors() if survivor.is_connected]
    _fork.will_be_spoilt = any(survivor.is_asyncio for survivor in connected)
    if _fork.will_be_spoilt:
        _warn(
            "this process forks with a client of rowlock.aio open, which grpc does not survive: the child can't use "
            "rowlock. Close the client before, or use the threaded one."
        )
        return
    if connected and _is_too_late:
        _warn(
            f"this process forks with a rowlock client open, but grpc was imported before rowlock and without "
            f"{_SWITCH}=1: the child may hang. Import rowlock first, or set the variable for the whole process."
        )
    gate.close(_disconnect)


def _disconnect() -> None:
    """Ends all connections, and lets grpc come to rest."""
    if "grpc.aio" in sys.modules:
        # What is left of closed asyncio clients keeps a thread in grpc until it is collected.
        gc.collect()
    for survivor in _all_survivors():
        survivor.before_fork()
    time.sleep(max(0.0, _settled_at - time.monotonic()))


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=3)


def _after_fork_in_parent() -> None:
    gate.open(_reconnect)


def _reconnect() -> None:
    for survivor in _all_survivors():
        survivor.after_fork_in_parent()


def _after_fork_in_child() -> None:
    global _is_spoilt, _register_lock
    _is_spoilt = _is_spoilt or _fork.will_be_spoilt
    _register_lock = threading.RLock()
    gate.__init__()  # type: ignore[misc]  # the parent's threads are gone, and what they held with them
    for survivor in _all_survivors():
        survivor.after_fork_in_child()
