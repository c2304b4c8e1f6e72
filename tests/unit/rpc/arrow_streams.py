"""Arrow streams as a stranger may send them: valid ones, and the same with random damage."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Literal

import pyarrow as pa


def encoded(*batches: pa.RecordBatch, compression: Literal["lz4", "zstd"] | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        for each in batches:
            writer.write_batch(each)
    return sink.getvalue().to_pybytes()


def damaged(whole: bytes, source: random.Random, head_bytes: int) -> Iterator[bytes]:
    """Yields 4,000 copies of a stream with a few flipped bits, most of them in its head; one in ten is cut too."""
    for _ in range(4000):
        data = bytearray(whole)
        for _ in range(source.choice((1, 1, 2, 5))):
            position = source.randrange(len(data)) if source.random() < 0.4 else source.randrange(head_bytes)
            data[position] ^= 1 << source.randrange(8)
        if source.random() < 0.1:
            del data[source.randrange(len(data)) :]
        yield bytes(data)
