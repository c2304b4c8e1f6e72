"""How much a get may collect before it is answered, and what it does on the event loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import LimitExceededError
from rowlock_regionserver.files import Files
from rowlock_regionserver.memstore.row_segment import RowSegment
from rowlock_regionserver.operations import EVERYTHING, Put
from rowlock_regionserver.region import read_path
from rowlock_regionserver.scan.point import read_row
from rowlock_regionserver.sources import RowPlace, RowSource
from rowlock_regionserver.storefile.row_filter import RowFilter
from rowlock_regionserver.storefile.wide_run import WideRun

from .conftest import Engine

ANSWER_BYTES_MAX = 10_000


@pytest.fixture
def config(config: Config) -> Config:
    return replace(config, request_bytes_max=ANSWER_BYTES_MAX)


def test_a_get_stops_reading_when_its_answer_is_too_large(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.change(b"a", Put(b"f", b"q", b"v" * 999))
    rows_read: list[bytes] = []

    def counted(stores: object, row: bytes, *others: object) -> object:
        rows_read.append(row)
        return read_row(stores, row, *others)  # type: ignore[arg-type]  # Handed on as they came.

    monkeypatch.setattr(read_path, "read_row", counted)
    with pytest.raises(LimitExceededError) as refused:
        engine.region.get([b"a"] * 1000, EVERYTHING, may_wait=True)
    error = refused.value
    assert (error.limit, error.limit_value, error.row) == ("request_bytes_max", ANSWER_BYTES_MAX, b"a")
    assert len(rows_read) == 10
    assert error.found > ANSWER_BYTES_MAX


def test_a_get_of_a_row_beyond_the_limit_is_refused_before_its_answer_is_made(engine: Engine) -> None:
    engine.change(b"a", *[Put(b"f", b"%02d" % number, b"v" * 999) for number in range(10)])
    with pytest.raises(LimitExceededError):
        engine.region.get([b"a"], EVERYTHING, may_wait=True)
    assert engine.region.get([b"b"] * 1000, EVERYTHING, may_wait=True) == [[]] * 1000


class StoppedClock(Clock):
    """The time when it was made."""

    def __init__(self) -> None:
        self._now = super().monotonic()

    def monotonic(self) -> float:
        return self._now


def test_a_get_on_the_event_loop_asks_the_files_without_the_row_once(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(tmp_path, config, StoppedClock(), Files(), Durability.OS)  # It loads blocks only for a moment.
    for row in (b"a", b"b"):  # So few that none is compacted meanwhile.
        # Of the range of each file, so that only the Bloom filters can tell.
        for each in (b"0", row, b"z"):
            engine.change(each, Put(b"f", b"q", row))
        engine.server.flush("t")
    asked: list[bytes] = []
    may_hold = RowFilter.may_hold

    def counted(rows: RowFilter, row: bytes) -> bool:
        asked.append(row)
        return may_hold(rows, row)

    monkeypatch.setattr(RowFilter, "may_hold", counted)
    answer = engine.region.get([b"b", b"none"], EVERYTHING, may_wait=False)
    assert answer is not None
    assert [[value for *_, value in cells] for cells in answer] == [[b"b"], []]
    files = len(engine.region.stores.all()[0].files)
    assert files == 2
    assert asked.count(b"none") == files
    assert asked.count(b"b") == files
    engine.server.stop()


class PushedClock(Clock):
    """The time, and what a test adds to it."""

    def __init__(self) -> None:
        self.added = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.added


def slow_down(
    monkeypatch: pytest.MonkeyPatch, kind: type[RowSegment] | type[WideRun], clock: PushedClock
) -> list[bytes]:
    """Lets each look for a row in sources of this kind take 2 ms. Returns the list of the rows, which grows."""
    asked: list[bytes] = []
    usual: Callable[[object, bytes], RowSource | RowPlace] = kind.row_source  # type: ignore[assignment]

    def slow(source: object, row: bytes) -> RowSource | RowPlace:
        asked.append(row)
        clock.added += 0.002
        return usual(source, row)

    monkeypatch.setattr(kind, "row_source", slow)
    return asked


def test_a_get_of_many_rows_that_are_in_memory_is_made_however_slow_the_machine_is(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = PushedClock()
    engine = Engine(tmp_path, config, clock, Files(), Durability.OS)
    rows = [b"%d" % number for number in range(10)]
    for row in rows:
        engine.change(row, Put(b"f", b"q", b"v"))
    slow_down(monkeypatch, RowSegment, clock)
    answer = engine.region.get(rows, EVERYTHING, may_wait=False)
    assert answer is not None
    assert all(answer)
    engine.server.stop()


def test_a_get_of_many_rows_loads_blocks_on_the_event_loop_only_for_a_moment(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = PushedClock()
    engine = Engine(tmp_path, config, clock, Files(), Durability.OS)
    rows = [b"%d" % number for number in range(10)]
    for row in rows:
        engine.change(row, Put(b"f", b"q", b"v"))
    engine.server.flush("t")
    asked = slow_down(monkeypatch, WideRun, clock)
    assert engine.region.get(rows, EVERYTHING, may_wait=False) is None
    assert 0 < len(asked) < 3
    answer = engine.region.get(rows, EVERYTHING, may_wait=True)
    assert answer is not None
    assert all(answer)
    monkeypatch.undo()

    def slow_reading(byte_count: int) -> None:
        clock.added += 0.002

    assert engine.region.get(rows, EVERYTHING, may_wait=False, reached=slow_reading) == answer
    engine.server.stop()
