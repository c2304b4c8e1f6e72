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
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ServerError(f"{what} is damaged: {error}") from error
    return table
