"""One scan: its read point, its answers, and the memory that it holds; scans.py has the outline.

A scan may be opened by its first rows (`find_first`), which a client gets in one exchange. Small windows are read by
way of the block cache for them, first on the event loop, as far as nothing has to wait there. All other steps are made
by worker threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.encoded_message import EncodedMessage, bytes_held, joined
from rowlock_regionserver.engine.interfaces import ScanAnswers, ScannedRegion
from rowlock_regionserver.ledger import Account, Holding
from rowlock_regionserver.operations import ScanPlan
from rowlock_regionserver.process_limits import memory_error_refused
from rowlock_regionserver.scan.batches import ScanAnswer
from rowlock_regionserver.sources import Reading, WouldWaitError

# Encodes an answer, read at this read point, for the front end that sends it. Called by worker threads.
Encode = Callable[[ScanAnswer, int], EncodedMessage]


# A step that sends its batches lasts about so long: to begin the next one takes two changes of threads.
SENDING_SECONDS_MAX = 0.05


class OpenScan:
    """One scan, stepped by worker threads. Thread-safe."""

    def __init__(
        self, region: ScannedRegion, plan: ScanPlan, encode: Encode, account: Account, config: Config, clock: Clock
    ) -> None:
        self._region = region
        self._plan = plan
        self._encode = encode
        self._account = account
        self._window_bytes = config.scan_window_bytes
        self._slice_seconds = config.scan_heartbeat_ms / 1000
        self._clock = clock
        self._lock = threading.Lock()  # held for a whole step
        # Guarded by self._lock:
        self._reading = Reading.BULK
        self._context: AbstractContextManager[tuple[int, ScanAnswers]] | None = self._new_context()
        self._answers: ScanAnswers | None = None
        self.read_point = 0
        # While it is opened: its first answers, their bytes, and how many there should be; 0: it is not being opened.
        self.first: list[bytes] = []
        self._first_bytes = self._first_bytes_max = 0
        self._holding = Holding(account)
        self._failure: Exception | None = None
        self._slice_ends_at = 0.0
        # Set by the thread that closes the scan, read after each window and each step.
        self._is_closed = False

    def _new_context(self) -> AbstractContextManager[tuple[int, ScanAnswers]]:
        return self._region.scan(self._plan, is_slice_over=self._is_slice_over, reading=lambda: self._reading)

    @property
    def is_over(self) -> bool:
        """Whether it is closed, or will be after the running step."""
        return self._is_closed

    @property
    def is_freed(self) -> bool:
        """Whether it is closed and holds nothing any more."""
        return self._is_closed and self._context is None

    def find_first(self, bytes_max: int, slice_seconds: float, *, may_wait: bool) -> bool:
        """Adds the next answers to `first` until it has about `bytes_max`, and returns whether that is all to be done.

        Returns False if a worker has to call again with `may_wait`. This call then ended after the window in which its
        slice was over; or it would have had to wait, and it is as if it had not been made. With `may_wait` it blocks,
        and is done when its slice is over, perhaps without an answer. Closes the scan at its end, and when it fails. If
        answers were made before a failure, the next step raises it.
        """
        with self._stepping():
            return self._find_first(bytes_max, slice_seconds, may_wait=may_wait)

    @contextmanager
    def _stepping(self) -> Iterator[None]:
        """Holds the lock; closes the scan afterwards if it has failed, or was closed meanwhile."""
        try:
            with self._lock, memory_error_refused("a scan"):
                yield
        except BaseException:
            self._is_closed = True
            raise
        finally:
            if self._is_closed:
                self.close()

    def _find_first(self, bytes_max: int, slice_seconds: float, *, may_wait: bool) -> bool:
        self._reading = Reading.CACHED if may_wait else Reading.AT_ONCE
        self._first_bytes_max = bytes_max
        self._slice_ends_at = self._clock.monotonic() + slice_seconds
        try:
            while True:
                answer = self._next_answer()
                if answer is None:
                    return True
                encoded = joined(self._encode(answer, self.read_point))
                self.first.append(encoded)
                self._first_bytes += len(encoded)
                if self._answers is not None and self._answers.is_at_end:
                    self._is_closed = True
                    return True
                if self._is_slice_over():
                    break
        except WouldWaitError:
            self._begin_again()
            return False
        except Exception as error:
            if not self.first:
                raise
            self._failure = error
            may_wait = True
        is_done = may_wait or self._is_closed or self._first_bytes >= bytes_max
        if is_done:
            self._reading = Reading.BULK
            self._first_bytes_max = 0
        return is_done

    def _begin_again(self) -> None:
        """Drops what was read on the loop, because the rest would have to wait."""
        context, was_entered = self._context, self._answers is not None
        self._answers = None
        self.first, self._first_bytes = [], 0
        self._holding.set(0)
        if context is not None and was_entered:
            context.__exit__(None, None, None)
            self._context = self._new_context()

    def step(self, count: int = 1) -> list[EncodedMessage]:
        """Returns the next encoded answers, at most `count`; none at the end, or after `close`. Blocks.

        Closes the scan when it fails. If some batches were made before a failure, returns them, and raises the failure
        in the next step.
        """
        with self._stepping():
            return self._step(count)

    def _step(self, count: int) -> list[EncodedMessage]:
        if self._failure is not None:
            raise self._failure
        batches: list[EncodedMessage] = []
        self._begin_slice()
        try:
            while (batch := self._next()) is not None:
                batches.append(batch)
                if len(batches) == count or self._is_slice_over():
                    break
        except Exception as error:
            if not batches:
                raise
            self._failure = error
        return batches

    def send_step(self, send: Callable[[EncodedMessage], bool]) -> int:
        """Sends encoded answers, each before the next one is made. Blocks.

        Begins none after SENDING_SECONDS_MAX, or after a slice if that is shorter. Ends when `send` returns False, and
        returns the memory that its answer keeps alive; else 0. Closes the scan at its end, and when it fails.
        """
        sending = Holding(self._account)
        try:
            with self._stepping():
                return self._send_step(send, sending)
        finally:
            sending.set(0)

    def _send_step(self, send: Callable[[EncodedMessage], bool], sending: Holding) -> int:
        if self._failure is not None:
            raise self._failure
        self._begin_slice()
        # Each full batch begins another slice, but the step ends all the same.
        step_ends_at = self._clock.monotonic() + min(SENDING_SECONDS_MAX, self._slice_seconds)
        while (batch := self._next()) is not None:
            # It may keep alive a window that no later batch has a part of.
            sending.set(bytes_held(batch))
            if not send(batch):
                return bytes_held(batch)
            del batch  # The traceback of a failure may keep this frame alive.
            if self._is_slice_over() or self._clock.monotonic() >= step_ends_at:
                break
        return 0

    def _begin_slice(self) -> None:
        self._slice_ends_at = self._clock.monotonic() + self._slice_seconds

    def _is_slice_over(self) -> bool:
        is_over = self._is_closed or self._clock.monotonic() >= self._slice_ends_at
        if self._first_bytes_max and not is_over:
            pending = 0 if self._answers is None else self._answers.bytes_pending
            is_over = self._first_bytes + pending >= self._first_bytes_max
        # When memory is half full, each slice ends after its window: the rows are sent, and windows become smaller.
        return is_over or self._account.is_half_full

    def _next(self) -> EncodedMessage | None:
        answer = self._next_answer()
        if answer is None:
            return None
        if not answer.resume_key:
            # While batches are full, their number ends the step, or the time of a step that sends them.
            self._begin_slice()
        return self._encode(answer, self.read_point)

    def _next_answer(self) -> ScanAnswer | None:
        if self._context is None or self._is_closed:
            return None
        if self._answers is None:
            if not self._account.has_room(self._window_bytes):
                raise self._account.refusal(self._window_bytes)
            self.read_point, self._answers = self._context.__enter__()
        answer = _next(self._answers)
        if answer is None or self._is_closed:
            self._is_closed = True
            return None
        # The windows from which this batch and the next ones are sliced, and the cells read ahead.
        self._holding.set(self._answers.bytes_held)
        return answer

    def close(self) -> None:
        """Closes the read point and frees the memory, now or when the running step ends. Does not wait for the step."""
        self._is_closed = True
        # The thread that holds the lock checks the flag after releasing it, so one of the two closes the context.
        if self._lock.acquire(blocking=False):
            try:
                context, self._context = self._context, None
                was_entered, self._answers = self._answers is not None, None
                self._holding.set(0)
                if context is not None and was_entered:
                    context.__exit__(None, None, None)
            finally:
                self._lock.release()


def _next(answers: ScanAnswers) -> ScanAnswer | None:
    try:
        return next(answers)
    except StopIteration:
        return None
