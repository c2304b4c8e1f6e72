"""A table as an Arrow IPC stream."""

from __future__ import annotations

import pyarrow as pa
import pytest
from rowlock_regionserver.rpc.messages.arrow_stream import arrow_stream


@pytest.mark.parametrize("chunks", [[], [[1]], [[1, 2], [3]]])
def test_a_stream_has_the_chunks_of_its_table_and_an_end(chunks: list[list[int]]) -> None:
    table = pa.Table.from_arrays([pa.chunked_array(chunks, type=pa.int64())], ["n"])
    written = pa.BufferOutputStream()
    with pa.ipc.new_stream(written, table.schema) as writer:
        writer.write_table(table)
    assert b"".join(arrow_stream(table)) == written.getvalue().to_pybytes()
