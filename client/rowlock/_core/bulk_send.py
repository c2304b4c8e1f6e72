"""One put_arrow, without I/O: the batches in flight, the batches to repeat, and the outcome of each row of the input.

1. Up to WINDOW batches are in flight, so that the next ones are made and sent while the server syncs.
2. Answers come in the order of the batches.
3. Of rows with the same key the later one wins. A batch waits while a batch with one of its rows is in flight. So no
   two batches in flight share a row, and repeating one never undoes another.
4. A batch is repeated under its own sequence number until it is answered. If its region was split since it was sent,
   and no answer has come, it is cut, and each part has a number of its own. The whole may have been applied: so each
   part names its number too (`parts_of`). The new regions have the saved answer under it.
5. The end of the stream is the failure of one batch only if that batch exceeded the server's message limit.
6. A batch is sent as rows, if it has that form and the server knows it. If the server refuses it as invalid, it may be
   of an earlier version after all: the batch is repeated as cells, which say the same, with the same number.
7. While the server answers that it is busy, batches are retried for busy_timeout, and the log says so every ten
   seconds. The timeout is for a server that does not answer.
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Iterator

from rowlock_proto.shown_names import row_text
from rowlock_proto.v1 import region_pb2, types_pb2

from rowlock._codec.arrow_buffers import binary_scalar
from rowlock._codec.bulk_message import MessagePiece, bulk_message
from rowlock._codec.bulk_rows import BulkRows
from rowlock._codec.columns import check_int
from rowlock._codec.wire_errors import error_from
from rowlock._core.bulk_input import Piece, Sizes
from rowlock._core.bulk_parts import Bulk, Stage, Whole
from rowlock._core.retry import REPEATED_FOR_S, Attempts, Kind
from rowlock._core.sequences import Sequences
from rowlock._core.waiting import Waiting
from rowlock.bulk_outcome import BulkOutcome, BulkResult
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
# A batch may become twice as large as estimated (bulk_input.py), and its message is a little larger.
_ESTIMATES_PER_MESSAGE = 3
# The protocol's limit of BulkRows.columns.
_COLUMNS_MAX = 10_000


def checked_sizes(batch_bytes: int, request_bytes_max: int, *, takes_rows: bool) -> Sizes:
    """Returns the sizes of batches, lowered so that the server accepts twice as much.

    takes_rows: whether the server is known to take rows. Raises InvalidArgumentError if batch_bytes is less than 1,
    TypeError if it is not an int.
    """
    check_int("batch_bytes", batch_bytes)
    if batch_bytes < 1:
        raise InvalidArgumentError(f"batch_bytes must be at least 1, not {batch_bytes}")
    most = max(1, request_bytes_max // _ESTIMATES_PER_MESSAGE)
    return Sizes(min(batch_bytes, most), None if takes_rows else min(batch_bytes, most))


class BulkSend:
    """The batches of one put_arrow. Not thread-safe, except `stop`. Times are seconds on time.monotonic()."""

    def __init__(
        self,
        table: str,
        batches: Iterator[Piece],
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
        self._in_flight: deque[Bulk] = deque()
        # After a failure no batch is sent until all batches in flight are answered.
        self._is_draining = False
        # Where the batches are staged; None: they are applied.
        self.stage: Stage | None = None
        # Whether a server has refused rows.
        self._is_cells_only = False
        self._is_exhausted = False
        self._outcome = BulkOutcome()
        # The number of the input's next row.
        self._next_row = 0
        self._lock = threading.Lock()
        # Guarded by self._lock: the sequence numbers of unfinished batches, and whether `stop` was called.
        self._taken: set[int] = set()
        self._is_stopped = False

    @property
    def is_done(self) -> bool:
        """Whether every batch has its outcome and the input has ended."""
        return self._is_exhausted and not self._next and not self._in_flight

    @property
    def is_waiting(self) -> bool:
        """Whether batches are in flight, so that answers will come."""
        return bool(self._in_flight)

    @property
    def written_count(self) -> int:
        """The number of rows from the first one on that are written, without a gap: rows after a gap may be too."""
        unfinished = (bulk.portion.rows.start for bulk in (*self._in_flight, *self._next))
        return min([self._outcome.first_not_written(self._next_row), *unfinished])

    def next(self, now: float) -> Bulk | None:
        """Returns the batch to send now. None: no batch is left, one must wait for those in flight, or a pause is due.

        After pausing for `pause_s` seconds, the caller sets it to 0.
        """
        if self._is_draining or self.pause_s or len(self._in_flight) >= WINDOW:
            return None
        while not self._next and not self._is_exhausted:
            self._pull()
        while self._next and not self._set_age(self._next[0]):
            pass
        if not self._next:
            return None
        bulk = self._next[0]
        if any(bulk.shares_row_with(other) for other in self._in_flight):
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
        """Sets the age of the next batch, if it is in doubt. Returns False if it is too old to repeat and has ended."""
        if bulk.attempts is None:
            return True
        try:
            bulk.age_ms = bulk.attempts.age_ms()
        except RowlockError as error:
            self._next.popleft()
            self._failed(bulk, error)
            return False
        return True

    def message(self, bulk: Bulk, region: Region, *, takes_rows: bool) -> list[MessagePiece]:
        """Returns the parts of the batch's BulkBatch message to a region; the batch is in flight now.

        The rows of other regions become a new batch.

        takes_rows: whether the region's server knows rows.
        """
        assert bulk is self._next[0], "only the next batch is sent"
        self._split_off_other_regions(bulk, region)
        bulk.region = region
        self._next.popleft()
        self._in_flight.append(bulk)
        message = region_pb2.BulkBatch(
            region_id=region.region_id,
            client_id=self._sequences.client_id,
            sequence=bulk.sequence,
            sequence_floor=self._sequences.floor(),
            durability=self._durability,
            age_ms=bulk.age_ms,
            stage=None if self.stage is None else self.stage.session,
            parts_of=[whole.sequence for whole in bulk.wholes],
        )
        data = bulk.batch.data
        takes_rows = takes_rows and not self._is_cells_only
        bulk.is_rows = takes_rows and isinstance(data, BulkRows) and len(data.columns) <= _COLUMNS_MAX
        if isinstance(data, BulkRows) and bulk.is_rows:
            message.rows.nulls_delete = data.nulls_delete
            for family, qualifier in data.columns:
                message.rows.columns.add(family=family, qualifier=qualifier)
        pieces = bulk_message(message, data.batch if bulk.is_rows else data.cells())
        bulk.message_bytes = sum(map(len, pieces))
        return pieces

    def answered(self, answer: region_pb2.BulkAnswer, now: float) -> Region:
        """Records the answer to the oldest batch in flight. Returns the region that the batch was sent to."""
        bulk = self._in_flight.popleft()
        assert bulk.region is not None, "a batch in flight was sent to a region"
        if answer.HasField("error"):
            self._is_draining = True
            error = _as_busy(error_from(answer.error))
            if bulk.is_rows and isinstance(error, InvalidArgumentError):
                self._is_cells_only = True
                self._put_back(bulk)
            else:
                self._judge(bulk, error, now, was_sent=False)
        else:
            self._waiting.progressed()
            self._end(bulk)
            self._outcome.part_applied(bulk.portion, answer.cell_count)
            if self.stage is not None and answer.staged_batch:
                self.stage.numbers.add(answer.staged_batch)
        self._resume_if_drained()
        return bulk.region

    def lost(self, error: RowlockError, now: float, *, may_have_begun: bool = True) -> None:
        """Records that the stream ended or could not be opened. Batches in flight are in doubt and repeated if allowed.

        may_have_begun: whether the server may have begun those batches; if not, they are not in doubt.

        A message beyond the server's limit ends the stream for all its batches. The batch that is too large fails with
        that error; for the others it is a lost connection.
        """
        if not self._in_flight and self._next:
            self._judge(self._next.popleft(), error, now, was_sent=False)
        collateral = error
        too_large: Bulk | None = None
        if isinstance(error, LimitExceededError):
            collateral = ServerUnavailableError(f"the stream of batches ended: {error.message}")
            too_large = self._too_large(error.limit_value)
        for bulk in reversed(list(self._in_flight)):
            self._in_flight.pop()
            cause = _with_row(error, bulk) if bulk is too_large else collateral
            self._judge(bulk, cause, now, was_sent=may_have_begun)
        self._resume_if_drained()

    def finish(self) -> BulkResult:
        """Returns the counts. Raises BulkError unless all rows were written; see BulkOutcome.result."""
        return self._outcome.result(self.table)

    def stop(self) -> None:
        """Releases the sequence numbers of all unfinished batches. Any thread may call it, even during another call.

        So a cancelled task need not wait for the thread that reads its input, which may block for any time.
        """
        with self._lock:
            self._is_stopped = True
            while self._taken:
                self._sequences.release(self._taken.pop())

    def _pull(self) -> None:
        """Reads the next batch of the input, and queues it if it has cells. An error of the input ends it."""
        try:
            batch = next(self._batches, None)
        except Exception as error:
            # Recorded, of any type, until the batches in flight are answered. Raised here, it could be taken for a
            # failure of the stream.
            self._outcome.input_failed(self._next_row, error)
            batch = None
        if batch is None:
            self._is_exhausted = True
        elif batch.data.batch.num_rows:
            self._next_row = batch.rows.stop
            self._next.append(Bulk(batch, self._take()))
        else:
            self._next_row = batch.rows.stop
            self._outcome.had_no_cells(batch.rows)

    def _too_large(self, byte_count: int) -> Bulk | None:
        """Returns the largest batch in flight, if it exceeds byte_count. 0: the limit is unknown; returns None."""
        largest = max(self._in_flight, key=lambda bulk: bulk.message_bytes, default=None)
        return largest if largest is not None and 0 < byte_count < largest.message_bytes else None

    def _judge(self, bulk: Bulk, error: RowlockError, now: float, *, was_sent: bool) -> None:
        """Puts a failed batch back into the queue, or records its failure and ends the input."""
        assert bulk.attempts is not None, "a batch has its attempts before it is sent"
        try:
            self.pause_s = max(self.pause_s, bulk.attempts.failed(error, now, was_sent=was_sent))
        except RowlockError as final:
            self._failed(bulk, final)
        else:
            server = "" if bulk.region is None else bulk.region.server
            self._waiting.failed(error, server, now, bulk.attempts.ends_at)
            self._put_back(bulk)

    def _put_back(self, bulk: Bulk) -> None:
        """Puts a batch back into its place in the queue."""
        # By rows, not by sequence numbers: the part for another region got its number when the batch was split.
        start = bulk.portion.rows.start
        later = (i for i, other in enumerate(self._next) if other.portion.rows.start >= start)
        self._next.insert(next(later, len(self._next)), bulk)

    def _failed(self, bulk: Bulk, error: RowlockError) -> None:
        self._end(bulk)
        self._outcome.part_failed(bulk.portion, error)
        # No new batch is started. Batches in doubt are still repeated, to learn their outcomes.
        self._is_exhausted = True

    def _resume_if_drained(self) -> None:
        if not self._in_flight:
            self._is_draining = False

    def _take(self) -> int:
        """Returns a sequence number for one batch, in use until the batch ends or `stop` is called."""
        with self._lock:
            sequence = self._sequences.take()
            if self._is_stopped:
                self._sequences.release(sequence)
            else:
                self._taken.add(sequence)
        return sequence

    def _end(self, bulk: Bulk) -> None:
        self._release(bulk.sequence)
        for whole in bulk.wholes:
            whole.parts_left -= 1
            if not whole.parts_left:
                self._release(whole.sequence)

    def _release(self, sequence: int) -> None:
        with self._lock:
            if sequence in self._taken:
                self._taken.remove(sequence)
                self._sequences.release(sequence)

    def _split_off_other_regions(self, bulk: Bulk, region: Region) -> None:
        from rowlock._codec.late_compute import compute as pc

        if not region.start and not region.stop:
            return
        rows = bulk.batch.data.keys
        is_inside = pc.greater_equal(rows, binary_scalar(region.start))
        if region.stop:
            is_inside = pc.and_(is_inside, pc.less(rows, binary_scalar(region.stop)))
        if pc.all(is_inside).as_py():
            return
        inside = bulk.batch.data.filter(is_inside)
        assert inside.batch.num_rows, f"a batch without a row of region {region.region_id}, found by its first row"
        outside = Piece(bulk.batch.rows, bulk.batch.data.filter(pc.invert(is_inside)))
        if bulk.age_ms:
            self._become_part(bulk)
        remainder = Bulk(outside, self._take(), bulk.portion)
        remainder.age_ms, remainder.wholes = bulk.age_ms, bulk.wholes
        if bulk.age_ms:
            remainder.attempts = copy.copy(bulk.attempts)  # In doubt, too.
        for whole in bulk.wholes:
            whole.parts_left += 1
        bulk.portion.parts_left += 1
        bulk.batch = Piece(bulk.batch.rows, inside)
        self._next.insert(1, remainder)

    def _become_part(self, bulk: Bulk) -> None:
        """Makes a batch in doubt a part of itself, under a new number: the parts must not be taken for the whole."""
        bulk.wholes = (*bulk.wholes, Whole(bulk.sequence))
        bulk.sequence = self._take()


def _with_row(error: RowlockError, bulk: Bulk) -> RowlockError:
    """Returns the error of a batch that is too large, with its row, or its first row."""
    assert isinstance(error, LimitExceededError), error
    row, server = bulk.first_row, "" if bulk.region is None else bulk.region.server
    is_one = len(bulk.batch.data.keys.unique()) == 1
    what = f"row {row_text(row)}" if is_one else f"the batch that begins with row {row_text(row)}"
    advice = "send less at once: " + ("its cells in several parts" if is_one else "smaller batches")
    return LimitExceededError(
        f"{what} takes {bulk.message_bytes} bytes as one message, more than request_bytes_max = {error.limit_value} of "
        f"the server at {server}; {advice}",
        limit=error.limit,
        limit_value=error.limit_value,
        found=bulk.message_bytes,
        row=row,
    )


def _as_busy(error: RowlockError) -> RowlockError:
    """Converts the server's DeadlineError to RegionTooBusyError: it waited for a flush, say, and changed nothing."""
    if isinstance(error, DeadlineError):
        return RegionTooBusyError(error.message, table=error.table, retry_after_ms=error.retry_after_ms)
    return error
