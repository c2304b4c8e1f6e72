"""The tombstones with which a bulk write replaces rows."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import Column, constant_binary_array, integer_array
from rowlock_regionserver.cells import DELETE_FAMILY
from rowlock_regionserver.region.bulk.arranged import FAMILY_CELLS_SCHEMA, FamilyPart, FamilyParts


def family_tombstones(rows: Column, timestamp: int, family_numbers: Iterable[int]) -> FamilyParts:
    """Returns a tombstone of each family for each row; the rows ascend."""
    count = len(rows)
    empty = constant_binary_array(b"", count)
    table = pa.table(
        [
            rows,
            empty,
            integer_array(np.full(count, timestamp, np.int64), pa.int64()),
            integer_array(np.full(count, DELETE_FAMILY, np.int8), pa.int8()),
            empty,
        ],
        schema=FAMILY_CELLS_SCHEMA,
    )
    return {number: FamilyPart(cells=table) for number in family_numbers}
