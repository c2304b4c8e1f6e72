"""The ledger: how many bytes each part of the server holds, against the part's own bound and against that of all.

Who needs memory that a client's call asks for takes it first: `take` refuses what does not fit, and then nothing was
counted. What never fits is a LimitExceededError; what does not fit now is a RegionTooBusyError, which says when to try
again. What is there already, or must be made for memory to be freed, is counted by `add`, which refuses nothing.

Bytes are as the process holds them: a request counts with what reading and arranging it takes, a cell with what Python
keeps beside its bytes. The bounds together are less than `memory`; docs/memory.md says what stands in between.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import LimitExceededError, RegionTooBusyError


@dataclass(frozen=True, slots=True)
class AccountStatistics:
    """What one part holds, held at most since the start, and may hold."""

    bytes_held: int
    bytes_held_peak: int
    bytes_max: int


class Ledger:
    """The accounts of one server. Thread-safe; one lock for all, which is a leaf and held for a few lines."""

    def __init__(self, config: Config, own_bytes: int = 0) -> None:
        """`own_bytes`: what the process held for itself before anything was counted, and before clients could send."""
        self.own_bytes = own_bytes
        self.bytes_max = config.memory
        self.retry_after_ms = config.retry_after_ms
        self.lock = threading.Lock()
        # Guarded by self.lock:
        self.bytes_held = 0
        self.watchers: deque[Callable[[], None]] = deque()
        self._accounts: dict[str, Account] = {}
        self._followed: list[_Followed] = []

        self.memstores = self._open("memstore_bytes_max", config.memstore_bytes_max, "memstores")
        self.block_cache = self._open("block_cache_bytes", config.block_cache_bytes, "the block cache")
        self.indexes = self._open("index_bytes_max", config.index_bytes_max, "indexes of store files")
        self.requests = self._open("request_bytes_in_flight_max", config.request_bytes_in_flight_max, "requests")
        self.answers = self._open("answer_bytes_held_max", config.answer_bytes_held_max, "answers")
        self.scans = self._open("scan_bytes_held_max", config.scan_bytes_held_max, "scans")
        self.request_ids = self._open("request_ids_bytes_max", config.request_ids_bytes_max, "request ids")
        self.flushes = self._open("flush_work_bytes_max", config.flush_work_bytes_max, "flushes")

    def _open(self, limit: str, bytes_max: int, holders: str) -> Account:
        account = self._accounts[limit] = Account(self, limit, bytes_max, holders)
        return account

    def when_given(self, wake: Callable[[], None]) -> None:
        """Calls `wake` once, when some bytes were given back; from any thread, and it must not block."""
        with self.lock:
            self.watchers.append(wake)

    def wake(self) -> None:
        """Calls those that wait for bytes to be given back."""
        with self.lock:
            woken, self.watchers = self.watchers, deque()
        for wake in woken:
            wake()

    def _look(self) -> None:
        """Counts what parts that count by themselves hold now. The caller holds self.lock."""
        for followed in self._followed:
            followed.look()

    def statistics(self) -> Mapping[str, AccountStatistics]:
        """By the name of the setting that bounds the part."""
        with self.lock:
            self._look()
            return {
                limit: AccountStatistics(account.bytes_held, account.bytes_held_peak, account.bytes_max)
                for limit, account in self._accounts.items()
            }

    def _check(self) -> None:
        with self.lock:
            held = sum(account.bytes_held for account in self._accounts.values())
            assert held == self.bytes_held, f"{held} bytes held by all, counted {self.bytes_held}"


class Account:
    """What one part of the server holds. Made by its ledger; thread-safe; never waits."""

    __slots__ = ("_holders", "_ledger", "_limit", "bytes_held", "bytes_held_peak", "bytes_max")

    def __init__(self, ledger: Ledger, limit: str, bytes_max: int, holders: str) -> None:
        """`limit`: the setting that bounds it. `holders`: who they are, for messages."""
        self._ledger = ledger
        self._limit = limit
        self._holders = holders
        self.bytes_max = bytes_max
        # Guarded by the ledger's lock; read without it, and then about right:
        self.bytes_held = 0
        self.bytes_held_peak = 0

    def take(self, byte_count: int) -> None:
        """Counts bytes that are about to be held. LimitExceededError or RegionTooBusyError: nothing was counted."""
        if not self.try_take(byte_count):
            raise self.refusal(byte_count)

    def try_take(self, byte_count: int) -> bool:
        """The same, but False when they don't fit now."""
        with self._ledger.lock:
            self._ledger._look()
            if not self.has_room(byte_count):
                return False
            self._count(byte_count)
            return True

    def has_room(self, byte_count: int) -> bool:
        """So many bytes more would fit now."""
        ledger = self._ledger
        return self.bytes_held + byte_count <= self.bytes_max and ledger.bytes_held + byte_count <= ledger.bytes_max

    @property
    def is_half_full(self) -> bool:
        """More than half of its bound is held."""
        return 2 * self.bytes_held > self.bytes_max

    def add(self, byte_count: int) -> None:
        """Counts bytes that are held, or given back when negative, whatever the bounds are."""
        ledger = self._ledger
        with ledger.lock:
            ledger._look()
            self._count(byte_count)
            is_woken = byte_count < 0 and bool(ledger.watchers)
        if is_woken:
            ledger.wake()

    def give(self, byte_count: int) -> None:
        """Counts bytes as given back."""
        self.add(-byte_count)

    @contextlib.contextmanager
    def taken(self, byte_count: int) -> Iterator[None]:
        """Holds the bytes for as long as the context is entered; raises as `take` does."""
        self.take(byte_count)
        try:
            yield
        finally:
            self.give(byte_count)

    def follow(self, bytes_held: Callable[[], int]) -> None:
        """Counts, from here on, also what a part counts by itself.

        It is asked whenever an account changes, with the ledger's lock held: it must neither lock nor block.
        """
        with self._ledger.lock:
            self._ledger._followed.append(_Followed(self, bytes_held))

    def _count(self, byte_count: int) -> None:
        """The caller holds the ledger's lock."""
        self.bytes_held += byte_count
        self._ledger.bytes_held += byte_count
        assert self.bytes_held >= 0, (self._limit, self.bytes_held, byte_count)
        if self.bytes_held > self.bytes_held_peak:
            self.bytes_held_peak = self.bytes_held

    def refusal(self, byte_count: int, retry_after_ms: int = 0) -> LimitExceededError | RegionTooBusyError:
        """Why so many bytes more don't fit."""
        ledger = self._ledger
        if byte_count > self.bytes_max:
            return LimitExceededError(
                f"this takes {byte_count} bytes of memory, and all {self._holders} together may have {self._limit} = "
                f"{self.bytes_max}; ask for less at once, or give the server more memory",
                limit=self._limit,
                limit_value=self.bytes_max,
                found=byte_count,
            )
        if self.bytes_held + byte_count > self.bytes_max:
            held, limit, bytes_max = self.bytes_held, self._limit, self.bytes_max
        else:
            held, limit, bytes_max = ledger.bytes_held, "memory", ledger.bytes_max
        return RegionTooBusyError(
            f"{self._holders} need {byte_count} bytes more, and {held} of {limit} = {bytes_max} are held; nothing was "
            "changed, try again",
            retry_after_ms=retry_after_ms or ledger.retry_after_ms,
        )


class _Followed:
    """A part that counts by itself, and how much of that its account has counted. Guarded by the ledger's lock."""

    __slots__ = ("_account", "_byte_count", "_bytes_held")

    def __init__(self, account: Account, bytes_held: Callable[[], int]) -> None:
        self._account = account
        self._bytes_held = bytes_held
        self._byte_count = 0

    def look(self) -> None:
        change = self._bytes_held() - self._byte_count
        if change:
            self._byte_count += change
            self._account._count(change)


class Holding:
    """What one holder has of an account, changed as it is measured and given back once. Thread-safe."""

    __slots__ = ("_account", "byte_count")

    def __init__(self, account: Account) -> None:
        self._account = account
        self.byte_count = 0

    def set(self, byte_count: int) -> None:
        """It holds so many bytes now. Refuses nothing, because they are there. Of one thread at a time."""
        change, self.byte_count = byte_count - self.byte_count, byte_count
        if change:
            self._account.add(change)
