"""Encodes a table as an Arrow IPC stream, whose parts refer to the buffers of its columns."""

from __future__ import annotations

import pyarrow as pa

from rowlock_regionserver.arrow.stream_pieces import StreamPieces
from rowlock_regionserver.engine.encoded_message import Part

# Without them Arrow looks for options in the environment, for each stream.
_OPTIONS = pa.ipc.IpcWriteOptions()


def arrow_stream(table: pa.Table) -> list[Part]:
    """Returns the parts of the stream, which follow one another. Each chunk of the table becomes a record batch."""
    stream = StreamPieces()
    with pa.ipc.new_stream(stream, table.schema, options=_OPTIONS) as writer:
        writer.write_table(table)
    return [*stream.pieces]
