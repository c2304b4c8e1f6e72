"""One put_arrow, without I/O: which batches are under way, which come again, and what became of each row of the input.

1. Up to WINDOW batches are on the stream unanswered, so that the next ones are made and sent while the server syncs.
2. Answers come in the order of the batches.
3. Of rows with the same key the later one wins: a batch that has a row in common with one under way waits for it.
   So batches under way have no row in common, and repeating one of them never undoes another.
4. A batch is repeated under its own number until it was answered.
5. A stream that ended is one batch's own failure only if that batch was larger than its receiver takes.
6. A server that answers that it is busy is waited for up to a bound of its own, and the log says so every ten seconds;
   the timeout is for one that does not answer.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import cast

import pyarrow as pa
from rowlock_proto.v1 import region_pb2, types_pb2

from rowlock._codec.arrow_buffers import binary_scalar
from rowlock._codec.columns import check_int
from rowlock._codec.wire_errors import error_from
from rowlock._core.bulk_input import CellBatch
from rowlock._core.retry import REPEATED_FOR_S, Attempts, Kind
from rowlock._core.sequences import Sequences
from rowlock._core.waiting import Waiting
from rowlock.bulk_outcome import BulkOutcome, BulkResult, Portion
from rowlock.errors import (
    DeadlineError,
    InvalidArgumentError,
    LimitExceededError,
    RegionTooBusyError,
    RowlockError,
    ServerUnavailableError,
)
from rowlock.schema import Region

WINDOW = 3
BATCH_BYTES_DEFAULT = 8 * 1024 * 1024
BUSY_TIMEOUT_S_DEFAULT = 3600.0
# A batch may come out twice as large as it should be (bulk_input.py), and its message is a little larger.
_LARGEST_BATCH = 3


def checked_batch_bytes(batch_bytes: int, request_bytes_max: int) -> int:
    """About how large batches are to be, so that the server takes them: some come out twice as large.

    Raises InvalidArgumentError unless at least 1, TypeError if it is no int.
    """
    check_int("batch_bytes", batch_bytes)
    if batch_bytes < 1:
        raise InvalidArgumentError(f"batch_bytes is at least 1, not {batch_bytes}")
    return min(batch_bytes, max(1, request_bytes_max // _LARGEST_BATCH))


class Bulk:
    """One batch on its way. region, arrow_bytes: where it was sent to last, and how large it was as a message."""

    __slots__ = ("age_ms", "arrow_bytes", "attempts", "batch", "portion", "region", "sequence")

    def __init__(self, batch: CellBatch, sequence: int, portion: Portion | None = None) -> None:
        self.batch = batch
        self.sequence = sequence
        self.portion = portion or Portion(batch.rows)
        self.region: Region | None = None
        self.arrow_bytes = 0
        self.age_ms = 0
        self.attempts: Attempts | None = None

    @property
    def first_row(self) -> bytes:
        row: bytes = self.batch.cells.column("row")[0].as_py()
        return row

    def shares_row_with(self, other: Bulk) -> bool:
        import pyarrow.compute as pc

        mine, others = self.batch.cells.column("row"), other.batch.cells.column("row")
        my = cast(dict[str, bytes], pc.min_max(mine).as_py())  # a struct of two
        their = cast(dict[str, bytes], pc.min_max(others).as_py())
        if my["max"] < their["min"] or their["max"] < my["min"]:
            return False
        shared: bool = pc.any(pc.is_in(mine, value_set=pc.unique(others))).as_py()
        return shared


class BulkSend:
    """Not thread-safe, but for `stop`. Times are seconds on time.monotonic()."""

    def __init__(
        self,
        table: str,
        batches: Iterator[CellBatch],
        sequences: Sequences,
        durability: types_pb2.Durability,
        timeout_s: float,
        busy_timeout_s: float,
        repeated_for_s: float = REPEATED_FOR_S,
    ) -> None:
        self.table = table
        self._repeated_for_s = repeated_for_s
        self.timeout_s = timeout_s
        self._busy_timeout_s = busy_timeout_s
        self._waiting = Waiting(f"put_arrow into {table!r}")
        self.pause_s = 0.0
        self._batches = batches
        self._sequences = sequences
        self._durability = durability
        self._next: deque[Bulk] = deque()
        self._under_way: deque[Bulk] = deque()
        # After a failure nothing more is sent until all that is under way was answered.
        self._is_draining = False
        self._is_exhausted = False
        self._outcome = BulkOutcome()
        # Where the rows begin that are still to come from the input.
        self._next_row = 0
        self._lock = threading.Lock()
        # Guarded by self._lock: the numbers of batches that are not done, and whether anybody waits for them.
        self._taken: set[int] = set()
        self._is_stopped = False

    @property
    def is_done(self) -> bool:
        return self._is_exhausted and not self._next and not self._under_way

    @property
    def is_waiting(self) -> bool:
        """Whether answers are to come."""
        return bool(self._under_way)

    @property
    def row_count(self) -> int:
        """Rows of the input applied so far."""
        return self._outcome.row_count

    def next(self, now: float) -> Bulk | None:
        """The batch to send now, None when there is none, those under way come first, or a pause does.

        Who has paused for `pause_s` sets it to 0.
        """
        if self._is_draining or self.pause_s or len(self._under_way) >= WINDOW:
            return None
        if not self._next and not self._is_exhausted:
            self._pull()
        while self._next and not self._set_age(self._next[0]):
            pass
        if not self._next:
            return None
        bulk = self._next[0]
        if any(bulk.shares_row_with(other) for other in self._under_way):
            return None
        if bulk.attempts is None:
            bulk.attempts = Attempts(
                now,
                self.timeout_s,
                Kind.NUMBERED_CHANGE,
                busy_s=self._busy_timeout_s,
                repeated_for_s=self._repeated_for_s,
            )
        return bulk

    def _set_age(self, bulk: Bulk) -> bool:
        """The next batch says how long ago it was first sent, if it is in doubt. False: too long ago; it has ended."""
        if bulk.attempts is None:
            return True
        try:
            bulk.age_ms = bulk.attempts.age_ms()
        except RowlockError as error:
            self._next.popleft()
            self._failed(bulk, error)
            return False
        return True

    def message(self, bulk: Bulk, region: Region) -> region_pb2.BulkBatch:
        """The batch for its region; from now on it is under way. Rows of other regions become a batch of their own."""
        assert bulk is self._next[0], "only the next batch is sent"
        self._split_off_other_regions(bulk, region)
        bulk.region = region
        self._next.popleft()
        self._under_way.append(bulk)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, bulk.batch.cells.schema) as writer:
            writer.write_batch(bulk.batch.cells)
        arrow = sink.getvalue().to_pybytes()
        bulk.arrow_bytes = len(arrow)
        return region_pb2.BulkBatch(
            region_id=region.region_id,
            arrow=arrow,
            uncompressed_bytes=bulk.batch.byte_count,
            client_id=self._sequences.client_id,
            sequence=bulk.sequence,
            sequence_floor=self._sequences.floor(),
            durability=self._durability,
            age_ms=bulk.age_ms,
        )

    def answered(self, answer: region_pb2.BulkAnswer, now: float) -> Region:
        """The answer to the oldest batch under way; gives the region that this was sent to."""
        bulk = self._under_way.popleft()
        assert bulk.region is not None, "what is under way was sent to a region"
        if answer.HasField("error"):
            self._is_draining = True
            self._judge(bulk, _as_busy(error_from(answer.error)), now, was_sent=False)
        else:
            self._waiting.over()
            self._end(bulk)
            self._outcome.part_applied(bulk.portion, answer.cell_count)
        self._go_on_if_drained()
        return bulk.region

    def lost(self, error: RowlockError, now: float) -> None:
        """The stream ended, or could not be opened: all under way are in doubt and come again, if they may.

        A message beyond the limit ends the stream for all. That is the failure of the batch which is so large, and a
        lost connection for the others.
        """
        if not self._under_way and self._next:
            self._judge(self._next.popleft(), error, now, was_sent=False)
        others = error
        too_large: Bulk | None = None
        if isinstance(error, LimitExceededError):
            others = ServerUnavailableError(f"the stream of batches ended: {error.message}")
            too_large = self._too_large(error.limit_value)
        for bulk in reversed(list(self._under_way)):
            self._under_way.pop()
            met = _with_row(error, bulk) if bulk is too_large else others
            self._judge(bulk, met, now, was_sent=True)
        self._go_on_if_drained()

    def finish(self) -> BulkResult:
        """What was written; raises BulkError unless it is all, or what the first batch failed with if nothing was."""
        return self._outcome.result(self.table)

    def stop(self) -> None:
        """Nobody waits for what is under way any more. May come from any thread, in the middle of any other call.

        A cancelled task can't wait for the thread that reads its input, which may block for as long as it likes.
        """
        with self._lock:
            self._is_stopped = True
            while self._taken:
                self._sequences.release(self._taken.pop())

    def _pull(self) -> None:
        """The next batch of the input; one that can't be made ends the input."""
        try:
            batch = next(self._batches, None)
        except Exception as error:
            # Kept, whatever it is, until those under way were answered; raised here, it could be taken for a failure of
            # the stream.
            self._outcome.input_failed(self._next_row, error)
            batch = None
        if batch is None:
            self._is_exhausted = True
        else:
            self._next_row = batch.rows.stop
            self._next.append(Bulk(batch, self._take()))

    def _too_large(self, byte_count: int) -> Bulk | None:
        """The largest batch under way, if it is larger than this. 0: the limit is unknown, and whose failure it is."""
        largest = max(self._under_way, key=lambda bulk: bulk.arrow_bytes, default=None)
        return largest if largest is not None and 0 < byte_count < largest.arrow_bytes else None

    def _judge(self, bulk: Bulk, error: RowlockError, now: float, *, was_sent: bool) -> None:
        """It comes again, in its place, or it ends everything."""
        assert bulk.attempts is not None, "a batch that was never to be sent can't fail"
        try:
            self.pause_s = max(self.pause_s, bulk.attempts.failed(error, now, was_sent=was_sent))
        except RowlockError as final:
            self._failed(bulk, final)
        else:
            server = "" if bulk.region is None else bulk.region.server
            self._waiting.met(error, server, now, bulk.attempts.given_up_at)
            # By rows and not by numbers: a part for another region got its number when the batch was parted.
            start = bulk.portion.rows.start
            behind = (i for i, other in enumerate(self._next) if other.portion.rows.start >= start)
            self._next.insert(next(behind, len(self._next)), bulk)

    def _failed(self, bulk: Bulk, error: RowlockError) -> None:
        self._end(bulk)
        self._outcome.part_failed(bulk.portion, error)
        # What was not begun is not begun any more; what is to come again still does, to learn what became of it.
        self._is_exhausted = True

    def _go_on_if_drained(self) -> None:
        if not self._under_way:
            self._is_draining = False

    def _take(self) -> int:
        """A number for one batch; waited for until the batch has ended, or all is stopped."""
        with self._lock:
            sequence = self._sequences.take()
            if self._is_stopped:
                self._sequences.release(sequence)
            else:
                self._taken.add(sequence)
        return sequence

    def _end(self, bulk: Bulk) -> None:
        with self._lock:
            if bulk.sequence in self._taken:
                self._taken.remove(bulk.sequence)
                self._sequences.release(bulk.sequence)

    def _split_off_other_regions(self, bulk: Bulk, region: Region) -> None:
        import pyarrow.compute as pc

        if not region.start and not region.stop:
            return
        rows = bulk.batch.cells.column("row")
        is_inside = pc.greater_equal(rows, binary_scalar(region.start))
        if region.stop:
            is_inside = pc.and_(is_inside, pc.less(rows, binary_scalar(region.stop)))
        if pc.all(is_inside).as_py():
            return
        inside = bulk.batch.cells.filter(is_inside)
        if inside.num_rows == 0:
            raise LimitExceededError("a batch has no row in the region it is meant for", table=self.table)
        outside = CellBatch(bulk.batch.rows, bulk.batch.cells.filter(pc.invert(is_inside)))
        rest = Bulk(outside, self._take(), bulk.portion)
        bulk.portion.parts_left += 1
        bulk.batch = CellBatch(bulk.batch.rows, inside)
        self._next.insert(1, rest)


def _with_row(error: RowlockError, bulk: Bulk) -> RowlockError:
    """What a batch that is too large ends with, which names its row, or the first of several."""
    assert isinstance(error, LimitExceededError), error
    row, server = bulk.first_row, "" if bulk.region is None else bulk.region.server
    is_one = len(bulk.batch.cells.column("row").unique()) == 1
    what = f"row {row[:100]!r}" if is_one else f"the batch that begins with row {row[:100]!r}"
    advice = "send less at once: " + ("its cells in several parts" if is_one else "smaller batches")
    return LimitExceededError(
        f"{what} takes {bulk.arrow_bytes} bytes as one message, more than request_bytes_max = {error.limit_value} of "
        f"the server at {server}; {advice}",
        limit=error.limit,
        limit_value=error.limit_value,
        found=bulk.arrow_bytes,
        row=row,
    )


def _as_busy(error: RowlockError) -> RowlockError:
    """A server that gave up waiting for itself, for a flush say, and changed nothing, is busy."""
    if isinstance(error, DeadlineError):
        return RegionTooBusyError(error.message, table=error.table, retry_after_ms=error.retry_after_ms)
    return error
