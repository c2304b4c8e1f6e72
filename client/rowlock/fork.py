"""Making clients survive a fork.

1. grpc reads GRPC_ENABLE_FORK_SUPPORT once, when it is first imported; without it some forked children hang for ever.
   So the package's __init__ imports this module first of all. When somebody else imported grpc first and without it,
   that is said at the fork of a process that has a client open, which is when it does harm.
2. Even then a connection that is in use does not survive (tried: with threads that call all the time, 1 or 2 of 20
   children hung, and the parent's stream was dead). So every call of the threaded client passes the gate; a fork waits
   until no call is under way, then ends the connections, and lets grpc's own threads come to rest: it has no way to
   tell, and without the pause 3 of 160 children hung, with it 0 of 160, on a machine with six times the work that it
   can do. Parent and child open new connections at their next call; scans that other threads have begun go on at a
   new read point.
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
from collections import deque
from types import TracebackType
from typing import Protocol

from rowlock.errors import ClosedError

_SWITCH = "GRPC_ENABLE_FORK_SUPPORT"
_ON = ("1", "true", "yes", "on")

_is_too_late = "grpc" in sys.modules and os.environ.get(_SWITCH, "").lower() not in _ON
os.environ.setdefault(_SWITCH, "1")

# A call that takes longer must not hold up a fork for ever: it may belong to the very thread that forks.
_WAIT_S_MAX = 2.0
_SETTLE_S = 0.1


class ForkGate:
    """Passed by calls, closed while the process forks. Thread-safe; a `with` block is one call.

    Passing it open takes no lock, since every call does: adding to a deque and removing from it are atomic, and who
    passes adds first and looks at the gate then, while who closes it does so first and counts then.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition(threading.Lock())
        # One entry a call.
        self._under_way: deque[None] = deque()
        # Set with the condition held, read by anybody.
        self._is_closed = False

    def __enter__(self) -> None:
        self._under_way.append(None)
        if self._is_closed:
            self._pass_later()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._under_way.pop()
        if self._is_closed:
            with self._condition:
                self._condition.notify_all()

    def _pass_later(self) -> None:
        """Steps back until it is open."""
        with self._condition:
            self._under_way.pop()
            self._condition.notify_all()
            while self._is_closed:
                self._condition.wait()
            self._under_way.append(None)

    def close(self, timeout_s: float) -> bool:
        """Lets no call begin, and waits until none is under way; whether that came true in time."""
        with self._condition:
            self._is_closed = True
            return self._condition.wait_for(lambda: not self._under_way, timeout_s)

    def open(self) -> None:
        with self._condition:
            self._is_closed = False
            self._condition.notify_all()


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

_register_lock = threading.Lock()
# Guarded by _register_lock:
_is_told_of_forks = False
# Written by the thread that forks:
_will_be_spoilt = False
_is_spoilt = False
_survivors: weakref.WeakSet[SurvivesFork] = weakref.WeakSet()
# The parent's grpc objects, kept alive in the child: their destructors take locks that a thread of the parent may
# have held at the fork.
_never_collected: list[object] = []


def register(survivor: SurvivesFork) -> None:
    """Tells it of every fork from now on, as long as it lives. Called when it has opened its first channel.

    grpc has registered its own handlers by then. The last registered is told first that a fork begins, so ours can
    still end connections; after grpc's, every thread of grpc stands still.
    """
    global _is_told_of_forks
    with _register_lock:
        _survivors.add(survivor)
        if not _is_told_of_forks:
            _is_told_of_forks = True
            os.register_at_fork(
                before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
            )


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


def _before_fork() -> None:
    global _will_be_spoilt
    connected = [survivor for survivor in _survivors if survivor.is_connected]
    _will_be_spoilt = any(survivor.is_asyncio for survivor in connected)
    if _will_be_spoilt:
        _warn(
            "this process forks with a client of rowlock.aio open, which grpc does not survive: the child can't use "
            "rowlock. Close the client before, or use the threaded one."
        )
    elif connected and _is_too_late:
        _warn(
            f"this process forks with a rowlock client open, but grpc was imported before rowlock and without "
            f"{_SWITCH}=1: the child may hang. Import rowlock first, or set the variable for the whole process."
        )
    if _will_be_spoilt:
        return
    if "grpc.aio" in sys.modules:
        # What is left of closed asyncio clients keeps a thread in grpc until it is collected.
        gc.collect()
    gate.close(_WAIT_S_MAX)
    for survivor in list(_survivors):
        survivor.before_fork()
    time.sleep(_SETTLE_S)


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=3)


def _after_fork_in_parent() -> None:
    global _will_be_spoilt
    _will_be_spoilt = False
    gate.open()
    for survivor in list(_survivors):
        survivor.after_fork_in_parent()


def _after_fork_in_child() -> None:
    global _is_spoilt, _register_lock
    _is_spoilt = _is_spoilt or _will_be_spoilt
    _register_lock = threading.Lock()
    gate.__init__()  # type: ignore[misc]  # the parent's threads are gone, and what they held with them
    for survivor in list(_survivors):
        survivor.after_fork_in_child()
