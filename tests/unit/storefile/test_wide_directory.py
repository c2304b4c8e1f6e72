"""What is checked of a block's directory if another one with the same form was decoded before."""

from __future__ import annotations

from pathlib import Path

import pytest
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.storefile import wide_directory
from rowlock_regionserver.storefile.wide_directory import StoredChunk
from rowlock_regionserver.storefile.wide_form import ChunkForm, Kind


def test_a_plain_chunk_of_another_length_is_a_corruption_though_its_form_is_kept() -> None:
    rows = StoredChunk(ChunkForm(Kind.ROWS, 0, 2), bytes(6), 6, 0, 0)
    values = StoredChunk(ChunkForm(Kind.VALUES, 0, 4), bytes(12), 12, 0, 0)
    directory = wide_directory.encode(3, 0, 0, [rows, values], [b"a"], 0)
    payload_bytes = len(directory) + 18
    decoded = wide_directory.decode(directory, payload_bytes, 3, Path("f"), 0)
    assert wide_directory.decode(directory, payload_bytes, 3, Path("f"), 0) == decoded
    for more, fewer in ((rows, values), (values, rows)):
        changed = [
            each._replace(stored=each.stored + b"\0" if each is more else each.stored[: -1 if each is fewer else None])
            for each in (rows, values)
        ]
        damaged = wide_directory.encode(3, 0, 0, changed, [b"a"], 0)
        with pytest.raises(CorruptionError, match="not compressed"):
            wide_directory.decode(damaged, payload_bytes, 3, Path("f"), 0)
