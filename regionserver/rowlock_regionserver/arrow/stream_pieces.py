"""An Arrow IPC stream in pieces, of which large ones refer to the buffers of columns."""

from __future__ import annotations

import io
from collections.abc import Callable

import pyarrow as pa

Piece = pa.Buffer | bytes


class StreamPieces(io.IOBase):
    """A file to which Arrow writes a stream. Arrow passes the buffers of columns without copying them."""

    def __init__(self) -> None:
        # They follow one another.
        self.pieces: list[Piece] = []
        # Arrow writes many pieces, and does not look at what this returns.
        self.write: Callable[[Piece], object] = self.pieces.append

    def writable(self) -> bool:
        """Returns True."""
        return True


class JoinedPieces(io.IOBase):
    """A file like StreamPieces that joins small pieces with their neighbours."""

    def __init__(self, uncopied_bytes_min: int) -> None:
        """Pieces of fewer bytes are joined."""
        self._uncopied_bytes_min = uncopied_bytes_min
        self._pieces: list[Piece] = []
        self._small = bytearray()  # after the last piece

    def writable(self) -> bool:
        """Returns True."""
        return True

    # No attribute with a bound method, as that would be a cycle: it keeps the pieces until the collector runs.
    def write(self, data: Piece) -> None:
        """Takes the next bytes."""
        if len(data) < self._uncopied_bytes_min:
            self._small += data
        else:
            self.finish()
            self._pieces.append(data)

    def finish(self) -> list[Piece]:
        """Returns all pieces so far, which follow one another; no later piece is joined with them."""
        if self._small:
            self._pieces.append(bytes(self._small))
            self._small.clear()
        return self._pieces
