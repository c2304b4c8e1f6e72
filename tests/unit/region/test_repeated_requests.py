"""Requests that are repeated, late, or reuse an id: their answers, and that nothing is applied twice."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import Clock, ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    CounterOverflowError,
    FamilyNotFoundError,
    FilterTypeError,
    InvalidRequestError,
    LimitExceededError,
    NotACounterError,
    RegionServerError,
    RegionTooBusyError,
    UnknownOutcomeError,
)
from rowlock_regionserver.files import Files
from rowlock_regionserver.operations import (
    Append,
    Change,
    ColumnComparison,
    CompareOp,
    Condition,
    Delete,
    DeleteKind,
    Existence,
    Increment,
    Put,
    RequestId,
    RowMutation,
    RowOutcome,
    RowResult,
    ValueType,
    WriteOptions,
)
from rowlock_regionserver.region.bulk.bulk_load import BulkResult

from tests.waiting import WAIT_S

from .conftest import Engine, HeldFiles, bulk_batch

CLIENT = b"c" * 16
HOUR_MS = 3600 * 1000
COUNTER_MAX = b"\x7f" + b"\xff" * 7
TIGHT = Config(log_segment_bytes=1 << 20, cell_bytes_max=100, worker_threads=2)


def request(sequence: int = 1, floor: int = 1, age_ms: int = 0) -> RequestId:
    return RequestId(CLIENT, sequence, floor, age_ms)


def outcome_of(
    engine: Engine, row: bytes, *changes: Change, condition: Condition | None = None, number: int = 1
) -> RowOutcome:
    (outcome,) = engine.mutate(RowMutation(row, changes, condition, (), request(number)))
    return outcome


# ---- age


def test_an_increment_counts_once_whatever_the_wall_clock_does(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = Engine(tmp_path, Config(), clock, Files(), Durability.OS)
    first = engine.change(b"r", Increment(b"f", b"n", 1), request=request())
    for step_ms in (2 * HOUR_MS, -50 * HOUR_MS, 100 * HOUR_MS):
        clock.set_now_ms(clock.now_ms() + step_ms)
        engine.change(b"r", Put(b"f", b"q", b"v"))
        engine.server.flush("t")
        again = engine.change(b"r", Increment(b"f", b"n", 1), request=request())
        assert again == first._replace(repeated_request=True)
        engine.crash()
    assert engine.values(b"r")[b"f:n"] == (1).to_bytes(8, "big")
    engine.server.stop()


def test_an_answer_is_remembered_for_an_hour_from_a_restart_on(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = Engine(tmp_path, Config(), clock, Files(), Durability.OS)
    first = engine.change(b"r", Increment(b"f", b"n", 1), request=request())
    clock.advance(HOUR_MS - 1)
    engine.restart()
    clock.advance(HOUR_MS - 1)
    engine.change(b"r", Put(b"f", b"q", b"v"))
    engine.server.flush("t")
    assert engine.change(b"r", Increment(b"f", b"n", 1), request=request()) == first._replace(repeated_request=True)
    engine.server.stop()


def test_a_change_whose_answer_may_have_been_forgotten_is_not_applied_again(
    tmp_path: Path,
) -> None:
    """Even if it was forgotten before a restart."""
    clock = ManualClock()
    engine = Engine(tmp_path, Config(), clock, Files(), Durability.OS)
    engine.change(b"r", Increment(b"f", b"n", 1), request=request())
    clock.advance(HOUR_MS + 1)
    engine.change(b"r", Put(b"f", b"q", b"v"))
    engine.server.flush("t")
    for _ in range(2):
        with pytest.raises(UnknownOutcomeError, match="may be forgotten"):
            engine.change(b"r", Increment(b"f", b"n", 1), request=request(age_ms=HOUR_MS + 2))
        engine.crash()
    assert engine.values(b"r")[b"f:n"] == (1).to_bytes(8, "big")
    engine.change(b"r", Increment(b"f", b"n", 1), request=request(2, age_ms=60_000))  # Nothing so young was forgotten.
    assert engine.values(b"r")[b"f:n"] == (2).to_bytes(8, "big")
    engine.server.stop()


# ---- row and kind


@pytest.mark.parametrize("ended", ["", "crashed", "flushed"])
def test_a_request_id_with_another_row_or_kind_is_refused(engine: Engine, ended: str) -> None:
    engine.change(b"r", Put(b"f", b"q", b"1"), request=request(1))
    assert isinstance(engine.bulk(bulk_batch((b"b", b"f", b"q", None, b"2")), request(2)), BulkResult)
    if ended == "flushed":
        engine.server.flush("t")
    if ended:
        engine.crash()
    for row, number in ((b"s", 1), (b"b", 2), (b"s", 2)):
        with pytest.raises(InvalidRequestError, match="sequence of its own"):
            engine.change(row, Put(b"f", b"q", b"other"), request=request(number))
    with pytest.raises(InvalidRequestError, match="sequence of its own"):
        raise_error(engine, bulk_batch((b"r", b"f", b"q", None, b"other")), request(1))
    with pytest.raises(InvalidRequestError, match="sequence of its own"):
        raise_error(engine, bulk_batch((b"c", b"f", b"q", None, b"other")), request(2))
    assert engine.change(b"r", Put(b"f", b"q", b"1"), request=request(1)).repeated_request
    assert {cell[0]: cell[4] for cell in engine.scan()} == {b"r": b"1", b"b": b"2"}


def raise_error(engine: Engine, batch: object, bulk_request: RequestId) -> None:
    outcome = engine.bulk(batch, bulk_request)  # type: ignore[arg-type]
    assert isinstance(outcome, RegionServerError), outcome
    raise outcome


# ---- refusals


REFUSED: dict[str, tuple[Change, Condition | None, type[RegionServerError], Change | None]] = {
    "no counter": (Increment(b"f", b"text", 1), None, NotACounterError, Delete(DeleteKind.ROW)),
    "overflow": (Increment(b"f", b"max", 1), None, CounterOverflowError, Delete(DeleteKind.ROW)),
    "cell too large": (Append(b"f", b"text", b"x" * 90), None, LimitExceededError, Delete(DeleteKind.ROW)),
    "filter": (
        Put(b"f", b"q", b"v"),
        Condition(filter=ColumnComparison(b"f", b"text", CompareOp.EQUAL, bytes(8), ValueType.INT64)),
        FilterTypeError,
        Put(b"f", b"text", bytes(8)),
    ),
    "unknown family": (Put(b"new", b"q", b"v"), None, FamilyNotFoundError, None),
    "future": (Put(b"f", b"q", b"v", 1 << 50), None, LimitExceededError, None),
}


@pytest.mark.parametrize("config", [TIGHT])
@pytest.mark.parametrize("kind", REFUSED)
def test_a_change_that_was_refused_is_not_applied_by_a_late_copy(engine: Engine, kind: str) -> None:
    change, condition, error, mended = REFUSED[kind]
    engine.change(b"r", Put(b"f", b"text", b"text of length 14"), Put(b"f", b"max", COUNTER_MAX))
    assert isinstance(outcome_of(engine, b"r", change, condition=condition), error)
    if mended is not None:
        engine.change(b"r", mended)
    elif kind == "unknown family":
        engine.server.alter_table("t", set_families=[Family(0, b"new")])
    before = engine.scan()
    assert isinstance(outcome_of(engine, b"r", change, condition=condition), error)
    assert engine.scan() == before
    if kind != "future":
        made = outcome_of(engine, b"r", change, condition=condition, number=2)
        assert isinstance(made, RowResult), "another change is judged by what is there"


@pytest.mark.parametrize("count", [1, 500])
def test_a_bulk_batch_that_was_refused_is_not_applied_by_a_late_copy(engine: Engine, count: int) -> None:
    batch = bulk_batch(*[(b"%04d" % i, b"new", b"q", None, b"v" * 50) for i in range(count)])
    assert isinstance(engine.bulk(batch, request()), FamilyNotFoundError)
    engine.server.alter_table("t", set_families=[Family(0, b"new")])
    assert isinstance(engine.bulk(batch, request()), FamilyNotFoundError)
    assert engine.scan() == []
    assert list((engine.folder / "bulk").iterdir()) == []
    assert isinstance(engine.bulk(batch, request(2)), BulkResult)


def test_an_applied_change_gets_its_first_answer_even_if_it_would_be_refused_now(engine: Engine) -> None:
    batch = bulk_batch((b"b", b"g", b"q", None, b"v"))
    first = engine.change(b"r", Put(b"g", b"q", b"v"), request=request(1))
    engine.bulk(batch, request(2))
    engine.server.alter_table("t", drop_families=[b"g"])
    assert engine.change(b"r", Put(b"g", b"q", b"v"), request=request(1)) == first._replace(repeated_request=True)
    outcome = engine.bulk(batch, request(2))
    assert isinstance(outcome, UnknownOutcomeError)
    assert "applied before" in outcome.message


def test_a_retryable_refusal_is_not_saved(tmp_path: Path) -> None:
    engine = Engine(tmp_path, Config(memstore_bytes_max=80_000), Clock(), Files(), Durability.OS)
    engine.change(b"r", Put(b"f", b"q", b"v" * 50_000))
    with pytest.raises(RegionTooBusyError):
        engine.change(b"r", Append(b"f", b"q", b"+"), request=request())
    engine.server.flush("t")
    assert engine.change(b"r", Append(b"f", b"q", b"+"), request=request()).timestamp
    engine.server.stop()


# ---- unpublished


class BrokenFiles(HeldFiles):
    """Fails the sync that it blocked."""

    def fdatasync(self, descriptor: int) -> None:
        was_held = not self.may_sync.is_set()
        super().fdatasync(descriptor)
        if was_held:
            raise OSError(5, "Input/output error")


@pytest.fixture
def broken(tmp_path: Path, config: Config) -> Iterator[Engine]:
    """Row `r` is published with a text, a counter at its maximum, and another counter."""
    engine = Engine(tmp_path, config, Clock(), BrokenFiles(), Durability.FSYNC)
    engine.change(b"r", Put(b"f", b"text", b"t"), Put(b"f", b"max", COUNTER_MAX), Put(b"f", b"n", bytes(8)))
    engine.change(b"done", Put(b"f", b"q", b"v"), request=request(9))
    yield engine
    assert len(engine.fatal) == 1


READING = {
    "overflow": RowMutation(b"r", (Increment(b"f", b"n", 1),)),
    "no counter": RowMutation(b"r", (Increment(b"f", b"text", 1),)),
    "no": RowMutation(b"r", (Put(b"f", b"q", b"v"),), Condition(existence=Existence.ABSENT)),
    "repeated": RowMutation(b"r", (Put(b"f", b"n", COUNTER_MAX),), None, (), request(5)),
    "of a published row": RowMutation(b"done", (Increment(b"f", b"q", 1),)),
    "repeated and published": RowMutation(b"done", (Put(b"f", b"q", b"v"),), None, (), request(9)),
    "refused by itself": RowMutation(b"r", (Put(b"nofam", b"q", b"v"),)),
}
FINAL = {
    "of a published row": NotACounterError,
    "repeated and published": RowResult,
    "refused by itself": FamilyNotFoundError,
}


@pytest.mark.parametrize("together", [True, False])
def test_an_outcome_that_depends_on_an_unpublished_write_is_unknown(broken: Engine, together: bool) -> None:
    """For example an overflow of a counter whose increment was lost by the failed sync. Outcomes that depend only on
    published writes are final."""
    files = broken.files
    assert isinstance(files, BrokenFiles)
    files.may_sync.clear()
    outcomes: dict[str, RowOutcome] = {}
    answered = threading.Event()
    options = WriteOptions(time.monotonic() + WAIT_S)

    def done(places: list[int], them: list[RowOutcome]) -> None:
        outcomes.update((["change", *READING][place], outcome) for place, outcome in zip(places, them, strict=True))
        if len(outcomes) == 1 + len(READING):
            answered.set()

    first = RowMutation(b"r", (Put(b"f", b"n", COUNTER_MAX),), None, (), request(5))
    mutations = [first, *READING.values()]
    if together:
        places = list(range(len(mutations)))
        assert broken.region.mutate(mutations, options, lambda them: done(places, them), may_wait=True)
    else:
        assert broken.region.mutate_each(mutations, options, done)
    assert files.is_held.wait(WAIT_S)
    files.may_sync.set()
    assert answered.wait(WAIT_S)
    assert {name: type(outcome) for name, outcome in outcomes.items()} == {
        name: FINAL.get(name, UnknownOutcomeError) for name in ("change", *READING)
    }


# ---- truncate


@pytest.mark.parametrize("ended", ["", "crashed", "restarted"])
@pytest.mark.parametrize("count", [3, 3000])
def test_a_truncated_table_remembers_earlier_requests(engine: Engine, ended: str, count: int) -> None:
    mutations = [RowMutation(b"%04d" % i, (Increment(b"f", b"n", 1),), None, (), request(i + 1)) for i in range(count)]
    first = engine.mutate(*mutations)
    engine.server.truncate_table("t")
    if ended:
        engine.crash() if ended == "crashed" else engine.restart()
    again = engine.mutate(*mutations)
    assert again == [result._replace(repeated_request=True) for result in first if isinstance(result, RowResult)]
    assert engine.scan() == []
    assert engine.change(b"r", Increment(b"f", b"n", 1), request=request(count + 1, count + 1)).timestamp
    engine.server.flush("t")
    assert engine.server.damaged_regions() == {}


class FullForCatalogs(Files):
    is_full = False

    def rename(self, source: Path, target: Path) -> None:
        if self.is_full and target.parent.name == "catalog":
            raise OSError(errno.ENOSPC, "No space left on device", str(target))
        super().rename(source, target)


def test_a_table_that_could_not_be_truncated_still_accepts_writes(tmp_path: Path, config: Config) -> None:
    files = FullForCatalogs()
    engine = Engine(tmp_path, config, Clock(), files, Durability.OS)
    engine.change(b"r", Put(b"f", b"q", b"1"))
    files.is_full = True
    with pytest.raises(RegionServerError):
        engine.server.truncate_table("t")
    files.is_full = False
    engine.change(b"r", Put(b"f", b"q", b"2"))
    assert engine.values(b"r") == {b"f:q": b"2"}
    engine.server.truncate_table("t")
    assert engine.scan() == []
    engine.server.stop()
