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


class JoinedPieces(StreamPieces):
    """A file like this in which small pieces are joined with their neighbours."""

    def __init__(self, uncopied_bytes_min: int) -> None:
        """Pieces that are smaller are joined."""
        super().__init__()
        self.write = self._write
        self._uncopied_bytes_min = uncopied_bytes_min
        self._small = bytearray()  # after the last piece

    def _write(self, data: Piece) -> None:
        if len(data) < self._uncopied_bytes_min:
            self._small += data
        else:
            self.finish()
            self.pieces.append(data)

    def finish(self) -> list[Piece]:
        """Returns all pieces so far, the last joined one among them."""
        if self._small:
            self.pieces.append(bytes(self._small))
            self._small.clear()
        return self.pieces
