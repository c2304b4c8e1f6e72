"""Making clients survive a fork: grpc's own support switched on in time, and every client told in the child.

grpc reads GRPC_ENABLE_FORK_SUPPORT once, when it is first imported; without it some forked children hang for ever.
So the package's __init__ imports this module first of all. When somebody else imported grpc first and
without it, that is said at the fork of a process that has a client open, which is when it does harm.

In the child the parent's streams, threads and locks mean nothing: each registered client drops them, unclosed, and
opens its own at its next call.
"""

from __future__ import annotations

import os
import sys
import warnings
import weakref
from typing import Protocol

_SWITCH = "GRPC_ENABLE_FORK_SUPPORT"
_ON = ("1", "true", "yes", "on")

_is_too_late = "grpc" in sys.modules and os.environ.get(_SWITCH, "").lower() not in _ON
os.environ.setdefault(_SWITCH, "1")


class SurvivesFork(Protocol):
    """What is told in the child of a fork."""

    def after_fork_in_child(self) -> None:
        """Drops everything that belonged to the parent, without closing it. No other thread runs."""
        ...


_survivors: weakref.WeakSet[SurvivesFork] = weakref.WeakSet()
# The parent's grpc objects, kept alive in the child: their destructors take locks that a thread of the parent may
# have held at the fork.
_never_collected: list[object] = []


def register(survivor: SurvivesFork) -> None:
    """Tells it in every child forked from now on, as long as it lives."""
    _survivors.add(survivor)


def keep(parents_object: object) -> None:
    """Keeps an object of the parent from being destroyed in the child."""
    _never_collected.append(parents_object)


def _before_fork() -> None:
    if _is_too_late and len(_survivors) > 0:
        warnings.warn(
            f"this process forks with a rowlock client open, but grpc was imported before rowlock and without "
            f"{_SWITCH}=1: the child may hang. Import rowlock first, or set the variable for the whole process.",
            RuntimeWarning,
            stacklevel=2,
        )


def _after_fork_in_child() -> None:
    for survivor in list(_survivors):
        survivor.after_fork_in_child()


os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
