"""Where an export goes: a new file or folder, which appears when it is complete, or standard output.

Until then its content is beside it, under a hidden name that ends with `.partial-` and the number of the process. It is
removed if the export fails, or is stopped by an interrupt or by SIGTERM or SIGHUP; not by SIGKILL.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, TextIO, cast

from rowlock.cli.arguments import ArgumentError
from rowlock.cli.output import OutputError, writing_to
from rowlock.cli.start import ended_by_signals
from rowlock.errors import RowlockError


def check_new_file(file: Path, *, overwrite: bool) -> None:
    """Raises ArgumentError unless the file can be created, or replaced."""
    if file.exists() and not file.is_file() and not file.is_dir():
        # The finished file would replace the device or pipe.
        raise ArgumentError(f"{file} is not a regular file; give a path of one, or - for standard output")
    if file.is_file() and not overwrite:
        raise ArgumentError(f"{file} exists; give --overwrite to replace it")
    if file.is_dir() or not file.parent.is_dir():
        problem = (
            "is a folder; give a file in it" if file.is_dir() else f"can't be created: there is no folder {file.parent}"
        )
        raise ArgumentError(f"{file} {problem}")


@contextlib.contextmanager
def new_file(file: Path, *, overwrite: bool) -> Iterator[IO[bytes]]:
    """Yields a file to write. It gets its name when the block ends without an error.

    Raises ArgumentError if another process has created it meanwhile, unless overwrite; OutputError if it can't be
    written, because the disk is full for example.
    """
    partial = _partial(file)
    with ended_by_signals(), _write_errors(file):
        try:
            with partial.open("wb") as content:
                yield content
                content.flush()
                # A disk may turn out to be full only now.
                os.fsync(content.fileno())
            _rename(partial, file, overwrite=overwrite)
        finally:
            partial.unlink(missing_ok=True)


def check_new_folder(folder: Path) -> None:
    """Raises ArgumentError unless the folder can be created, or is empty."""
    if folder.is_dir() and not any(folder.iterdir()):
        if folder.is_symlink() or folder.is_mount() or folder.samefile(Path.cwd()):
            raise ArgumentError(
                f"{folder} can't be replaced: it is a link, a mounted disk or the current folder; give a new one in it"
            )
        return
    if folder.exists():
        raise ArgumentError(f"{folder} exists{' and is not empty' if folder.is_dir() else ''}; give a new folder")
    if not folder.absolute().parent.is_dir():
        raise ArgumentError(f"{folder} can't be created: there is no folder {folder.absolute().parent}")


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yields a folder to fill. It gets its name when the block ends without an error. Raises as new_file does."""
    partial = _partial(folder.absolute())
    with ended_by_signals(), _write_errors(folder):
        try:
            partial.mkdir()
            yield partial
            # Replaces an empty folder, and no other.
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def standard_output(stdout: TextIO) -> IO[bytes]:
    """Returns standard output as a file of bytes. Writing raises OutputError, or BrokenPipeError."""
    stdout.flush()
    # IO has more methods than writers call.
    return cast("IO[bytes]", _StandardOutput(stdout))


class _StandardOutput(io.RawIOBase):
    """Counts its bytes, because a Parquet file holds positions, and a pipe has none."""

    def __init__(self, stdout: TextIO) -> None:
        self._stdout = stdout
        self._byte_count = 0

    def writable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Returns the position, which is what files are asked for by a move of 0 from it. There are no other moves."""
        if (offset, whence) != (0, io.SEEK_CUR):
            raise io.UnsupportedOperation("seek")
        return self._byte_count

    def write(self, data: Any) -> int:  # Any: an object with a buffer of bytes
        byte_count = memoryview(data).nbytes
        with writing_to(self._stdout):
            self._stdout.buffer.write(data)
        self._byte_count += byte_count
        return byte_count

    def flush(self) -> None:
        with writing_to(self._stdout):
            self._stdout.buffer.flush()

    def close(self) -> None:
        """Does nothing; Python calls it when the object is freed, perhaps after a failure that was reported."""


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial-{os.getpid()}")


def _rename(partial: Path, file: Path, *, overwrite: bool) -> None:
    if overwrite:
        partial.replace(file)
        return
    try:
        # Unlike a rename, this never replaces a file that has appeared meanwhile.
        file.hardlink_to(partial)
    except FileExistsError:
        raise ArgumentError(f"{file} exists now; give --overwrite to replace it") from None
    except OSError:
        # A file system without hard links.
        if file.exists():
            raise ArgumentError(f"{file} exists now; give --overwrite to replace it") from None
        partial.rename(file)


@contextlib.contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (RowlockError, BrokenPipeError):
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"can't write {path}: {reason}; nothing was left of it, write it elsewhere") from error
