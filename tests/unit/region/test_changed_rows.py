"""The rows that a bulk write finds changed, whatever its sources return."""

from __future__ import annotations

import pyarrow as pa
from rowlock_regionserver.arrow.columns import cells_table
from rowlock_regionserver.cells import NEWEST, PUT, Family
from rowlock_regionserver.region.changed_rows import changed_rows, distinct_rows
from rowlock_regionserver.sources import Chunk


class TwoChunks:
    """A source whose cells are in two chunks of Arrow, as those of several blocks are."""

    write_number_max = 7

    def read_rows(self, *arguments: object) -> Chunk:
        parts = [cells_table([row], [[(b"q", -1, -7, PUT, b"v")]]) for row in (b"a", b"b")]
        return Chunk(pa.concat_tables(parts), None, False, False, NEWEST, 0)


def test_the_cells_of_a_read_may_be_in_several_chunks() -> None:
    view = {1: (Family(1, b"f"), (TwoChunks(),))}
    rows = distinct_rows(changed_rows(view, 6, [(b"", b"")]))  # type: ignore[arg-type]
    assert rows.to_pylist() == [b"a", b"b"]
