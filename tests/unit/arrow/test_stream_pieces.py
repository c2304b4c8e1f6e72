"""Streams in pieces: which pieces are joined, and how long they live."""

from __future__ import annotations

import gc
import weakref

import pyarrow as pa
import pytest
from rowlock_regionserver.arrow.stream_pieces import JoinedPieces, StreamPieces


def test_small_pieces_are_joined_with_their_neighbours() -> None:
    stream = JoinedPieces(3)
    for piece in (b"a", b"b", b"cde", b"fgh", b"i", b"jklm", b"n"):
        stream.write(piece)
    assert stream.finish() == [b"ab", b"cde", b"fgh", b"i", b"jklm", b"n"]


@pytest.mark.parametrize("bytes_min", [None, 8])
def test_pieces_are_freed_without_the_collector(bytes_min: int | None) -> None:
    """A bulk batch stayed in memory until the collector ran."""
    stream = StreamPieces() if bytes_min is None else JoinedPieces(bytes_min)
    batch = pa.record_batch([pa.array([b"value"])], names=["column"])
    with pa.ipc.new_stream(pa.PythonFile(stream, mode="w"), batch.schema) as writer:
        writer.write_batch(batch)
    is_there = weakref.ref(stream)
    gc.disable()
    try:
        del stream, writer
        assert is_there() is None
    finally:
        gc.enable()
