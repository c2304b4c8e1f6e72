"""Where the rows of an import come from: a file, or standard input.

A source is read more than once: its heading, its rows, again with larger blocks if a row of CSV is long, and again to
find a fault. So standard input is first copied to a temporary file.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TextIO, cast

import pyarrow as pa

from rowlock.cli.arguments import ArgumentError
from rowlock.cli.start import ended_by_signals
from rowlock.cli.transfer.formats import STANDARD

_COPIED_BYTES = 1 << 20
# What reading a compressed file raises if it is damaged, cut off, or not compressed at all.
COMPRESSION_ERRORS = (EOFError, zlib.error, gzip.BadGzipFile)


@dataclass(frozen=True, slots=True)
class Source:
    """A file to import. name: for messages. byte_count: its size as it is stored."""

    name: str
    path: Path
    is_compressed: bool
    byte_count: int

    def open(self) -> IO[bytes]:
        """Returns the content from the beginning, decompressed."""
        if self.is_compressed:
            return cast("IO[bytes]", gzip.open(self.path, "rb"))
        return self.path.open("rb")

    def open_text(self, encoding: str) -> io.TextIOWrapper:
        """Returns the content as text, with its line ends as they are. Invalid characters are replaced."""
        return io.TextIOWrapper(self.open(), encoding=encoding, errors="replace", newline="")

    @contextlib.contextmanager
    def open_arrow(self) -> Iterator[pa.NativeFile]:
        """Yields the content from the beginning, decompressed, for Arrow's threads, which need no Python then."""
        with pa.OSFile(str(self.path), "rb") as file:
            if not self.is_compressed:
                yield file
                return
            with pa.CompressedInputStream(file, "gzip") as content:
                yield content


@contextlib.contextmanager
def source_of(file: str, stdin: TextIO, *, is_compressed: bool) -> Iterator[Source]:
    """Yields the source that FILE names. Raises ArgumentError if there is none, OSError if it can't be copied."""
    if file != STANDARD:
        path = Path(file)
        if not path.is_file():
            raise ArgumentError(f"{path} is not a regular file" if path.exists() else f"there is no file {path}")
        yield Source(str(path), path, is_compressed, path.stat().st_size)
        return
    with ended_by_signals(), tempfile.NamedTemporaryFile(prefix="rowlock-import-") as copy:
        shutil.copyfileobj(stdin.buffer, copy, _COPIED_BYTES)
        copy.flush()
        yield Source("standard input", Path(copy.name), is_compressed, os.fstat(copy.fileno()).st_size)
