"""Bulk writes of a table with a damaged region: every commit is refused, and no region is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.operations import ScanPlan

from tests.unit.host.bulk_store import FAMILIES, ONLY_ON_REQUEST, ROWS, Store, everywhere
from tests.unit.host.several_regions import make_tables_of_several_regions

DAMAGED = 3  # the region with row p


@pytest.fixture(params=[0, 100], ids=["in bulk files", "in store files"])
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Store]:
    make_tables_of_several_regions(monkeypatch, [b"g", b"m", b"t"])
    made = Store(tmp_path / "data", spills_at=request.param)
    made.server.create_table("t", FAMILIES, properties=ONLY_ON_REQUEST)
    for row in ROWS:
        made.put(row, b"old")
    made.server.flush("t")
    yield made
    made.server.stop()


def flip_manifest(store: Store) -> None:
    """Damages a region of the stopped server, or repairs it."""
    for path in (store.folder / "regions" / str(DAMAGED)).glob("manifest-*"):
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)


def state_of_others(store: Store) -> Mapping[int, object]:
    """Returns the content of each sound region, its last write number and its files."""
    found: dict[int, object] = {}
    for start, stop in ((b"", b"m"), (b"t", b"")):
        for region in store.server.regions_of("t", start, stop):
            with region.scan(ScanPlan()) as (_, answers):
                cells = [cell for answer in answers for cell in answer.table.to_pylist()]
            names = sorted(each.name for each in (store.folder / "regions" / str(region.region_id)).iterdir())
            found[region.region_id] = (cells, region.statistics().mvcc.last_write_number, names)
    return found


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (everywhere(b"new"), {}),
        ([(b"a", b"new"), (b"b", b"new")], {}),
        ([(b"a", b"new"), (b"b", b"new")], {"replaces": True, "ranges": ((b"a", b"c"),)}),
    ],
    ids=["rows of all regions", "rows of sound regions", "replacing rows of a sound region"],
)
def test_a_damaged_region_refuses_every_commit_of_its_table_and_no_region_is_changed(
    store: Store, rows: list[tuple[bytes, bytes]], options: dict[str, object]
) -> None:
    ref = store.session()
    for row in rows:
        store.stage(ref, row)
    store.server.stop()
    flip_manifest(store)
    store.open()
    assert list(store.server.damaged_regions()) == [DAMAGED]
    before = state_of_others(store)
    for _ in range(2):
        with pytest.raises(CorruptionError):
            store.commit(ref, **options)
        assert state_of_others(store) == before
    store.server.stop()
    flip_manifest(store)
    store.open()
    assert store.content() == dict.fromkeys(ROWS, b"old")
    store.commit(ref, **options)
    assert store.content() == {**dict.fromkeys(ROWS, b"old"), **dict(rows)}
