"""An LMDB file while it is written: sealed values go in, and where each lies in the file comes out.

LMDB writes unsynced and past the files door; the writer syncs afterwards. Values of more than a page lie in one piece
on "overflow" pages: the first of them begins with its page number, which gives the value's place in the file. The
writer reads every value back at that place, so a change of LMDB's layout would fail the write, not a later read.

Not thread-safe. Never open over a fork.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import lmdb
import pyarrow as pa

from rowlock_regionserver.files import NO_DESCRIPTOR, NO_SPACE, Files
from rowlock_regionserver.process import forget_pages
from rowlock_regionserver.storefile import format as layout

# Address space only. Doubled when it is too small.
MAP_BYTES = 1 << 30

# LMDB holds what a transaction wrote in memory until its commit, which writes it in one stretch: half a millisecond.
TRANSACTION_BYTES = 1 << 20

# Of the map, what may count as the process's memory while it is looked through.
_MAPPED_BYTES_MAX = 8 << 20

# What LMDB says when the disk does not take a write, or takes only a part of it, which it calls EIO. LMDB never syncs
# here, so no page of an earlier write can have failed: nothing was promised, and another try is safe.
_NOT_TAKEN = NO_SPACE | {errno.EFBIG, errno.EIO}

_Entry = tuple[bytes, bytes]


class Container:
    """Context manager: leaving it closes LMDB's environment, whatever happened. OSError when the disk refuses;
    ENOSPC when it did not take all of a write."""

    def __init__(self, path: Path, files: Files, map_bytes: int = MAP_BYTES) -> None:
        """A file that is there is replaced."""
        # LMDB would add to it, and follow a link; an empty file it takes for a new one.
        files.close(files.create(path))
        self._path = path
        self._pending: list[_Entry] = []
        self._pending_bytes = 0
        self._environment: Any = files.with_descriptor(path, lambda: self._opened(map_bytes))  # Any: lmdb has no types
        try:
            self._blocks = self._environment.open_db(layout.BLOCKS_DATABASE)
            self._metadata = self._environment.open_db(layout.METADATA_DATABASE)
            self.page_bytes: int = self._environment.stat()["psize"]
        except lmdb.Error as error:
            self._environment.close()
            raise self._os_error(error) from error

    def _opened(self, map_bytes: int) -> Any:  # Any: as above
        try:
            return lmdb.open(
                os.fsencode(self._path),
                subdir=False,
                map_size=map_bytes,
                max_dbs=2,
                mode=0o600,
                sync=False,
                metasync=False,
                lock=False,
            )
        except lmdb.Error as error:
            raise self._os_error(error) from error

    def __enter__(self) -> Container:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._environment.close()

    def put_block(self, key: bytes, value: bytes) -> None:
        """Adds a block; keys must ascend. Every few blocks are one transaction."""
        assert len(value) > self.page_bytes, f"a value of {len(value)} bytes would not lie in one piece"
        self._pending.append((key, value))
        self._pending_bytes += len(value)
        if self._pending_bytes >= TRANSACTION_BYTES:
            self.commit_blocks()

    def commit_blocks(self) -> None:
        """Writes what put_block() still holds."""
        self._write(self._blocks, self._pending)
        self._pending = []
        self._pending_bytes = 0

    def put_metadata(self, value: bytes) -> None:
        assert len(value) > self.page_bytes, f"a value of {len(value)} bytes would not lie in one piece"
        self._write(self._metadata, [(layout.METADATA_KEY, value)])

    def block_offsets(self) -> list[int]:
        """Where in the file each block committed so far lies, in key order."""
        assert not self._pending, f"{len(self._pending)} blocks are not committed"
        return list(self._offsets(self._blocks))

    def metadata_offset(self) -> int:
        """Where in the file the metadata lies."""
        (offset,) = self._offsets(self._metadata)
        return offset

    def _write(self, database: object, entries: list[_Entry]) -> None:
        while True:
            try:
                with self._environment.begin(write=True, db=database) as transaction:
                    for key, value in entries:
                        # LMDB answers False to a key out of order or there already.
                        added = transaction.put(key, value, append=True)
                        assert added, f"LMDB did not take the key {key!r} of {self._path}"
                return
            except lmdb.MapFullError:
                # The transaction is undone; nothing else is open, so the map may grow.
                self._environment.set_mapsize(2 * self._environment.info()["map_size"])
            except lmdb.Error as error:
                raise self._os_error(error) from error

    def _offsets(self, database: object) -> Iterator[int]:
        first_start: int | None = None
        with self._environment.begin(db=database, buffers=True) as transaction:
            for _, value in transaction.cursor():
                address = pa.py_buffer(value).address
                # The page's start is inside the map, as every page is, so this reads no foreign memory.
                start = address - address % self.page_bytes
                (page_number,) = struct.unpack("<Q", pa.foreign_buffer(start, 8).to_pybytes())
                yield page_number * self.page_bytes + address - start
                # With each page that is looked at the system maps those around it, in the end all of the file.
                if first_start is None or start < first_start:
                    first_start = start
                elif start - first_start > _MAPPED_BYTES_MAX:
                    forget_pages(first_start, start - first_start)
                    first_start = start

    def _os_error(self, error: lmdb.Error) -> OSError:
        number = error.code if error.code in NO_DESCRIPTOR else errno.EIO
        if error.code in _NOT_TAKEN:
            number = errno.ENOSPC
        return OSError(number, f"LMDB: {error}", str(self._path))
