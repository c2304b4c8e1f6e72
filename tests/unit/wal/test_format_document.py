"""The example in docs/wal_format.md is what the code writes."""

from __future__ import annotations

import re
from pathlib import Path

from rowlock_regionserver.wal.marker import Marker
from rowlock_regionserver.wal.record import Position, encode_record, segment_seed
from rowlock_regionserver.wal.segment import SegmentHeader, encode_head

DOCUMENT = Path(__file__).parents[3] / "docs" / "wal_format.md"


def test_the_code_writes_the_example_in_the_document() -> None:
    text = DOCUMENT.read_text()
    dump = re.findall(r"^ *\d+  ((?:[0-9a-f]{2} *)+)$", text, re.MULTILINE)
    log_id = bytes(range(16))
    seed = segment_seed(log_id, 1)
    head = encode_head(SegmentHeader(1, log_id, 0, 0, 64 << 20), seed, Marker({}).encode(), Position(1, 0))
    record = encode_record(seed, len(head), 7, 5, 0, Position(1, len(head)), 1, b"hello")
    assert bytes.fromhex("".join(dump)) == head + record
    assert f"`{seed:08x}`" in text
