"""The clock: the only source of time, so that tests can control it."""

from __future__ import annotations

import time

_MS_NS = 1_000_000


class Clock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch. May go back when the system clock is set."""
        return time.time_ns() // _MS_NS

    # Seconds from an arbitrary start; never goes back. For deadlines and leases. Not a function around it, because each
    # request asks it six times.
    monotonic = staticmethod(time.monotonic)

    def wait_for_next_ms(self) -> None:
        """Blocks until `now_ms` has changed, for a millisecond at most."""
        time.sleep((_MS_NS - time.time_ns() % _MS_NS) / 1e9)


class ManualClock(Clock):
    """A clock that moves only by its methods, for tests."""

    def __init__(self, now_ms: int = 1_700_000_000_000, monotonic: float = 1000.0) -> None:
        self._now_ms = now_ms
        self._monotonic = monotonic

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._monotonic

    def wait_for_next_ms(self) -> None:
        """Moves both clocks forward by a millisecond."""
        self.advance(1)

    def advance(self, milliseconds: int) -> None:
        """Moves both clocks forward."""
        self._now_ms += milliseconds
        self._monotonic += milliseconds / 1000

    def set_now_ms(self, now_ms: int) -> None:
        """Sets the wall clock only, also backwards, as an operator or NTP would."""
        self._now_ms = now_ms
