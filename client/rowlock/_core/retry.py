"""Retry rules, without I/O: whether a failed call is retried, after which pause, and which error it ends with.

A call has one deadline for all its attempts. These failures may be retried:

- a lost connection, and a server that is stopping: the change carries its sequence number, so it applies once;
- NOT_SERVING_REGION, after looking the region up again;
- a server at its bounds (RegionTooBusyError, DiskFullError), after the pause that it requests. A server that answers
  "busy" is alive: with busy_s, each such answer postpones the deadline, until busy_s after the first of them, whatever
  other failures occur in between;
- UNKNOWN_OUTCOME from the server: it answers with the true outcome as soon as it knows it.

A change that was sent and not answered is in doubt until the server answers it. From then on the call ends with
UnknownOutcomeError in place of any other error, except for refusals that depend on the request alone: those were the
outcome of the earlier attempts too.

A server saves an answer for a limited time. So each repetition of a change in doubt carries its age: how long ago the
call began, including time in which this process or the machine was stopped. The server judges by it whether it may have
forgotten the answer. When half of the server's time is over, the change is not repeated any more.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from rowlock._core.uptime import uptime_s
from rowlock.errors import (
    AnotherFolderError,
    DeadlineError,
    DiskFullError,
    InvalidArgumentError,
    LimitExceededError,
    NotServingRegionError,
    RegionTooBusyError,
    RowlockError,
    ServerError,
    ServerUnavailableError,
    UnknownOutcomeError,
)

# An operation on a whole table takes as long as the server's disk needs, and continues when its caller gives up. The
# client notices a dead server much earlier, see channels.py.
TABLE_OPERATION_S = 600.0

# A change in doubt is not repeated after this time. Half of an hour, which servers that don't state a time remember.
REPEATED_FOR_S = 1800.0


def repeated_for_s(remembered_ms: int) -> float:
    """Returns for how long a change in doubt may be repeated: half of the time that the server remembers answers."""
    return remembered_ms / 2000 if remembered_ms else REPEATED_FOR_S


class Kind(enum.Enum):
    """The effect of repeating a call."""

    READ = enum.auto()
    NUMBERED_CHANGE = enum.auto()  # applies once, however often it is sent
    PLAIN_CHANGE = enum.auto()  # must not be repeated when it may have arrived


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Pauses between attempts: exponential backoff; each pause is drawn between half and all of the backoff."""

    pause_first_s: float = 0.01
    pause_s_max: float = 1.0

    def pause_s(self, attempt: int, draw: float) -> float:
        """Returns the pause after the attempt-th failure (counted from 1); draw in [0, 1)."""
        backoff_s = min(self.pause_s_max, self.pause_first_s * 2.0 ** min(attempt - 1, 30))
        return backoff_s * (0.5 + draw / 2)


DEFAULT_POLICY = RetryPolicy()


def is_busy(error: RowlockError) -> bool:
    """Returns whether a live server answered "busy". Not for a full disk, which may stay full for days."""
    return isinstance(error, RegionTooBusyError) and not isinstance(error, DiskFullError)


