"""The filter of a segment has every row of it, and few others."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from rowlock_regionserver.memstore.segment_filter import SegmentFilter

from tests.seeds import drawn_seed


@pytest.mark.parametrize("count", [0, 1, 2, 100, 1023, 1024, 5000])
def test_every_row_passes_and_few_others_do(count: int) -> None:
    generator = random.Random(drawn_seed())
    rows = [generator.randbytes(12) for _ in range(count)]
    others = [generator.randbytes(13) for _ in range(2000)]
    segment_filter = SegmentFilter(pa.array(rows, pa.binary()))
    assert all(segment_filter.may_hold(row) for row in rows)
    # Less than a hundredth is expected, and more than 60 of 2,000 once in 10^16 draws. Of two rows both may have one
    # place of 32, which all rows pass that have it too: 63 are expected then.
    assert sum(segment_filter.may_hold(row) for row in others) < (60 if count >= 100 else 200)
    assert segment_filter.byte_count <= max(1, 24 * count)


def test_fewer_others_pass_beside_large_rows() -> None:
    generator = random.Random(drawn_seed())
    rows = [generator.randbytes(12) for _ in range(1023)]
    others = [generator.randbytes(13) for _ in range(10_000)]
    small, large = (SegmentFilter(pa.array(rows, pa.binary()), row_bytes * len(rows)) for row_bytes in (255, 256))
    assert large.byte_count == 2 * small.byte_count <= 48 * len(rows)
    assert all(large.may_hold(row) for row in rows)
    # 73 and 22 are expected.
    assert sum(map(large.may_hold, others)) < 45 < sum(map(small.may_hold, others))


def test_a_row_may_occur_several_times() -> None:
    assert SegmentFilter(pa.array([b"a", b"a", b"b"])).may_hold(b"a")
