"""When a failed call is tried again, after which pause, and with which error it ends: rules without I/O.

A call has one deadline over all its attempts. What may be tried again:

- a lost connection, and a server that is stopping: the change carries its number, so it applies once;
- NOT_SERVING_REGION, after the region was looked up again;
- a server at its bound (RegionTooBusyError, DiskFullError), not before the pause it asked for. One that says that it is
  busy is alive: with busy_s each such answer puts the deadline off, until busy_s after the first of them, whatever else
  is met in between;
- "unknown outcome" from the server: it answers the number's true outcome once it knows.

A change that was sent and not answered may have happened, and stays so until the server answers for it. From then on
every other end of the call is told as UnknownOutcomeError, but for refusals that depend on the request alone: those
were the outcome of the earlier attempts too.

A server remembers an answer for some time only. So a change in doubt says, each time it is sent again, how long ago the
call began, also if this process or the machine was stopped meanwhile, and the server judges whether it may have
forgotten the answer. It is not sent again at all when half of that time is over.
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

# What is done with a whole table takes as long as the server's disk does, and continues when its caller gives up. A
# server that is gone is noticed long before, see channels.py.
TABLE_OPERATION_S = 600.0

# A change in doubt is not sent again after this. For servers that do not say how long they remember answers: an hour.
REPEATED_FOR_S = 1800.0


def repeated_for_s(remembered_ms: int) -> float:
    """How long after its beginning a change in doubt may be sent again to a server that remembers answers so long."""
    return remembered_ms / 2000 if remembered_ms else REPEATED_FOR_S


class Kind(enum.Enum):
    """What a repeated call would do."""

    READ = enum.auto()
    NUMBERED_CHANGE = enum.auto()  # applies once, however often it is sent
    PLAIN_CHANGE = enum.auto()  # must not be sent again once it may have arrived


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Pauses between attempts: doubled each time, each drawn between half and whole."""

    pause_first_s: float = 0.01
    pause_s_max: float = 1.0

    def pause_s(self, attempt: int, draw: float) -> float:
        """The pause after the attempt-th failure (counted from 1); draw in [0, 1)."""
        whole = min(self.pause_s_max, self.pause_first_s * 2.0 ** min(attempt - 1, 30))
        return whole * (0.5 + draw / 2)


DEFAULT_POLICY = RetryPolicy()


def is_busy(error: RowlockError) -> bool:
    """Whether a server that is there says to come back a little later; a full disk may stay so for days."""
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
        "_met",
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
        """began_s: when the call began, by uptime_s; None: now. repeated_for_s: how long it is repeated in doubt.

        clock: stands for uptime_s.
        """
        self._uptime_s = clock or uptime_s
        self._began_s = self._uptime_s() if began_s is None else began_s
        self._repeated_for_s = repeated_for_s
        self.deadline = now + timeout_s
        self.timeout_s = timeout_s
        self.count = 0
        self._busy_s = busy_s
        # How long a server that says that it is busy is waited for; None before it first does. It begins only once.
        self._busy_until: float | None = None
        # The server said so last.
        self._is_busy = False
        self._policy = policy
        self._kind = kind
        # An attempt was left without an answer.
        self._is_in_doubt = False
        # What the attempt before ended with.
        self._met: RowlockError | None = None

    @property
    def given_up_at(self) -> float:
        """When the call ends if it meets what it has met last until then."""
        return self._busy_until if self._is_busy and self._busy_until is not None else self.deadline

    def failed(self, error: RowlockError, now: float, *, was_sent: bool) -> float:
        """The pause in seconds before the next attempt; raises what the call ends with if there is none.

        was_sent: the request was given to the connection, and this error is not the server's answer to it.
        """
        self.count += 1
        self._met = error
        is_in_doubt = was_sent and not _was_not_let_in(error)
        if self._kind is not Kind.READ and (is_in_doubt or isinstance(error, UnknownOutcomeError | ServerError)):
            self._is_in_doubt = True
        if not self._may_repeat(error):
            self._raise(self.last_word(error, was_sent=was_sent), error)
        pause = max(self._policy.pause_s(self.count, random.random()), error.retry_after_ms / 1000)
        self._put_off(error, now, pause)
        if now + pause >= self.given_up_at:
            self._raise(self.out_of_time(error), error)
        if not self._is_in_doubt:  # A busy server may refuse for an hour: what it refused does not age.
            self._began_s = self._uptime_s()
        return pause

    def age_ms(self) -> int:
        """How long ago a change in doubt was first sent, at the least 1; 0 when it is in no doubt. Before each attempt.

        Raises UnknownOutcomeError when that is too long ago for a server to remember its answer.
        """
        if not self._is_in_doubt:
            return 0
        if self._is_too_old():
            self._raise(self._unknown(self._met, is_late=False), self._met)
        return max(1, int((self._uptime_s() - self._began_s) * 1000))

    def _is_too_old(self) -> bool:
        return self._uptime_s() - self._began_s > self._repeated_for_s

    def last_word(self, error: RowlockError, *, was_sent: bool) -> RowlockError:
        """What the call ends with when it is not tried again after this error."""
        if not self._is_in_doubt or type(error) is LimitExceededError:
            return error
        if type(error) is InvalidArgumentError and not was_sent:
            # The server's answer to this request, and not the end of a whole stream for somebody else's.
            return error
        return self._unknown(error, is_late=False)

    def out_of_time(self, error: RowlockError | None) -> RowlockError:
        """What the call ends with when its deadline has passed; `error` was met last."""
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
        met = f"; met last: {error.message}" if error is not None else ""
        promise = "" if self._kind is Kind.READ else " Nothing was changed."
        return DeadlineError(f"no answer within {self.timeout_s:g} s{met}.{promise}")

    def _put_off(self, error: RowlockError, now: float, pause: float) -> None:
        """A busy server is there: its time begins again with each such answer, up to busy_s after the first one."""
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
    def _raise(told: RowlockError, met: RowlockError | None) -> NoReturn:
        if told is met:
            raise told
        raise told from met

    def _unknown(self, error: RowlockError | None, *, is_late: bool) -> UnknownOutcomeError:
        """is_late: the call ends because its time is over, and not for the error."""
        met = f"; met last: {error.message}" if error is not None else ""
        within = f" within {self.timeout_s:g} s" if is_late and self._kind is not Kind.PLAIN_CHANGE else ""
        advice = (
            "Look at the list of tables, and describe the table, to find out; the server may still be at it."
            if self._kind is Kind.PLAIN_CHANGE
            else "Read the row to find out."
        )
        unknown = UnknownOutcomeError(
            f"the change was sent, and no answer came{within}: it may or may not have happened{met}. {advice}"
        )
        unknown.reason = f"no answer came{within}{met}"
        return unknown

    def timed_out(self, *, was_sent: bool) -> RowlockError:
        """What the call ends with when its last attempt was not answered by the deadline."""
        if was_sent and self._kind is not Kind.READ:
            self._is_in_doubt = True
        told = self._unknown(self._met, is_late=True) if self._is_in_doubt else self.out_of_time(None)
        told.__cause__ = self._met
        return told


def _was_not_let_in(error: RowlockError) -> bool:
    """Whether the error says of a request that was given to the connection that surely nothing of it was begun."""
    if isinstance(error, ServerUnavailableError):
        return error.never_left
    return isinstance(error, AnotherFolderError)
