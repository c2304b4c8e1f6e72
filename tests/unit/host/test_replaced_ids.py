"""Changes that name a region that was split or merged: which region makes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rowlock_regionserver.host.replaced_regions import ReplacedRegions

from .serving_table import Serving


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Serving]:
    serving = Serving(tmp_path)
    yield serving
    serving.server.stop()


def bounds(table: Serving, region_id: int, *rows: bytes) -> tuple[bytes, bytes] | None:
    """Returns the bounds of the region that changes the rows in the place of another one."""
    region = table.server.successor(region_id, rows)
    return None if region is None else (region.start, region.stop)


def test_it_is_the_one_that_has_all_of_the_rows(table: Serving) -> None:
    (whole,) = [region.region_id for region in table.regions]
    assert bounds(table, whole, b"r1") is None  # It is served.
    table.split(b"r5")
    left, right = [region.region_id for region in table.regions]
    assert bounds(table, whole, b"r1", b"r2") == (b"", b"r5")
    assert bounds(table, whole, b"r5") == (b"r5", b"")
    assert bounds(table, whole, b"r1", b"r7") is None
    table.split(b"r3")
    assert bounds(table, whole, b"r1") == bounds(table, left, b"r2") == (b"", b"r3")
    assert bounds(table, whole, b"r4", b"r3") == (b"r3", b"r5")
    assert bounds(table, left, b"r7") is None
    table.merge(1)
    assert bounds(table, whole, b"r4", b"r7") == bounds(table, right, b"r4", b"r7") == (b"r3", b"")
    assert bounds(table, right + 100, b"r1") is None
    table.server.drop_table("t")
    assert bounds(table, whole, b"r1") is None


def test_the_newest_thousand_are_known() -> None:
    replaced = ReplacedRegions()
    for region_id in range(1, 1003):
        replaced.add([region_id], [region_id + 1])
    assert [replaced.successors(region_id) for region_id in (1, 2, 3, 1002)] == [(), (), (1003,), (1003,)]
