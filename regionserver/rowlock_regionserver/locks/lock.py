"""A lock as values: what is locked, how, by whom, and how it is listed."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from rowlock_regionserver.sessions.session import SessionRef


class Mode(enum.Enum):
    """SHARED goes together with SHARED, EXCLUSIVE with nothing."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"


class LockKey(NamedTuple):
    """A node of the tree. Keys sort as locks are taken: a table comes before its regions."""

    table: str
    region_id: int = 0  # 0: the table itself


# What a request locks, ascending, each table with its regions' keys after it.
Wanted = tuple[tuple[LockKey, Mode], ...]


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Who locks: a session, or a call that runs. `purpose` is what the lock is for, in words."""

    holder_id: str
    owner: str
    purpose: str
    session: SessionRef | None = None  # None: a call
    is_explicit: bool = False  # a client has asked for the lock itself, which gets a number


class LockState(enum.Enum):
    """The state of a lock in a list."""

    HELD = "held"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class LockInfo:
    """A held or wanted lock of one node at one moment, for people."""

    key: LockKey
    mode: Mode
    state: LockState
    holder: LockHolder
    number: int  # of the request, when it is held as a whole; 0: not yet, or a call's
    since_ms: int  # when it was taken, or requested; the server's clock
    waits_for: tuple[str, ...] = ()  # ids of the holders, and of those that wait before
    waits_until_ms: int = 0  # when it is refused


def wanted_of(keys: Iterable[tuple[LockKey, Mode]]) -> Wanted:
    """Returns the keys in the order of taking. The table of a region is locked too, at least shared."""
    modes: dict[LockKey, Mode] = {}
    for key, mode in keys:
        modes.setdefault(LockKey(key.table), Mode.SHARED)
        if mode is Mode.EXCLUSIVE or key not in modes:
            modes[key] = mode
    return tuple(sorted(modes.items()))
