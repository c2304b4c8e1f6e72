"""Encodes a table as an Arrow IPC stream, whose parts refer to the buffers of its columns."""

from __future__ import annotations

import io

import pyarrow as pa

from rowlock_regionserver.engine.encoded_message import Part


class _Written(io.IOBase):
    """A file that keeps what Arrow writes. Arrow passes the buffers of columns without copying them."""

    def __init__(self) -> None:
        self.parts: list[Part] = []

    def writable(self) -> bool:
        """Returns True."""
        return True

    def write(self, part: Part) -> None:
        """Keeps a part."""
        self.parts.append(part)


def arrow_stream(table: pa.Table) -> list[Part]:
    """Returns the parts of the stream, which follow one another. Each chunk of the table becomes a record batch."""
    file = _Written()
    with pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    return file.parts
