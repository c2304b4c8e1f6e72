"""Encodes a table as an Arrow IPC stream, without a writer, which would copy each byte once more."""

from __future__ import annotations

import pyarrow as pa

from rowlock_regionserver.rpc.messages.compressed_rows import Part

_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def arrow_stream(table: pa.Table) -> list[Part]:
    """Returns the parts of the stream, which follow one another. Each chunk of the table becomes a record batch."""
    return [table.schema.serialize(), *(batch.serialize() for batch in table.to_batches()), _END_OF_STREAM]
