"""Where a scan of a region may be split, and how the weights of its sources compare."""

from __future__ import annotations

import os

import pytest
from rowlock_regionserver.cells import Compression, Family
from rowlock_regionserver.errors import FamilyNotFoundError, InvalidRequestError, NotServingRegionError
from rowlock_regionserver.operations import ColumnSelector, Put, RowMutation, ScanPlan, Selection
from rowlock_regionserver.scan.split_points import Part

from .conftest import Engine, bulk_batch
from .lone_region import LoneRegion
from .region_calls import RegionCalls

ROWS = 1000
ARROW_BYTES = ROWS * (5 + 1 + 100 + 8 + 8 + 1 + 12)  # of row, qualifier, value, numbers, kind and offsets


def fill(region: RegionCalls, value: bytes = b"x" * 100) -> None:
    region.mutate(*(RowMutation(b"%05d" % number, (Put(b"f", b"q", value),)) for number in range(ROWS)))


def whole(region: RegionCalls, plan: ScanPlan | None = None) -> int:
    (part,) = region.region.parts(plan or ScanPlan(), 1 << 40)
    return part.byte_count


def scanned(engine: Engine, parts: list[Part]) -> list[bytes]:
    return [cell[0] for part in parts for cell in engine.scan(ScanPlan(ranges=part.ranges))]


def test_a_segment_an_arrow_segment_and_a_file_of_the_same_cells_weigh_about_the_same(engine: Engine) -> None:
    fill(engine)
    in_memory = whole(engine)
    engine.server.flush("t")
    in_file = whole(engine)
    engine.server.truncate_table("t")
    engine.bulk(bulk_batch(*((b"%05d" % number, b"f", b"q", None, b"x" * 100) for number in range(ROWS))))
    assert engine.region.segment_count == 1, "it went into an Arrow segment"
    for byte_count in (in_memory, in_file, whole(engine)):
        # In the file they are lines, which don't repeat the qualifier.
        assert abs(byte_count - ARROW_BYTES) < ARROW_BYTES / 8


@pytest.mark.parametrize("where", ["memory", "arrow", "file"])
def test_parts_of_each_source_are_about_equal_and_read_all(engine: Engine, where: str) -> None:
    engine.server.alter_table("t", [Family(0, b"f", block_bytes=4096)])
    if where == "arrow":
        engine.bulk(bulk_batch(*((b"%05d" % number, b"f", b"q", None, b"x" * 100) for number in range(ROWS))))
    else:
        fill(engine)
    if where == "file":
        engine.server.flush("t")
    parts = engine.region.parts(ScanPlan(), ARROW_BYTES // 8)
    assert 7 <= len(parts) <= 10
    assert scanned(engine, parts) == [b"%05d" % number for number in range(ROWS)]
    counts = [len(scanned(engine, [part])) for part in parts]
    assert max(counts) < ROWS // 5


def test_compressed_blocks_are_weighed_as_they_are_in_memory(lone: LoneRegion) -> None:
    lone.alter([Family(0, b"f", block_bytes=65_536, compression=Compression.ZSTD)])
    value_bytes = 2000 * ROWS
    fill(lone, b"x" * 2000)
    lone.flush()
    (file,) = lone.parts.stores.of(1).files
    assert file.info.file_bytes < value_bytes / 5
    assert value_bytes / 2 < whole(lone) < value_bytes * 2


def test_blocks_that_can_not_be_compressed_are_weighed_as_they_are_in_memory(lone: LoneRegion) -> None:
    lone.alter([Family(0, b"f", block_bytes=65_536, compression=Compression.ZSTD)])
    lone.mutate(*(RowMutation(b"%05d" % i, (Put(b"f", b"q", os.urandom(2000)),)) for i in range(ROWS)))
    lone.flush()
    assert 1000 * ROWS < whole(lone) < 4000 * ROWS


def test_nothing_is_read_from_the_disk(lone: LoneRegion) -> None:
    fill(lone)
    lone.flush()
    lone.crash()
    lone.region.parts(ScanPlan(), 1000)
    ((run,),) = [file.runs for file in lone.parts.stores.of(1).files]
    assert run.statistics().block_read_count == 0


def test_only_families_that_are_asked_are_weighed(engine: Engine) -> None:
    fill(engine)
    assert whole(engine, ScanPlan(Selection(columns=(ColumnSelector(b"g"),)))) == 0
    assert whole(engine, ScanPlan(Selection(columns=(ColumnSelector(b"f", b"other"),)))) == whole(engine)


def test_what_a_scan_would_refuse_is_refused(engine: Engine) -> None:
    with pytest.raises(FamilyNotFoundError):
        engine.region.parts(ScanPlan(Selection(columns=(ColumnSelector(b"x"),))), 1)
    with pytest.raises(InvalidRequestError):
        engine.region.parts(ScanPlan(ranges=((b"b", b"a"),)), 1)
    region = engine.region
    engine.server.drop_table("t")
    with pytest.raises(NotServingRegionError):
        region.parts(ScanPlan(), 1)


def test_an_empty_range_has_no_part_and_an_empty_region_one(engine: Engine) -> None:
    assert engine.region.parts(ScanPlan(), 1) == [Part(((b"", b""),), 0)]
    assert engine.region.parts(ScanPlan(ranges=((b"a", b"a"),)), 1) == []
