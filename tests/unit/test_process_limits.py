"""Errors that come from a limit of the process say which one."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from rowlock_regionserver import server
from rowlock_regionserver.durable_files import replace_file
from rowlock_regionserver.errors import UnknownOutcomeError
from rowlock_regionserver.files import Files
from rowlock_regionserver.process_limits import limit_advice
from rowlock_regionserver.wal.segment import PREALLOCATED_NAME, make_preallocated

from tests.waiting import WAIT_S


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """The soft limits of the process; every other one is unlimited."""
    found: dict[int, int] = {}
    monkeypatch.setattr(
        resource,
        "getrlimit",
        lambda kind: (found.get(kind, resource.RLIM_INFINITY), resource.RLIM_INFINITY),
    )
    return found


def caused(error: BaseException) -> BaseException:
    """The error as the cause of another."""
    outcome = UnknownOutcomeError("it may have been written")
    outcome.__cause__ = error
    return outcome


TOO_LARGE = OSError(errno.EFBIG, os.strerror(errno.EFBIG))
NO_MEMORY = OSError(errno.ENOMEM, os.strerror(errno.ENOMEM), "/data/1.store")


@pytest.mark.parametrize("error", [NO_MEMORY, MemoryError(), caused(NO_MEMORY)], ids=repr)
def test_a_lack_of_memory_names_the_limit_of_address_space(error: BaseException, limits: dict[int, int]) -> None:
    advice = "the process lacks memory or address space; give it more (ulimit -v, which is "
    assert limit_advice(error) == f"{advice}unlimited)"
    limits[resource.RLIMIT_AS] = 1 << 30
    assert limit_advice(error) == f"{advice}1073741824 bytes)"


@pytest.mark.parametrize("error", [TOO_LARGE, caused(TOO_LARGE)], ids=repr)
def test_a_file_that_would_be_too_large_names_the_limit_of_its_size(
    error: BaseException, limits: dict[int, int]
) -> None:
    limits[resource.RLIMIT_FSIZE] = 1_024_000
    assert limit_advice(error) == (
        "a file may not be so large; raise the limit of the size of a file (ulimit -f, which is 1024000 bytes), or use "
        "a file system that allows larger files"
    )


class SmallFiles(Files):
    """A file system on which a file has 100 bytes at most."""

    def allocate(self, descriptor: int, offset: int, length: int) -> None:
        if offset + length > 100:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        super().allocate(descriptor, offset, length)

    def pwrite(self, descriptor: int, data: bytes | bytearray | memoryview, offset: int) -> int:
        if offset + len(data) > 100:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        return super().pwrite(descriptor, data, offset)


def test_a_log_segment_that_would_be_too_large_is_named_with_its_size(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="File too large, for a log segment of 1000 bytes") as refused:
        make_preallocated(SmallFiles(), tmp_path, 1000)
    assert refused.value.errno == errno.EFBIG
    assert refused.value.filename == str(tmp_path / PREALLOCATED_NAME)
    assert list(tmp_path.iterdir()) == []


def test_another_file_that_would_be_too_large_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="File too large") as refused:
        replace_file(SmallFiles(), tmp_path / "catalog-1", bytes(1000))
    assert refused.value.filename == str(tmp_path / "catalog-1")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="the unit of `ulimit -f` differs")
@pytest.mark.parametrize(("blocks", "file"), [(1000, "log/spare.wal"), (0, "format")])
def test_a_start_with_a_limit_of_the_size_of_a_file_names_file_and_limit(
    tmp_path: Path, blocks: int, file: str
) -> None:
    """It said only "[Errno 27] File too large"."""
    data = tmp_path / "data"
    program = ("/bin/bash", "-c", f'ulimit -f {blocks}; exec "$@"', "bash", sys.executable, "-m")
    words = ("rowlock_regionserver", "--data", str(data), "--listen", "127.0.0.1:0")
    ran = subprocess.run([*program, *words], capture_output=True, text=True, timeout=WAIT_S)
    assert ran.returncode == 2
    assert ran.stderr.startswith("rowlock-server: can't start: ")
    assert ran.stderr.count("\n") == 1
    assert ran.stderr.count("File too large") == 1
    assert f"{data / file}'" in ran.stderr
    assert f"raise the limit of the size of a file (ulimit -f, which is {1024 * blocks} bytes)" in ran.stderr


@pytest.mark.parametrize("error", [OSError(errno.EIO, "disk"), caused(PermissionError(errno.EACCES, "no"))], ids=repr)
def test_an_error_of_the_disk_is_of_no_limit(error: BaseException) -> None:
    assert limit_advice(error) == ""


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (NO_MEMORY, ": the process lacks memory or address space; give it more (ulimit -v"),
        (OSError(errno.EIO, "disk"), ": check the disk and the folder's permissions"),
    ],
    ids=["memory", "disk"],
)
def test_a_server_that_ends_blames_the_disk_only_for_errors_of_the_disk(
    error: OSError, cause: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    exit_codes: list[int] = []
    with (tmp_path / "errors").open("w+") as errors:
        monkeypatch.setattr(sys, "stderr", errors)
        monkeypatch.setattr(os, "_exit", exit_codes.append)
        server.end_process(error)
    (line,) = (tmp_path / "errors").read_text().splitlines()
    assert exit_codes == [3]
    assert f"acknowledged writes are in the log{cause}" in line
    assert line.endswith(", then start the server again")
