"""The ledger: memory accounting. Counts the bytes of each part of the server against its bound and the total bound.

Memory for a client's call is taken before it is used: `take` refuses what does not fit, and then counts nothing. It
raises LimitExceededError for bytes that can never fit, and RegionTooBusyError, with a retry delay, for bytes that don't
fit now. Memory that is in use already, or is needed to free memory, is counted by `add`, which refuses nothing.

Bytes are those that the process uses: a request counts with the memory to decode and arrange it, a cell with the
overhead of its Python objects. The sum of the bounds is less than `memory`; docs/memory.md says why.

The block cache borrows: beyond its own share it holds what the other parts leave unused of BORROWED_FROM_SHARE of
`memory`, and returns it as soon as they use it. So what it has borrowed counts as free for all others.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import LimitExceededError, RegionTooBusyError

# While all parts together hold more than this share of `memory`, nothing is borrowed. The rest is for what the others
# take before borrowed memory is returned, and for fragmentation.
BORROWED_FROM_SHARE = 5 / 8
# After this share of `memory` was counted by `Account.add`, the followed parts are measured: 64 KiB of a gibibyte. Each
# put counts a few hundred bytes.
_MEASURED_SHARE = 1 / 16384


@dataclass(frozen=True, slots=True)
class AccountStatistics:
    """The bytes of one part: now, at most since the start, and its bound."""

    bytes_held: int
    bytes_held_peak: int
    bytes_max: int


class Ledger:
    """The accounts of one server. Thread-safe; one lock for all, which is a leaf and held for a few lines."""

    def __init__(self, config: Config, own_bytes: int = 0) -> None:
        """`own_bytes`: the memory of the process before anything was counted, and before clients could send."""
        self.own_bytes = own_bytes
        self.bytes_max = config.memory
        self.retry_after_ms = config.retry_after_ms
        self.lock = threading.Lock()
        # Guarded by self.lock:
        self.bytes_held = 0
        self.watchers: deque[Callable[[], None]] = deque()
        self._accounts: dict[str, Account] = {}
        self._followed: list[_Followed] = []
        self._measured_after_bytes = int(_MEASURED_SHARE * config.memory)
        self._unmeasured_bytes = 0  # counted by `Account.add` since the followed parts were measured

        self.memstores = self._open("memstore_bytes_max", config.memstore_bytes_max, "memstores")
        self.block_cache = self._accounts["block_cache_bytes_max"] = BorrowingAccount(self, config)
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
        """Calls `wake` once, after some bytes were released; from any thread. It must not block."""
        with self.lock:
            self.watchers.append(wake)

    def wake(self) -> None:
        """Calls the watchers of `when_given`."""
        with self.lock:
            woken, self.watchers = self.watchers, deque()
        for wake in woken:
            wake()

    @property
    def bytes_needed(self) -> int:
        """The bytes of all parts without those that are borrowed."""
        return self.bytes_held - self.block_cache.bytes_borrowed

    def _measure_followed(self) -> None:
        """Updates the accounts of followed parts (`Account.follow`). The caller holds self.lock."""
        self._unmeasured_bytes = 0
        for followed in self._followed:
            followed.measure()

    def statistics(self) -> Mapping[str, AccountStatistics]:
        """The statistics of each part, by the name of the setting that bounds it."""
        with self.lock:
            self._measure_followed()
            return {
                limit: AccountStatistics(account.bytes_held, account.bytes_held_peak, account.bytes_max)
                for limit, account in self._accounts.items()
            }

    def _check(self) -> None:
        with self.lock:
            held = sum(account.bytes_held for account in self._accounts.values())
            assert held == self.bytes_held, f"{held} bytes held by all, counted {self.bytes_held}"
            cache = self.block_cache
            assert cache.bytes_held <= cache.bytes_max, f"{cache.bytes_held} bytes in the cache of {cache.bytes_max}"


class Account:
    """The bytes of one part of the server. Made by its ledger; thread-safe; never waits."""

    __slots__ = ("_holders", "_ledger", "_limit", "bytes_held", "bytes_held_peak", "bytes_max")

    def __init__(self, ledger: Ledger, limit: str, bytes_max: int, holders: str) -> None:
        """`limit`: the setting that bounds it. `holders`: the name of the part, for messages."""
        self._ledger = ledger
        self._limit = limit
        self._holders = holders
        self.bytes_max = bytes_max
        # Guarded by the ledger's lock; read without it, approximately:
        self.bytes_held = 0
        self.bytes_held_peak = 0

    def take(self, byte_count: int) -> None:
        """Counts bytes before they are used. Raises LimitExceededError or RegionTooBusyError: nothing was counted."""
        if not self.try_take(byte_count):
            raise self.refusal(byte_count)

    def try_take(self, byte_count: int) -> bool:
        """Counts bytes before they are used; returns False if they don't fit now."""
        with self._ledger.lock:
            self._ledger._measure_followed()
            if not self.has_room(byte_count):
                return False
            self._count(byte_count)
        self._ledger.block_cache.return_borrowed()
        return True

    def has_room(self, byte_count: int) -> bool:
        """Whether this many more bytes fit now."""
        ledger = self._ledger
        return self.bytes_held + byte_count <= self.bytes_max and ledger.bytes_needed + byte_count <= ledger.bytes_max

    @property
    def is_half_full(self) -> bool:
        """Whether more than half of the bound is in use."""
        return 2 * self.bytes_held > self.bytes_max

    def add(self, byte_count: int) -> None:
        """Counts bytes that are in use, or released ones when negative, regardless of the bounds."""
        ledger = self._ledger
        with ledger.lock:
            ledger._unmeasured_bytes += abs(byte_count)
            if ledger._unmeasured_bytes >= ledger._measured_after_bytes:
                ledger._measure_followed()
            self._count(byte_count)
            is_woken = byte_count < 0 and bool(ledger.watchers)
        if is_woken:
            ledger.wake()
        if byte_count > 0:
            ledger.block_cache.return_borrowed()

    def give(self, byte_count: int) -> None:
        """Counts released bytes."""
        self.add(-byte_count)

    @contextlib.contextmanager
    def taken(self, byte_count: int) -> Iterator[None]:
        """Returns a context that takes the bytes and releases them at its end; raises like `take`."""
        self.take(byte_count)
        try:
            yield
        finally:
            self.give(byte_count)

    def follow(self, bytes_held: Callable[[], int]) -> None:
        """Counts, from now on, also the bytes of a part with a counter of its own.

        `bytes_held` is called before bytes are taken, and when many have been added or released, with the ledger's lock
        held: it must neither lock nor block.
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
        """Returns the error for bytes that don't fit."""
        ledger = self._ledger
        if byte_count > self.bytes_max:
            return LimitExceededError(
                f"this takes {byte_count} bytes of memory, but the limit of all {self._holders} is {self._limit} = "
                f"{self.bytes_max}; request less at once, or give the server more memory",
                limit=self._limit,
                limit_value=self.bytes_max,
                found=byte_count,
            )
        if self.bytes_held + byte_count > self.bytes_max:
            held, limit, bytes_max = self.bytes_held, self._limit, self.bytes_max
        else:
            held, limit, bytes_max = ledger.bytes_needed, "memory", ledger.bytes_max
        return RegionTooBusyError(
            f"{self._holders} need {byte_count} more bytes, but {held} of {limit} = {bytes_max} are in use; nothing "
            "was changed, retry",
            retry_after_ms=retry_after_ms or ledger.retry_after_ms,
        )


