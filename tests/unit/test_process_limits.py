"""Errors that come from a limit of the process say which one."""

from __future__ import annotations

import errno
import os
import resource
import sys
from pathlib import Path

import pytest
from rowlock_regionserver import server
from rowlock_regionserver.errors import UnknownOutcomeError
from rowlock_regionserver.process_limits import limit_advice


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


NO_MEMORY = OSError(errno.ENOMEM, os.strerror(errno.ENOMEM), "/data/1.store")


@pytest.mark.parametrize("error", [NO_MEMORY, MemoryError(), caused(NO_MEMORY)], ids=repr)
def test_a_lack_of_memory_names_the_limit_of_address_space(error: BaseException, limits: dict[int, int]) -> None:
    advice = "the process lacks memory or address space; give it more (ulimit -v, which is "
    assert limit_advice(error) == f"{advice}unlimited)"
    limits[resource.RLIMIT_AS] = 1 << 30
    assert limit_advice(error) == f"{advice}1073741824 bytes)"


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
