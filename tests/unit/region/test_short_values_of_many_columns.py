"""Lines of many short values take fifty times their bytes as cells, so what may become cells is counted as cells."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from rowlock_regionserver.cells import Family
from rowlock_regionserver.config import Config
from rowlock_regionserver.region.bulk.row_batch import RowBatch
from rowlock_regionserver.sources import CELLS_OF_LINES, LinesWanted

from .lone_region import LoneRegion

COLUMN_COUNT, ROW_COUNT = 900, 400
BYTES_MAX = 64 << 10
ONE_BLOCK_AS_CELLS = 5 * COLUMN_COUNT * 64


@pytest.mark.parametrize("is_flushed", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_lines_that_may_become_cells_are_read_by_the_bytes_of_these(
    tmp_path: Path, *, is_flushed: bool, reverse: bool
) -> None:
    region = LoneRegion(tmp_path, Config(bulk_file_bytes_min=1))
    region.alter([Family(0, b"f", block_bytes=4096)])
    values = pa.array([b"v"] * ROW_COUNT, pa.binary(1))
    rows = pa.array([b"%030d" % number for number in range(ROW_COUNT)], pa.binary())
    names = tuple((b"f", b"%03d" % place) for place in range(COLUMN_COUNT))
    region.bulk(RowBatch(rows, pa.nulls(ROW_COUNT, pa.int64()), names, (values,) * COLUMN_COUNT))
    if is_flushed:
        region.flush()
    (source,) = [source for _, sources in region.parts.stores.view.values() for source in sources if len_of(source)]
    chunk = source.read_rows(b"", b"", BYTES_MAX, reverse=reverse, lines=LinesWanted())
    assert chunk.lines is not None
    assert chunk.lines.cell_bytes().sum() <= CELLS_OF_LINES * BYTES_MAX + ONE_BLOCK_AS_CELLS
    few = source.read_rows(b"", b"", BYTES_MAX, reverse=reverse, lines=LinesWanted(frozenset({b"001"})))
    assert few.lines is not None
    assert len(few.lines) == ROW_COUNT
    region.stop()


def len_of(source: object) -> int:
    """Returns how many rows a source has; the active segment has none."""
    return getattr(source, "row_count", 1)
