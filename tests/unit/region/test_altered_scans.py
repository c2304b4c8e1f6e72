"""The effects of an alter, a drop and a truncate on a scan, a snapshot, a plan and a bulk batch in progress."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import FamilyNotFoundError
from rowlock_regionserver.files import Files
from rowlock_regionserver.operations import (
    CellFilter,
    ColumnComparison,
    ColumnPresence,
    ColumnSelector,
    CompareOp,
    FormColumn,
    NotOf,
    Put,
    ScanPlan,
    Selection,
)
from rowlock_regionserver.scan.batches import ScanAnswer
from rowlock_regionserver.scan.selection import check_plan

from .conftest import Engine

ROWS = 60
G_MATCHES = ColumnComparison(b"g", b"q", CompareOp.EQUAL, b"w")
NAMING = {
    "selection": Selection((ColumnSelector(b"f"), ColumnSelector(b"g"))),
    "column": Selection((ColumnSelector(b"f"), ColumnSelector(b"g", b"q"))),
    "filter": Selection(where=G_MATCHES),
    "filter of another": Selection((ColumnSelector(b"f"),), where=G_MATCHES),
    "negated filter": Selection((ColumnSelector(b"f"),), where=NotOf(ColumnPresence(b"g", b"none", present=True))),
    "keys": Selection((ColumnSelector(b"f"),), where=G_MATCHES, cells=CellFilter(keys_only=True)),
}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    running = Engine(tmp_path, Config(scan_window_bytes=500), Clock(), Files(), Durability.OS)
    for row in range(ROWS):
        running.change(b"%03d" % row, Put(b"f", b"q", b"v" * 50), Put(b"g", b"q", b"w"))
    yield running
    running.server.stop()
    assert not running.fatal


@pytest.mark.parametrize("naming", NAMING)
@pytest.mark.parametrize("is_flushed", [False, True])
@pytest.mark.parametrize("comes_back", [False, True])
def test_a_scan_that_names_a_family_which_is_dropped_meanwhile_does_not_look_complete(
    engine: Engine, naming: str, is_flushed: bool, comes_back: bool
) -> None:
    if is_flushed:
        engine.server.flush("t")
    with engine.region.scan(ScanPlan(NAMING[naming], batch_rows=5)) as (_, answers):
        assert next(answers).row_count == 5
        engine.server.alter_table("t", drop_families=[b"g"])
        if comes_back:  # Another family, of which the scan knows nothing.
            engine.server.alter_table("t", set_families=[Family(0, b"g")])
            engine.change(b"999", Put(b"g", b"q", b"w"))
        given: list[ScanAnswer] = []
        with pytest.raises(FamilyNotFoundError) as ended:
            given.extend(answers)
        assert 5 + sum(answer.row_count for answer in given) < ROWS
    assert (ended.value.table, ended.value.family) == ("t", b"g")


def test_a_scan_in_row_form_that_names_a_dropped_family_does_not_look_complete(engine: Engine) -> None:
    form = (FormColumn(b"f", b"q"), FormColumn(b"g", b"q"))
    with engine.region.scan(ScanPlan(row_form=form, batch_rows=5)) as (_, answers):
        next(answers)
        engine.server.alter_table("t", drop_families=[b"g"])
        with pytest.raises(FamilyNotFoundError):
            list(answers)


def test_a_scan_of_a_snapshot_that_names_a_dropped_family_does_not_look_complete(engine: Engine) -> None:
    snapshot_id = bytes(16)
    engine.server.make_snapshot("t", snapshot_id, 0, "")
    region = engine.server.region_at(engine.region.region_id, snapshot_id)
    plan = ScanPlan(NAMING["filter"], batch_rows=5)
    with region.scan(plan) as (_, answers):
        next(answers)
        engine.server.alter_table("t", drop_families=[b"g"])
        with pytest.raises(FamilyNotFoundError):
            list(answers)
    with pytest.raises(FamilyNotFoundError), region.scan(plan) as (_, answers):
        list(answers)


@pytest.mark.parametrize("naming", NAMING)
def test_a_scan_of_a_snapshot_does_not_take_a_later_family_for_one_of_the_same_name(
    engine: Engine, naming: str
) -> None:
    snapshot_id = bytes(16)
    engine.server.make_snapshot("t", snapshot_id, 0, "")
    engine.server.alter_table("t", drop_families=[b"g"])
    engine.server.alter_table("t", set_families=[Family(0, b"g")])
    region = engine.server.region_at(engine.region.region_id, snapshot_id)
    with pytest.raises(FamilyNotFoundError, match="snapshot"), region.scan(ScanPlan(NAMING[naming])) as (_, answers):
        list(answers)


def test_a_family_that_came_after_a_snapshot_is_empty_in_it(engine: Engine) -> None:
    snapshot_id = bytes(16)
    engine.server.make_snapshot("t", snapshot_id, 0, "")
    engine.server.alter_table("t", set_families=[Family(0, b"h")])
    engine.change(b"001", Put(b"h", b"q", b"v"))
    region = engine.server.region_at(engine.region.region_id, snapshot_id)
    with region.scan(ScanPlan(Selection((ColumnSelector(b"h"),)))) as (_, answers):
        assert list(answers) == []


def test_a_scan_goes_on_when_another_family_is_changed_added_or_dropped(engine: Engine) -> None:
    plan = ScanPlan(Selection((ColumnSelector(b"f"),)), batch_rows=5)
    with engine.region.scan(plan) as (_, answers):
        count = next(answers).row_count
        engine.server.alter_table("t", set_families=[Family(0, b"f", versions=5), Family(0, b"h")])
        engine.server.alter_table("t", drop_families=[b"g"])
        assert count + sum(answer.row_count for answer in answers) == ROWS


def test_a_plan_is_made_for_the_families_that_it_was_judged_by(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def altered_after(plan: ScanPlan, families: Mapping[bytes, Family], config: Config) -> None:
        monkeypatch.undo()
        check_plan(plan, families, config)
        engine.server.alter_table("t", drop_families=[b"g"])

    monkeypatch.setattr("rowlock_regionserver.region.read_path.check_plan", altered_after)
    with pytest.raises(FamilyNotFoundError):
        engine.region.parts(ScanPlan(NAMING["selection"]), 1000)
    assert engine.region.parts(ScanPlan(), 1000)


def test_a_scan_that_was_made_and_not_begun_is_judged_when_it_begins(engine: Engine) -> None:
    scan = engine.region.scan(ScanPlan(NAMING["selection"]))
    engine.server.alter_table("t", drop_families=[b"g"])
    with pytest.raises(FamilyNotFoundError), scan:
        pass
    with pytest.raises(FamilyNotFoundError), engine.region.scan(replace(ScanPlan(), selection=NAMING["filter"])):
        pass
