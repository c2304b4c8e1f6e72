"""Writes sealed values into an LMDB file, and finds the offset of each in the file.

LMDB writes without sync and without files.Files. A thread syncs the blocks while later ones are made; writer.py syncs
the rest. A value larger than a page is contiguous on "overflow" pages. The first of these begins with its page number,
which gives the value's offset in the file. writer.py reads every value back at its offset, so a change of LMDB's layout
would fail the write, not a later read.

Not thread-safe. Must not be open across a fork.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import lmdb
import pyarrow as pa

from rowlock_regionserver.files import SYNCED_BYTES, Files
from rowlock_regionserver.process import forget_pages
from rowlock_regionserver.process_limits import lack_of_memory_refused
from rowlock_regionserver.storefile import format as layout
from rowlock_regionserver.storefile.background_sync import BackgroundSync
from rowlock_regionserver.system_errors import NO_RESOURCES, NO_SPACE

# Address space, not memory. Doubled when it is too small. LMDB writes it into the file, which has a checksum.
MAP_BYTES = 1 << 30

# LMDB holds a transaction in memory until its commit, which writes it in one go: half a millisecond.
TRANSACTION_BYTES = SYNCED_BYTES

# Bytes of the map that may be resident in the process while the offsets are read.
_MAPPED_BYTES_MAX = 1 << 20

# LMDB's errors for a failed write, and for a partial one, which it reports as EIO. LMDB does not sync here, so its EIO
# can't come from an earlier write's page: nothing was acknowledged, and a retry is safe.
_FAILED_WRITE = NO_SPACE | {errno.EFBIG, errno.EIO}

_Entry = tuple[bytes, bytes]


class Container:
    """A context manager whose exit waits for the running sync, and closes LMDB's environment and the file.

    Methods raise OSError when the disk fails, with ENOSPC when it did not accept a write completely, and
    OutOfMemoryError for lack of memory or address space. Then the file must be removed: after a failed sync a later one
    would succeed although data is lost.
    """

    def __init__(self, path: Path, files: Files, map_bytes: int = MAP_BYTES) -> None:
        """Creates the file, replacing an existing one."""
        # LMDB would append to an existing file, and follow a link. It treats an empty file as a new one.
        with lack_of_memory_refused(path):
            descriptor = files.create(path)
        self._path = path
        self._pending: dict[bytes, list[_Entry]] = {}  # by the database
        self._pending_bytes = 0
        self._databases: dict[bytes, object] = {}
        with contextlib.ExitStack() as closed_on_failure:
            closed_on_failure.callback(files.close, descriptor)
            # Any: lmdb has no types.
            self._environment: Any = files.with_descriptor(path, lambda: self._opened(map_bytes))
            closed_on_failure.callback(self._environment.close)
            with self._os_errors():
                # The others are opened, and so made, with their first block.
                for name in (layout.BLOCKS_DATABASE, layout.METADATA_DATABASE):
                    self._databases[name] = self._environment.open_db(name)
                self.page_bytes: int = self._environment.stat()["psize"]
            self._sync = BackgroundSync(files, descriptor)
            self._closing = closed_on_failure.pop_all()

    def _opened(self, map_bytes: int) -> Any:  # Any: as above
        with self._os_errors():
            return lmdb.open(
                os.fsencode(self._path),
                subdir=False,
                map_size=map_bytes,
                max_dbs=4,
                mode=0o600,
                sync=False,
                metasync=False,
                lock=False,
            )

    def __enter__(self) -> Container:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._closing:
            self._sync.wait()

    def put_block(self, database: bytes, key: bytes, value: bytes) -> None:
        """Adds a block to a database; the keys of each must ascend. Every few are written, and a sync begins."""
        assert len(value) > self.page_bytes, f"a value of {len(value)} bytes would not be contiguous"
        self._pending.setdefault(database, []).append((key, value))
        self._pending_bytes += len(value)
        if self._pending_bytes >= TRANSACTION_BYTES:
            self.commit_blocks()
            self._sync.start()

    def commit_blocks(self) -> None:
        """Writes the blocks that were put and not written yet: in the file, those of each kind are neighbours."""
        for name, entries in self._pending.items():
            self._write(name, entries)
        self._pending, self._pending_bytes = {}, 0

    def _database(self, name: bytes) -> object:
        if name not in self._databases:
            self._databases[name] = self._environment.open_db(name)
        return self._databases[name]

    def _grow(self) -> None:
        # The transaction was rolled back and no other is open, so the map may grow.
        self._environment.set_mapsize(2 * self._environment.info()["map_size"])

    def put_metadata(self, value: bytes) -> None:
        assert len(value) > self.page_bytes, f"a value of {len(value)} bytes would not be contiguous"
        self._write(layout.METADATA_DATABASE, [(layout.METADATA_KEY, value)])

    def block_offsets(self, database: bytes) -> list[int]:
        """Returns the file offset of each committed block of a database, in key order."""
        assert not self._pending, f"blocks of {list(self._pending)} are not committed"
        return list(self._offsets(self._databases[database])) if database in self._databases else []

    def metadata_offset(self) -> int:
        """Returns the file offset of the metadata."""
        (offset,) = self._offsets(self._databases[layout.METADATA_DATABASE])
        return offset

    def _write(self, name: bytes, entries: list[_Entry]) -> None:
        with self._os_errors():
            while True:
                try:
                    self._write_once(self._database(name), entries)
                    return
                except lmdb.MapFullError:
                    self._grow()

    def _write_once(self, database: object, entries: list[_Entry]) -> None:
        with self._environment.begin(write=True, db=database) as transaction:
            for key, value in entries:
                # LMDB returns False for a key that is out of order or exists.
                added = transaction.put(key, value, append=True)
                assert added, f"LMDB refused the key {key!r} of {self._path}: out of order, or it exists"

    def _offsets(self, database: object) -> Iterator[int]:
        first_start: int | None = None
        with self._os_errors(), self._environment.begin(db=database, buffers=True) as transaction:
            for _, value in transaction.cursor():
                address = pa.py_buffer(value).address
                # Every page is inside the map, so its start is too, and this reads no memory outside of it.
                start = address - address % self.page_bytes
                (page_number,) = struct.unpack("<Q", pa.foreign_buffer(start, 8).to_pybytes())
                yield page_number * self.page_bytes + address - start
                # Reading a page maps those around it too: without this the whole file would become resident.
                if first_start is None or start < first_start:
                    first_start = start
                elif start - first_start > _MAPPED_BYTES_MAX:
                    forget_pages(first_start, start - first_start)
                    first_start = start

    @contextlib.contextmanager
    def _os_errors(self) -> Iterator[None]:
        """Raises LMDB's errors as OSError, which callers handle like any other error of the disk; see the class too.

        LMDB syncs nothing, so a lack of memory that it reports is no failed sync.
        """
        with lack_of_memory_refused(self._path):
            try:
                yield
            except lmdb.Error as error:
                # A lack of resources says more than EIO.
                number = error.code if error.code in NO_RESOURCES else errno.EIO
                if error.code in _FAILED_WRITE:
                    number = errno.ENOSPC
                raise OSError(number, f"LMDB: {error}", str(self._path)) from error
