"""Locks, without I/O: requests, how long they wait, and the pauses between them while others hold the lock.

A request that is refused when it has waited has lost its place in the server's queue, and others pass it during the
pause. So one request waits for the time of all: their waits, and the pauses between them. Pauses remain for requests
that are refused earlier.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias, get_args

from rowlock_proto.v1 import catalog_pb2, sessions_pb2

from rowlock._codec.columns import check_int, listed
from rowlock._core.catalog import check_table_name
from rowlock._core.session_requests import OpenedSession, checked_text, default_owner, new_id, ref_of
from rowlock.errors import InvalidArgumentError, LockUnavailableError
from rowlock.session_info import LockMode

WAIT_S_DEFAULT = 10.0
RETRIES_DEFAULT = 10
RETRY_S_MAX_DEFAULT = 60.0
_PAUSE_FIRST_S = 0.1
# The protocol has 32 bits for milliseconds.
_WAIT_S_MAX = 4_000_000
# From then on a pause is the longest, because it would exceed _WAIT_S_MAX.
_DOUBLINGS_MAX = 26
# How long one request waits at most, unless wait_s is more: as long as a server allows by default.
_REQUEST_S_MAX = 600.0
# Tables that a purpose names.
_TABLES_SHOWN_MAX = 3

# The requests of calls that take locks.
LockingRequest: TypeAlias = (
    catalog_pb2.CreateTableRequest
    | catalog_pb2.AlterTableRequest
    | catalog_pb2.TruncateTableRequest
    | catalog_pb2.DropTableRequest
    | catalog_pb2.SplitRegionRequest
    | catalog_pb2.MergeRegionsRequest
    | catalog_pb2.CreateNamedSnapshotRequest
    | catalog_pb2.RestoreNamedSnapshotRequest
    | catalog_pb2.MakeSnapshotRequest
    | sessions_pb2.CommitBulkWriteRequest
    | sessions_pb2.TakeLockRequest
)

_MODES = {"shared": sessions_pb2.LOCK_MODE_SHARED, "exclusive": sessions_pb2.LOCK_MODE_EXCLUSIVE}


@dataclass(frozen=True, slots=True)
class LockPolicy:
    """How a client waits for locks that others hold.

    wait_s: how long each try waits on the server; 0: not at all. retries: how often a refused request is repeated.
    retry_s_max: the longest pause between two requests; the first is 0.1 s, each next one twice as long.
    """

    wait_s: float = WAIT_S_DEFAULT
    retries: int = RETRIES_DEFAULT
    retry_s_max: float = RETRY_S_MAX_DEFAULT

    def __post_init__(self) -> None:
        for name, value in (("lock_wait_s", self.wait_s), ("lock_retry_s_max", self.retry_s_max)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _WAIT_S_MAX:
                raise InvalidArgumentError(f"{name} must be a number of seconds from 0 on, not {value!r:.100}")
        check_int("lock_retries", self.retries)
        if self.retries < 0:
            raise InvalidArgumentError(f"lock_retries must be 0 or more, not {self.retries}")

    def changed(self, wait_s: float | None, retries: int | None) -> LockPolicy:
        """Returns the policy with these values, as far as they are given."""
        return LockPolicy(
            self.wait_s if wait_s is None else wait_s,
            self.retries if retries is None else retries,
            self.retry_s_max,
        )

    @property
    def whole_s(self) -> float:
        """The waits of all tries, and the pauses between them."""
        retries = min(self.retries, _WAIT_S_MAX * 1000)
        doubled = min(retries, _DOUBLINGS_MAX)
        pauses_s = sum(map(self.pause_s, range(doubled))) + (retries - doubled) * self.retry_s_max
        return (retries + 1) * self.wait_s + pauses_s

    def pause_s(self, place: int) -> float:
        """Returns the pause before a retry; place: how many retries were before it."""
        return min(self.retry_s_max, _PAUSE_FIRST_S * 2.0 ** min(place, _DOUBLINGS_MAX))


DEFAULT_LOCK_POLICY = LockPolicy()


def lock_options(session: OpenedSession | None = None) -> catalog_pb2.LockOptions:
    """Returns the options of a call that takes locks, but for its wait. Raises SessionEndedError."""
    return catalog_pb2.LockOptions(session=ref_of(session), owner=default_owner())


class LockAttempts:
    """The attempts of one request that takes locks. They begin now."""

    def __init__(self, policy: LockPolicy, clock: Callable[[], float] = time.monotonic) -> None:
        self._policy = policy
        self._clock = clock
        self._ends_at = clock() + policy.whole_s
        self._count = 0

    def wait_ms(self) -> int:
        """Returns how long the next attempt waits on the server: until all are over, if they wait at all."""
        if not self._policy.wait_s:
            return 0
        left_s = max(0.0, self._ends_at - self._clock()) if self._count else self._policy.whole_s
        return round(1000 * min(left_s, max(self._policy.wait_s, _REQUEST_S_MAX)))

    def set_wait(self, request: catalog_pb2.LockOptions | sessions_pb2.TakeLockRequest) -> float:
        """Sets how long the next attempt waits on the server, and returns it in seconds."""
        request.wait_ms = self.wait_ms()
        return request.wait_ms / 1000

    def pause_s(self, error: LockUnavailableError) -> float:
        """Returns the pause in seconds before the next attempt. Raises the error if there is none."""
        pause_s = self._policy.pause_s(self._count)
        is_late = self._policy.wait_s > 0 and self._clock() + pause_s >= self._ends_at
        if self._count >= self._policy.retries or is_late:
            raise error
        self._count += 1
        return pause_s


def purpose_of(request: sessions_pb2.TakeLockRequest) -> str:
    """Returns the purpose of a lock's session: the lock's, or else what it locks. It fits even with many tables."""
    names = [target.table for target in request.targets]
    more = f" and {len(names) - _TABLES_SHOWN_MAX} more tables" if len(names) > _TABLES_SHOWN_MAX else ""
    return request.purpose or f"lock of {', '.join(names[:_TABLES_SHOWN_MAX])}{more}"


def lock_request(
    tables: str | Iterable[str], mode: LockMode, region: int | None, purpose: str
) -> sessions_pb2.TakeLockRequest:
    """Returns the request that takes locks, but for its session and its wait.

    Raises InvalidArgumentError and TypeError.
    """
    if mode not in _MODES:
        known = " or ".join(map(repr, get_args(LockMode)))
        raise InvalidArgumentError(f"mode must be {known}, not {mode!r:.100}")
    names = [tables] if isinstance(tables, str) else list(listed("tables", "names", tables))
    if not names:
        raise InvalidArgumentError("name at least one table to lock")
    for name in names:
        check_table_name(name)
    if region is not None:
        check_int("region", region)
        if len(names) != 1 or region < 1:
            raise InvalidArgumentError("region is the id of a region of the one table that is named")
    return sessions_pb2.TakeLockRequest(
        lock_id=new_id(),
        targets=[sessions_pb2.LockTarget(table=name, region_id=region or 0, mode=_MODES[mode]) for name in names],
        purpose=checked_text("purpose", purpose),
    )
