"""Locks, without I/O: requests, and the pauses between them while others hold the lock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import get_args

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

_MODES = {"shared": sessions_pb2.LOCK_MODE_SHARED, "exclusive": sessions_pb2.LOCK_MODE_EXCLUSIVE}


@dataclass(frozen=True, slots=True)
class LockPolicy:
    """How a client waits for locks that others hold.

    wait_s: how long one request waits on the server; 0: not at all. retries: how often a refused request is repeated.
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
    def wait_ms(self) -> int:
        """For a request."""
        return round(self.wait_s * 1000)

    def options(self, session: OpenedSession | None = None) -> catalog_pb2.LockOptions:
        """Returns the options of a call that takes locks. Raises SessionEndedError."""
        return catalog_pb2.LockOptions(session=ref_of(session), wait_ms=self.wait_ms, owner=default_owner())


DEFAULT_LOCK_POLICY = LockPolicy()


class LockAttempts:
    """The attempts of one request that takes locks."""

    def __init__(self, policy: LockPolicy) -> None:
        self._policy = policy
        self._count = 0

    def pause_s(self, error: LockUnavailableError) -> float:
        """Returns the pause in seconds before the next attempt. Raises the error if there is none."""
        if self._count >= self._policy.retries:
            raise error
        self._count += 1
        return min(self._policy.retry_s_max, _PAUSE_FIRST_S * 2.0 ** min(self._count - 1, 40))


def lock_request(
    tables: str | Iterable[str], mode: LockMode, region: int | None, purpose: str, policy: LockPolicy
) -> sessions_pb2.TakeLockRequest:
    """Returns the request that takes locks, without its session. Raises InvalidArgumentError and TypeError."""
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
        wait_ms=policy.wait_ms,
        purpose=checked_text("purpose", purpose),
    )
