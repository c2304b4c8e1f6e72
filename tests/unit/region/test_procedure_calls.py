"""Calls of procedures in a region: under the row's lock, all or nothing, once. The procedures run in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    DeadlineError,
    InvalidRequestError,
    LimitExceededError,
    NotServingRegionError,
    ProcedureFailedError,
    ProcedureNotFoundError,
    RegionServerError,
    RegionTooBusyError,
    UnknownOutcomeError,
)
from rowlock_regionserver.operations import (
    Change,
    ColumnSelector,
    Delete,
    DeleteKind,
    Increment,
    ProcedureCall,
    ProcedureReply,
    Put,
    RequestId,
    RowOutcome,
    RowResult,
    WriteOptions,
)
from rowlock_regionserver.procedures.child_process import ReadCells
from rowlock_regionserver.procedures.failure import failed
from rowlock_regionserver.procedures.runner import Run

from tests.waiting import WAIT_S, wait_until

from .conftest import HeldFiles
from .lone_region import LoneRegion

CLIENT = b"c" * 16
ROW = b"r"
N = ColumnSelector(b"f", b"n")

# What a procedure of these tests is: it reads, and returns its answer and its changes.
Procedure = Callable[[ReadCells], tuple[bytes, Sequence[Change]]]


class Here:
    """Runs one procedure, in the calling thread."""

    def __init__(self, procedure: Procedure, row: bytes | None = None) -> None:
        """`row`: the one that it says it has changed; None: that of the call."""
        self._procedure = procedure
        self._row = row
        self.run_count = 0

    @contextmanager
    def ready(self, name: str, deadline: float) -> Iterator[Run]:
        if name != "known":
            raise ProcedureNotFoundError("unknown")

        def run(call: ProcedureCall, table: str, read: ReadCells) -> ProcedureReply:
            assert table == "t"
            self.run_count += 1
            answer, changes = self._procedure(read)
            return ProcedureReply(self._row or call.row, answer, tuple(changes))

        yield run


def outcome_of(
    region: LoneRegion,
    procedure: Procedure | Here,
    request: RequestId | None = None,
    *,
    row: bytes = ROW,
    name: str = "known",
    argument: bytes = b"",
    deadline: float | None = None,
) -> RowOutcome:
    """Calls the procedure, and returns its outcome when it is published."""
    outcomes: list[RowOutcome] = []
    is_answered = threading.Event()

    def note(them: list[RowOutcome]) -> None:
        outcomes.extend(them)
        is_answered.set()

    here = procedure if isinstance(procedure, Here) else Here(procedure)
    options = WriteOptions(region.clock.monotonic() + WAIT_S if deadline is None else deadline)
    region.region.call(ProcedureCall(row, name, argument, request), here, options, note)
    assert is_answered.wait(WAIT_S)
    (outcome,) = outcomes
    return outcome


def call(region: LoneRegion, procedure: Procedure | Here, request: RequestId | None = None) -> RowResult:
    """The result of a call; raises what it answers."""
    outcome = outcome_of(region, procedure, request)
    if isinstance(outcome, RegionServerError):
        raise outcome
    return outcome


def number(read: ReadCells) -> int:
    """The counter of the row."""
    return int.from_bytes(b"".join(value for _, _, value in read([N])), "big")


def count(read: ReadCells) -> tuple[bytes, Sequence[Change]]:
    """A procedure that adds one to the counter, and answers with the sum."""
    after = (number(read) + 1).to_bytes(8, "big")
    return after, [Put(b"f", b"n", after)]


def test_changes_and_answer_come_together(lone: LoneRegion) -> None:
    lone.change(ROW, Put(b"f", b"old", b"1"), Put(b"g", b"a", b"2"))

    def change(read: ReadCells) -> tuple[bytes, Sequence[Change]]:
        assert read([]) == [(b"f", b"old", b"1"), (b"g", b"a", b"2")]
        return b"answer", [Delete(DeleteKind.FAMILY, b"f"), Put(b"f", b"new", b"3"), Put(b"g", b"b", b"4")]

    result = call(lone, change)
    assert result.answer == b"answer"
    assert result.timestamp > 0
    assert lone.values(ROW) == {b"f:new": b"3", b"g:a": b"2", b"g:b": b"4"}
    assert {timestamp for _, qualifier, timestamp, _ in lone.cells(ROW) if qualifier != b"a"} == {result.timestamp}


def test_nothing_comes_between_the_reads_of_a_procedure_and_its_changes(lone: LoneRegion) -> None:
    others = [threading.Thread(target=lone.change, args=(ROW, Increment(b"f", b"n", 10))) for _ in range(3)]

    def slowly(read: ReadCells) -> tuple[bytes, Sequence[Change]]:
        answer, changes = count(read)
        for other in others:
            other.start()
        wait_until(lambda: lone.parts.row_locks.statistics().waiting == 3)
        assert number(read) == int.from_bytes(answer, "big") - 1
        return answer, changes

    lone.change(ROW, Increment(b"f", b"n", 5))
    assert call(lone, slowly).answer == (6).to_bytes(8, "big")
    for other in others:
        other.join()
    assert lone.values(ROW)[b"f:n"] == (36).to_bytes(8, "big")


def test_a_bulk_batch_waits_for_a_procedure(lone: LoneRegion) -> None:
    def check(read: ReadCells) -> tuple[bytes, Sequence[Change]]:
        with pytest.raises(DeadlineError), lone.parts.gate.exclusive(lone.clock.monotonic() + 0.01):
            pass
        return b"", []

    assert call(lone, check).timestamp == 0


def test_other_rows_are_changed_meanwhile(lone: LoneRegion) -> None:
    def change_another(read: ReadCells) -> tuple[bytes, Sequence[Change]]:
        lone.change(b"other", Put(b"f", b"a", b"1"))
        return count(read)

    call(lone, change_another)
    assert lone.values(b"other") == {b"f:a": b"1"}


@pytest.mark.parametrize("flushes", [False, True])
@pytest.mark.parametrize("listed_bytes_max", [1, 1 << 20])
def test_a_repeated_call_gets_its_answer_and_runs_once(tmp_path: Path, flushes: bool, listed_bytes_max: int) -> None:
    lone = LoneRegion(tmp_path, replace(Config(log_segment_bytes=1 << 20), manifest_answers_bytes_max=listed_bytes_max))
    here, request = Here(count), RequestId(CLIENT, 1, 1)
    first = call(lone, here, request)
    assert first.answer == (1).to_bytes(8, "big")
    again = first._replace(repeated_request=True)
    assert call(lone, here, request) == again
    if flushes:
        lone.flush()
    lone.crash()
    assert call(lone, here, request._replace(age_ms=1)) == again
    assert here.run_count == 1
    assert lone.values(ROW) == {b"f:n": (1).to_bytes(8, "big")}
    assert call(lone, here, RequestId(CLIENT, 2, 1)).answer == (2).to_bytes(8, "big")
    lone.stop()


def test_a_repeated_call_without_changes_gets_its_answer(lone: LoneRegion) -> None:
    here = Here(lambda read: (b"%d" % here.run_count, []))
    assert call(lone, here, RequestId(CLIENT, 1, 1)).answer == b"1"
    assert call(lone, here, RequestId(CLIENT, 1, 1)) == RowResult(answer=b"1", repeated_request=True)


def test_a_repeated_call_that_failed_fails_again_and_does_not_run(lone: LoneRegion) -> None:
    known = ProcedureCall(ROW, "known", b"")

    def fail(read: ReadCells) -> tuple[bytes, Sequence[Change]]:
        raise failed(known, "no")

    here = Here(fail)
    for _ in range(2):
        with pytest.raises(ProcedureFailedError, match="no"):
            call(lone, here, RequestId(CLIENT, 1, 1))
    assert here.run_count == 1


def test_a_number_below_the_floor_is_unknown_and_does_not_run(lone: LoneRegion) -> None:
    here = Here(count)
    call(lone, here, RequestId(CLIENT, 5, 5))
    with pytest.raises(UnknownOutcomeError):
        call(lone, here, RequestId(CLIENT, 4, 4))
    assert here.run_count == 1


def test_large_answers_are_cut_like_large_cells(tmp_path: Path) -> None:
    lone = LoneRegion(tmp_path, answer_cell_bytes_max=10_000)
    for sequence in (1, 2):
        call(lone, Here(lambda read: (b"x" * 6000, [Put(b"f", b"a", b"1")])), RequestId(CLIENT, sequence, 1))
    with pytest.raises(UnknownOutcomeError, match=r"its change was made with the stamp .* no longer saved"):
        call(lone, count, RequestId(CLIENT, 1, 1))
    assert call(lone, count, RequestId(CLIENT, 2, 1)).answer == b"x" * 6000
    lone.stop()


def test_another_row_is_not_changed(lone: LoneRegion) -> None:
    with pytest.raises(ProcedureFailedError, match="it changed row 'other', and may change only its own"):
        call(lone, Here(count, row=b"other"))
    assert lone.values(ROW) == lone.values(b"other") == {}


def test_what_a_procedure_may_not_write_is_refused_as_a_whole(lone: LoneRegion) -> None:
    first = Put(b"f", b"a", b"1")
    for change, why in (
        (Put(b"x", b"a", b"1"), "no column family"),
        (Put(b"f", b"q" * 40_000, b"1"), "qualifier_bytes_max"),
        (Put(b"f", b"b", b"x" * (256 << 10)), "more than procedure_write_bytes_max = 262144"),
    ):
        with pytest.raises(ProcedureFailedError, match=why):
            call(lone, lambda read, change=change: (b"", [first, change]))  # type: ignore[misc]
    many = [Put(b"f", b"%d" % i, b"") for i in range(2700)]
    with pytest.raises(ProcedureFailedError, match="100 more for each cell, more than procedure_write_bytes_max"):
        call(lone, lambda read: (b"", many))
    with pytest.raises(ProcedureFailedError, match="its answer and changes have 262145 bytes"):
        call(lone, lambda read: (b"x" * ((256 << 10) + 1), []))
    assert lone.values(ROW) == {}


def test_reads_are_bounded_over_the_whole_call(tmp_path: Path) -> None:
    lone = LoneRegion(tmp_path, Config(log_segment_bytes=1 << 20, procedure_read_bytes_max=10_000))
    lone.change(ROW, Put(b"f", b"a", b"x" * 4000), Put(b"g", b"b", b"y" * 4000))
    long_row = [Put(b"f", b"%03d" % i, b"") for i in range(200)]
    lone.change(b"long", *long_row)

    def read_twice(read: ReadCells) -> tuple[bytes, Sequence[Change]]:
        assert len(read([])) == 2
        read([ColumnSelector(b"f", b"a")])
        return b"", []

    with pytest.raises(ProcedureFailedError, match="read more than procedure_read_bytes_max = 10000 bytes of its row"):
        call(lone, read_twice)
    outcome = outcome_of(lone, lambda read: (b"", [Put(b"f", b"b", b"%d" % len(read([])))]), row=b"long")
    assert isinstance(outcome, ProcedureFailedError), outcome
    assert "procedure_read_bytes_max" in outcome.message
    one = outcome_of(lone, lambda read: (read([ColumnSelector(b"f", b"007")])[0][1], []), row=b"long")
    assert one == RowResult(answer=b"007")
    with pytest.raises(LimitExceededError, match=r"the argument .* has 10001 bytes"):
        outcome_of(lone, count, argument=b"x" * 10_001)
    outcome = outcome_of(lone, lambda read: (b"", [Put(b"f", b"b", read([])[0][2])]), argument=b"x" * 9_000)
    assert isinstance(outcome, ProcedureFailedError), outcome
    lone.stop()


def test_a_family_that_is_not_there_cannot_be_read(lone: LoneRegion) -> None:
    with pytest.raises(ProcedureFailedError, match="table 't' has no column family x; it has: f, g"):
        call(lone, lambda read: (b"", [Put(b"f", b"a", b"%r" % read([ColumnSelector(b"x")]))]))


def test_a_procedure_reads_the_newest_version_of_each_column(lone: LoneRegion) -> None:
    for value in (b"1", b"2", b"3"):
        lone.change(ROW, Put(b"g", b"a", value), Put(b"g", b"b", value))
        lone.flush()
    lone.change(ROW, Delete(DeleteKind.COLUMN, b"g", b"b"))
    found = []
    call(lone, lambda read: (b"", found.append(read([ColumnSelector(b"g")])) or []))  # type: ignore[func-returns-value]
    assert found == [[(b"g", b"a", b"3")]]


def test_changes_are_later_than_what_was_read(lone: LoneRegion) -> None:
    ahead = lone.clock.now_ms() + 3_600_000
    lone.change(ROW, Put(b"f", b"n", (7).to_bytes(8, "big"), ahead), Put(b"f", b"unread", b"1", ahead + 5))
    result = call(lone, count)
    assert result.timestamp == ahead
    assert lone.values(ROW)[b"f:n"] == (8).to_bytes(8, "big")
    blindly = call(lone, lambda read: (b"", [Put(b"f", b"unread", b"2")]))
    assert blindly.timestamp == ahead + 5
    assert lone.values(ROW)[b"f:unread"] == b"2"


def test_what_depends_on_an_unpublished_write_waits_for_it(tmp_path: Path) -> None:
    files = HeldFiles()
    lone = LoneRegion(tmp_path, files=files, durability=Durability.FSYNC)
    files.may_sync.clear()
    outcomes: list[RowOutcome] = []
    writer = threading.Thread(target=lone.change, args=(ROW, Increment(b"f", b"n", 1)))
    writer.start()
    assert files.is_held.wait(WAIT_S)
    options = WriteOptions(lone.clock.monotonic() + WAIT_S)
    seen: list[int] = []

    def look(read: ReadCells) -> tuple[bytes, Sequence[Change]]:
        seen.append(number(read))
        return b"%d" % seen[-1], []

    lone.region.call(ProcedureCall(ROW, "known", b""), Here(look), options, outcomes.extend)
    assert seen == [1], "a procedure builds on the newest state"
    assert not outcomes, "an answer reveals a write that may still be lost"
    files.may_sync.set()
    writer.join()
    wait_until(lambda: outcomes == [RowResult(answer=b"1")])
    lone.stop()


def test_a_call_that_was_not_begun_raises_and_does_not_run(lone: LoneRegion) -> None:
    here = Here(count)
    with pytest.raises(InvalidRequestError, match="the row is empty"):
        outcome_of(lone, here, row=b"")
    with pytest.raises(ProcedureNotFoundError):
        outcome_of(lone, here, name="other")
    assert lone.parts.row_locks.try_acquire([ROW])
    with pytest.raises(DeadlineError):
        outcome_of(lone, here, deadline=lone.clock.monotonic() + 0.01)
    lone.parts.row_locks.release([ROW])
    lone.log.room = 0
    with pytest.raises(RegionTooBusyError):
        outcome_of(lone, here)
    lone.log.room = None
    lone.region.close()
    with pytest.raises(NotServingRegionError):
        outcome_of(lone, here)
    assert here.run_count == 0


def test_a_bug_in_a_call_leaves_no_lock(lone: LoneRegion) -> None:
    def fail(read: ReadCells) -> tuple[bytes, Sequence[Change]]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        call(lone, fail)
    assert lone.parts.row_locks.statistics().held == 0
    assert call(lone, count).answer == (1).to_bytes(8, "big")


def test_a_reply_that_changes_nothing_is_no_write(lone: LoneRegion) -> None:
    assert call(lone, lambda read: (b"only this", [])) == RowResult(answer=b"only this")
    assert lone.cells(ROW) == []


def test_a_full_log_refuses_the_changes_and_the_call_may_be_repeated(lone: LoneRegion) -> None:
    lone.log.room = 2000
    here = Here(lambda read: (b"", [Put(b"f", b"a", b"x" * 4000)]))
    with pytest.raises(RegionTooBusyError):
        call(lone, here, RequestId(CLIENT, 1, 1))
    assert lone.values(ROW) == {}
    lone.log.room = None
    call(lone, here, RequestId(CLIENT, 1, 1))
    assert here.run_count == 2
    assert lone.values(ROW) == {b"f:a": b"x" * 4000}
