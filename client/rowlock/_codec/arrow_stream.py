"""Reads Arrow IPC streams of a server, which may be damaged."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from rowlock.errors import ServerError


def read_stream(data: bytes | pa.Buffer, fits: Callable[[pa.Schema], bool], what: str) -> pa.Table:
    """Returns the table of a stream, without copying it. `what`: the data's name in messages.

    Raises ServerError unless the stream is valid and its schema fits.
    """
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            table = reader.read_all()
        if not fits(table.schema):
            raise ServerError(f"{what} has the wrong schema: {table.schema}")
        # Otherwise a forged offset could lead outside of the buffer.
        table.validate(full=True)
    except MemoryError:  # Arrow's, too, which is no damage.
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ServerError(f"{what} is damaged: {error}") from error
    return table


class StreamReader:
    """Reads streams that mostly have the schema of the one before, without reading it again. Thread-safe."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        # The message with the schema of the last stream that was read in full, and that schema. Set at once, so that
        # threads that share the reader don't mix them up.
        self._last = pa.py_buffer(b""), pa.schema([])

    def read(self, data: pa.Buffer, fits: Callable[[pa.Schema], bool], what: str) -> pa.Table:
        """Returns what read_stream does, and raises its errors. `fits` must be the same for all streams."""
        known, schema = self._last
        try:
            messages = pa.ipc.MessageReader.open_stream(data)
            message = messages.read_next_message().metadata
            if message.equals(known):
                batches = [pa.ipc.read_record_batch(each, schema) for each in messages]
                for batch in batches:
                    batch.validate(full=True)
                return pa.Table.from_batches(batches, schema)
        except (StopIteration, pa.ArrowException, OSError):
            return read_stream(data, fits, what)  # It raises the error that tells the reason.
        table = read_stream(data, fits, what)
        # They differ if the stream has the other order of bytes, which only read_stream swaps.
        if pa.ipc.read_schema(data).equals(table.schema):
            self._last = pa.py_buffer(message.to_pybytes()), table.schema
        return table