class BorrowingAccount(Account):
    """The bytes of the block cache: its own share, and what it borrows of the memory that other parts leave unused."""

    __slots__ = ("_lent_bytes_max", "_own_bytes_max", "_shrink")

    def __init__(self, ledger: Ledger, config: Config) -> None:
        own_bytes_max = config.block_cache_bytes
        bytes_max = max(own_bytes_max, config.block_cache_bytes_max)
        super().__init__(ledger, "block_cache_bytes_max", bytes_max, "the block cache")
        self._own_bytes_max = own_bytes_max
        self._lent_bytes_max = int(BORROWED_FROM_SHARE * config.memory)
        self._shrink: Callable[[], None] = lambda: None

    @property
    def bytes_borrowed(self) -> int:
        """The bytes beyond its own share."""
        return max(0, self.bytes_held - self._own_bytes_max)

    def bytes_max_now(self) -> int:
        """Returns the bound as the other parts are now."""
        with self._ledger.lock:
            held_by_others = self._ledger.bytes_held - self.bytes_held
        return max(self._own_bytes_max, min(self.bytes_max, self._lent_bytes_max - held_by_others))

    def when_short(self, shrink: Callable[[], None]) -> None:
        """Calls `shrink` when `bytes_max_now` may be less than what is held; from any thread, without a lock."""
        self._shrink = shrink

    def return_borrowed(self) -> None:
        """Makes the holder return what is no longer unused. The caller does not hold the ledger's lock."""
        if self._ledger.bytes_held > self._lent_bytes_max and self.bytes_held > self._own_bytes_max:
            self._shrink()


class _Followed:
    """A part with its own counter, and the bytes that its account has counted. Guarded by the ledger's lock."""

    __slots__ = ("_account", "_byte_count", "_bytes_held")

    def __init__(self, account: Account, bytes_held: Callable[[], int]) -> None:
        self._account = account
        self._bytes_held = bytes_held
        self._byte_count = 0

    def measure(self) -> None:
        change = self._bytes_held() - self._byte_count
        if change:
            self._byte_count += change
            self._account._count(change)


class Holding:
    """The share of one holder in an account, which it sets as it measures it. For one thread at a time."""

    __slots__ = ("_account", "byte_count")

    def __init__(self, account: Account) -> None:
        self._account = account
        self.byte_count = 0

    def set(self, byte_count: int) -> None:
        """Sets the bytes in use now. Refuses nothing, because they are in use already."""
        change, self.byte_count = byte_count - self.byte_count, byte_count
        if change:
            self._account.add(change)
