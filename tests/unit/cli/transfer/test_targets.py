"""A new file or folder appears whole or not at all, and replaces nothing that it should not."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rowlock.cli.arguments import ArgumentError
from rowlock.cli.output import OutputError
from rowlock.cli.transfer.targets import check_new_folder, new_file, new_folder, standard_output
from rowlock.errors import ServerUnavailableError

from tests.waiting import WAIT_S


class Stop(BaseException):
    """As an interrupt."""


def write_and_fail(file: Path, error: BaseException) -> None:
    with new_file(file, overwrite=True) as content:
        content.write(b"rows")
        raise error


def write_beside_another(file: Path) -> None:
    with new_file(file, overwrite=False) as content:
        content.write(b"two")
        file.write_bytes(b"other")


def fill_and_fail(folder: Path, error: BaseException) -> None:
    with new_folder(folder) as partial:
        (partial / "one").write_bytes(b"1")
        raise error


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_appears_when_it_is_complete(tmp_path: Path, overwrite: bool) -> None:
    file = tmp_path / "rows.csv"
    with new_file(file, overwrite=overwrite) as content:
        content.write(b"rows")
        assert not file.exists()
    assert file.read_bytes() == b"rows"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("error", [Stop(), ValueError("wrong"), ServerUnavailableError("lost")])
@pytest.mark.parametrize("before", [None, b"old"])
def test_a_file_that_is_not_complete_leaves_what_was_there(
    tmp_path: Path, error: BaseException, before: bytes | None
) -> None:
    file = tmp_path / "rows.csv"
    if before is not None:
        file.write_bytes(before)
    with pytest.raises(type(error)):
        write_and_fail(file, error)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == (
        {} if before is None else {"rows.csv": before}
    )


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_appears_meanwhile_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    def no_links(self: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    if not has_links:
        monkeypatch.setattr(Path, "hardlink_to", no_links)
    file = tmp_path / "rows.csv"
    with new_file(file, overwrite=False) as content:
        content.write(b"one")
    assert file.read_bytes() == b"one"
    file.unlink()
    with pytest.raises(ArgumentError, match="exists now"):
        write_beside_another(file)
    assert file.read_bytes() == b"other"
    assert list(tmp_path.iterdir()) == [file]


def test_a_disk_that_turns_out_to_be_full_at_the_end_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    file = tmp_path / "rows.csv"
    with (
        pytest.raises(OutputError, match=f"can't write {file}: No space left on device; nothing was left"),
        new_file(file, overwrite=False) as content,
    ):
        content.write(b"rows")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_appears_when_it_is_complete(tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    with pytest.raises(Stop):
        fill_and_fail(folder, Stop())
    assert list(tmp_path.iterdir()) == []
    with new_folder(folder) as partial:
        (partial / "one").write_bytes(b"1")
        assert not folder.exists()
    assert [path.name for path in folder.iterdir()] == ["one"]
    with pytest.raises(OutputError, match=f"can't write {folder}: "), new_folder(folder) as partial:
        (partial / "two").write_bytes(b"2")
    assert [path.name for path in folder.iterdir()] == ["one"]
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda number: number.name)
@pytest.mark.parametrize(
    "target",
    ["new_file(Path(sys.argv[1]), overwrite=True)", "new_folder(Path(sys.argv[1]))"],
    ids=["file", "folder"],
)
def test_a_signal_leaves_nothing_and_ends_the_process(tmp_path: Path, number: signal.Signals, target: str) -> None:
    code = (
        "import sys, threading\n"
        "from pathlib import Path\n"
        "from rowlock.cli.transfer.targets import new_file, new_folder\n"
        f"with {target}:\n"
        "    print('writing', flush=True)\n"
        "    threading.Event().wait()\n"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "backup")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        assert len(list(tmp_path.iterdir())) == 1
        process.send_signal(number)
        assert process.wait(WAIT_S) == -number
    assert list(tmp_path.iterdir()) == []


def test_standard_output_is_counted_and_its_errors_are_reported() -> None:
    raw = io.BytesIO()
    output = standard_output(io.TextIOWrapper(raw))
    output.write(b"abc")
    output.write(memoryview(b"de"))
    output.flush()
    assert (raw.getvalue(), output.tell()) == (b"abcde", 5)
    with open("/dev/full", "w") as full:
        output = standard_output(full)
        output.write(b"abc")
        with pytest.raises(OutputError, match="can't write to standard output: No space left on device"):
            output.flush()
        assert os.fstat(full.fileno()).st_rdev == os.stat(os.devnull).st_rdev
    output.close()  # As Python does when it frees it: standard output may be closed.


def test_an_empty_folder_that_can_not_be_replaced_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    current, link = tmp_path / "current", tmp_path / "link"
    current.mkdir()
    check_new_folder(current)
    link.symlink_to(current)
    monkeypatch.chdir(current)
    for folder in (Path(), current, link):
        with pytest.raises(ArgumentError, match="can't be replaced"):
            check_new_folder(folder)
