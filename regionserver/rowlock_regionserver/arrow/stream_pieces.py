"""An Arrow IPC stream in pieces, of which large ones refer to the buffers of columns."""

from __future__ import annotations

import io

import pyarrow as pa


class StreamPieces(io.IOBase):
    """A file to which Arrow writes a stream. Arrow passes the buffers of columns without copying them."""

    def __init__(self, uncopied_bytes_min: int = 0) -> None:
        """Pieces that are smaller are joined with their neighbours."""
        self._uncopied_bytes_min = uncopied_bytes_min
        self._pieces: list[pa.Buffer | bytes] = []
        self._small = bytearray()  # after the last piece

    def writable(self) -> bool:
        """Returns True."""
        return True

    def write(self, data: pa.Buffer | bytes) -> int:
        """Takes the next bytes."""
        if len(data) < self._uncopied_bytes_min:
            self._small += data
        elif self._small:
            self.all().append(data)
        else:
            self._pieces.append(data)
        return len(data)

    def all(self) -> list[pa.Buffer | bytes]:
        """Returns all pieces so far, which follow one another."""
        if self._small:
            self._pieces.append(bytes(self._small))
            self._small.clear()
        return self._pieces