class Attempts:
    """The attempts of one call. Times are seconds on one monotonic clock. Not thread-safe: one call, one caller."""

    __slots__ = (
        "_began_s",
        "_busy_s",
        "_busy_until",
        "_is_busy",
        "_is_in_doubt",
        "_kind",
        "_last_error",
        "_policy",
        "_repeated_for_s",
        "_uptime_s",
        "count",
        "deadline",
        "timeout_s",
    )

    def __init__(
        self,
        now: float,
        timeout_s: float,
        kind: Kind,
        policy: RetryPolicy = DEFAULT_POLICY,
        *,
        busy_s: float = 0.0,
        began_s: float | None = None,
        repeated_for_s: float = REPEATED_FOR_S,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """busy_s: how long to retry while the server is busy. began_s: when the call began, by `clock`; None: now.

        repeated_for_s: how long a change in doubt is repeated. clock: None: uptime_s.
        """
        self._uptime_s = clock or uptime_s
        self._began_s = self._uptime_s() if began_s is None else began_s
        self._repeated_for_s = repeated_for_s
        self.deadline = now + timeout_s
        self.timeout_s = timeout_s
        self.count = 0
        self._busy_s = busy_s
        # Until when a busy server is retried; set at the first such answer, and never moved.
        self._busy_until: float | None = None
        # Whether the last failure was "busy".
        self._is_busy = False
        self._policy = policy
        self._kind = kind
        # Whether an attempt was sent and not answered.
        self._is_in_doubt = False
        self._last_error: RowlockError | None = None

    @property
    def ends_at(self) -> float:
        """When the call ends if it keeps failing as it did last."""
        return self._busy_until if self._is_busy and self._busy_until is not None else self.deadline

    def failed(self, error: RowlockError, now: float, *, was_sent: bool) -> float:
        """Returns the pause in seconds before the next attempt. Raises the call's final error if there is none.

        was_sent: the request was given to the connection, and this error is not the server's answer to it.
        """
        self.count += 1
        is_late = now >= self.ends_at and isinstance(error, ServerUnavailableError)
        if self._last_error is None or not is_late:  # An attempt that the deadline cuts says less than the one before.
            self._last_error = error
        is_in_doubt = was_sent and not _was_not_admitted(error)
        if self._kind is not Kind.READ and (is_in_doubt or isinstance(error, UnknownOutcomeError | ServerError)):
            self._is_in_doubt = True
        if not self._may_repeat(error):
            self._raise(self.final_error(error, was_sent=was_sent), error)
        pause = max(self._policy.pause_s(self.count, random.random()), error.retry_after_ms / 1000)
        if self.count == 1 and isinstance(error, NotServingRegionError):
            pause = 0.0  # It was split, say, and the catalog names the new regions already.
        self._postpone(error, now, pause)
        if now + pause >= self.ends_at:
            self._raise(self.out_of_time(self._last_error), self._last_error)
        if not self._is_in_doubt:  # A busy server may refuse for an hour; a refused change does not age.
            self._began_s = self._uptime_s()
        return pause

    def age_ms(self) -> int:
        """Returns the milliseconds since a change in doubt was first sent, at least 1; 0 if it is not in doubt.

        Call it before each attempt. Raises UnknownOutcomeError if the server may have forgotten the answer.
        """
        if not self._is_in_doubt:
            return 0
        if self._is_too_old():
            self._raise(self._unknown(self._last_error, is_late=False), self._last_error)
        return max(1, int((self._uptime_s() - self._began_s) * 1000))

    def _is_too_old(self) -> bool:
        return self._uptime_s() - self._began_s > self._repeated_for_s

    def final_error(self, error: RowlockError, *, was_sent: bool) -> RowlockError:
        """Returns the error that the call ends with if it is not retried after this one."""
        if not self._is_in_doubt or type(error) is LimitExceededError:
            return error
        if type(error) is InvalidArgumentError and not was_sent:
            # The server's answer to this request, not the end of the stream because of another request.
            return error
        return self._unknown(error, is_late=False)

    def out_of_time(self, error: RowlockError | None, origin: str = "") -> RowlockError:
        """Returns the error that the call ends with at its deadline after this failure. origin: see timed_out."""
        if self._is_in_doubt:
            return self._unknown(error, is_late=True)
        if error is not None and self._is_busy:
            return RegionTooBusyError(
                f"the server stayed busy for {self._busy_s:g} s: {error.message}",
                table=error.table,
                row=error.row,
                retry_after_ms=error.retry_after_ms,
            )
        if isinstance(error, RegionTooBusyError | NotServingRegionError | DeadlineError):
            return error
        cause = f"; last error: {error.message}" if error is not None else ""
        promise = "" if self._kind is Kind.READ else " Nothing was changed."
        return DeadlineError(f"no answer within {self.timeout_s:g} s{cause}{origin}.{promise}")

    def _postpone(self, error: RowlockError, now: float, pause: float) -> None:
        """Postpones the deadline after an answer of a busy server, until busy_s after the first such answer."""
        self._is_busy = self._busy_s > 0 and is_busy(error)
        if self._is_busy:
            if self._busy_until is None:
                self._busy_until = now + self._busy_s
            self.deadline = max(self.deadline, now + pause + self.timeout_s)

    def _may_repeat(self, error: RowlockError) -> bool:
        if self._is_in_doubt:
            if self._kind is Kind.PLAIN_CHANGE or self._is_too_old():
                return False
            if isinstance(error, UnknownOutcomeError):
                return True
        return isinstance(error, ServerUnavailableError | NotServingRegionError | RegionTooBusyError)

    @staticmethod
    def _raise(final: RowlockError, cause: RowlockError | None) -> NoReturn:
        if final is cause:
            raise final
        raise final from cause

    def _unknown(self, error: RowlockError | None, *, is_late: bool) -> UnknownOutcomeError:
        """is_late: the call ends because its time is over, not because of the error."""
        cause = f"; last error: {error.message}" if error is not None else ""
        within = f" within {self.timeout_s:g} s" if is_late and self._kind is not Kind.PLAIN_CHANGE else ""
        advice = (
            "List the tables, and describe the table, to find out; the server may still be working on it."
            if self._kind is Kind.PLAIN_CHANGE
            else "Read the row to find out."
        )
        unknown = UnknownOutcomeError(
            f"the change was sent, and no answer came{within}: it may or may not have happened{cause}. {advice}"
        )
        unknown.reason = f"no answer came{within}{cause}"
        return unknown

    def timed_out(self, *, was_sent: bool, origin: str = "") -> RowlockError:
        """Returns the error that the call ends with if its last attempt was not answered by the deadline.

        origin: where the server's address is from, see advertised.py.
        """
        if was_sent and self._kind is not Kind.READ:
            self._is_in_doubt = True
        if self._is_in_doubt:
            final: RowlockError = self._unknown(self._last_error, is_late=True)
        else:
            final = self.out_of_time(None, origin)
        final.__cause__ = self._last_error
        return final


def _was_not_admitted(error: RowlockError) -> bool:
    """Returns whether the error proves that the server did not begin the request, although it was sent."""
    if isinstance(error, ServerUnavailableError):
        return error.never_left
    return isinstance(error, AnotherFolderError)
