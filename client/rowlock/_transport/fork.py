"""Fork handlers, which let clients survive a fork.

1. grpc reads GRPC_ENABLE_FORK_SUPPORT once, at its first import. Without it some forked children hang forever. So the
   package's __init__ imports this module first of all. If the program imported grpc earlier, and without the variable,
   a warning says so when a process with an open client forks.
2. Even with it, a connection in use does not survive a fork (tried: with threads that call all the time, 1 or 2 of 20
   children hung, and the parent's stream was dead). So every call of the threaded client passes the gate. A fork closes
   the gate, closes the connections, and waits a moment for grpc's own threads, because grpc can't report that they are
   idle. Without the wait 3 of 160 children hung, with it 0 of 160, on a machine with six times the load that it can
   bear. Threads that fork at the same time share the wait (fork_gate.py). Parent and child open new connections at
   their next call. Calls that were cut off are retried, and scans in other threads resume at a new read point.
3. The parent's threads don't exist in the child, and its locks may be held forever. So each registered client drops
   them in the child.
4. grpc's asyncio side does not survive a fork at all: if the parent has one of its channels open, any use of grpc in
   the child hangs or crashes (tried: 6 of 6). Such a fork warns, and in the child every client refuses to connect. A
   client of rowlock.aio that was closed before does no harm, after its objects are collected.
5. A child can't import a module that another thread was importing. So a fork waits for such imports
   (running_imports.py).
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
from rowlock._transport.running_imports import wait_for_imports
from rowlock.errors import ClosedError

_SWITCH = "GRPC_ENABLE_FORK_SUPPORT"
_ON = ("1", "true", "yes", "on")

_lacks_fork_support = "grpc" in sys.modules and os.environ.get(_SWITCH, "").lower() not in _ON
os.environ.setdefault(_SWITCH, "1")

# How long grpc's own threads take to become idle after a connection was closed; grpc does not report it.
_IDLE_AFTER_S = 0.1


class SurvivesFork(Protocol):
    """An object with fork handlers."""

    @property
    def is_connected(self) -> bool:
        """Whether it has open channels."""
        ...

    @property
    def is_asyncio(self) -> bool:
        """Whether its channels are of grpc.aio."""
        ...

    def before_fork(self) -> None:
        """Closes its connections. No call is in flight, except calls that exceeded the gate's time limit."""
        ...

    def after_fork_in_parent(self) -> None:
        """Reopens connections that must be open without a call."""
        ...

    def after_fork_in_child(self) -> None:
        """Drops the parent's objects without closing them. No other thread runs."""
        ...


gate = ForkGate()

# Reentrant, because a signal handler may fork while its thread registers a client.
_register_lock = threading.RLock()
# Guarded by _register_lock:
_is_registered = False
_survivors: weakref.WeakSet[SurvivesFork] = weakref.WeakSet()
# Written in the child of a fork, before it has threads.
_is_unusable = False
# When grpc's threads will be idle after the connections closed so far.
_idle_at = 0.0
# The parent's grpc objects, which stay referenced in the child: their destructors take locks that a thread of the
# parent may have held at the fork.
_kept_alive: list[object] = []


class _Fork(threading.local):
    """State of a thread between the handlers before and after its fork."""

    will_be_unusable = False


_fork = _Fork()


def register(survivor: SurvivesFork) -> None:
    """Registers an object, by weak reference, for the handlers of all later forks. Call it after its first channel.

    By then grpc has registered its own handlers. Handlers before a fork run in reverse order, so ours run first and can
    still close connections. After grpc's handlers, all threads of grpc are stopped.
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


def keep_alive(parents_object: object) -> None:
    """Keeps a reference to an object of the parent, so that it is never destroyed in the child."""
    _kept_alive.append(parents_object)


def check_usable() -> None:
    """Raises ClosedError in the child of a fork that grpc did not survive."""
    if _is_unusable:
        raise ClosedError(
            "the parent of this process had a client of rowlock.aio open when it forked, which grpc does not survive; "
            "close it before the fork, or use the threaded client there"
        )


def note_disconnect() -> None:
    """Records that a connection was closed; a fork then waits until grpc is idle."""
    global _idle_at
    _idle_at = time.monotonic() + _IDLE_AFTER_S


def _before_fork() -> None:
    connected = [survivor for survivor in _all_survivors() if survivor.is_connected]
    _fork.will_be_unusable = any(survivor.is_asyncio for survivor in connected)
    if _fork.will_be_unusable:
        _warn(
            "this process forks with a client of rowlock.aio open, which grpc does not survive: the child can't use "
            "rowlock. Close the client before, or use the threaded one."
        )
        return
    if connected and _lacks_fork_support:
        _warn(
            f"this process forks with a rowlock client open, but grpc was imported before rowlock and without "
            f"{_SWITCH}=1: the child may hang. Import rowlock first, or set the variable for the whole process."
        )
    gate.close(_disconnect)
    wait_for_imports()  # Last, because scans on direct connections go on, and may begin an import.


def _disconnect() -> None:
    """Closes all connections, and waits until grpc is idle."""
    if "grpc.aio" in sys.modules:
        # Objects of closed asyncio clients keep a thread in grpc until they are collected.
        gc.collect()
    for survivor in _all_survivors():
        survivor.before_fork()
    time.sleep(max(0.0, _idle_at - time.monotonic()))


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=3)


def _after_fork_in_parent() -> None:
    gate.open(_reconnect)


def _reconnect() -> None:
    for survivor in _all_survivors():
        survivor.after_fork_in_parent()


def _after_fork_in_child() -> None:
    global _is_unusable, _register_lock
    _is_unusable = _is_unusable or _fork.will_be_unusable
    _register_lock = threading.RLock()
    gate.__init__()  # type: ignore[misc]  # the parent's threads, which may hold its lock, are gone
    for survivor in _all_survivors():
        survivor.after_fork_in_child()
