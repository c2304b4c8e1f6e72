"""scan, count and export when the server is lost, and their limits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rowlock.cli.main import main
from rowlock_proto.v1 import region_pb2

from tests.unit.client.fake_server import FakeServer
from tests.unit.client.test_scans import batch

WARNING = "warning: the scan lost the server and resumed at a later read point, so its rows are not of one moment\n"


@pytest.fixture
def fake_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    server = FakeServer()
    monkeypatch.setenv("ROWLOCK_SERVER", server.address)
    yield server
    server.stop()


@pytest.mark.parametrize("is_lost", [True, False])
@pytest.mark.parametrize(
    ("words", "out"),
    [
        (["scan", "t"], "a\tf:q\t1\ta\nb\tf:q\t1\tb\n"),
        (["scan", "t", "--limit", "99999999999999999999"], "a\tf:q\t1\ta\nb\tf:q\t1\tb\n"),
        (["count", "t"], "2\n"),
        (["export", "t", "rows.csv", "-m", "k STRING :key, v STRING f:q"], "2 rows\n"),
    ],
    ids=["scan", "scan with a limit", "count", "export"],
)
def test_a_warning_says_that_rows_are_not_of_one_moment(
    fake_server: FakeServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: list[str],
    out: str,
    is_lost: bool,
) -> None:
    def scan(request: region_pb2.ScanRequest) -> Iterator[region_pb2.ScanBatch]:
        if is_lost and len(fake_server.scans) == 1:
            yield batch(b"a")
            raise ConnectionError("cut")
        yield batch(b"b") if is_lost else batch(b"a", b"b")

    fake_server.scan = scan
    monkeypatch.chdir(tmp_path)
    assert main(words) == 0
    assert capsys.readouterr() == (out, WARNING if is_lost else "")


@pytest.mark.parametrize("bounds", [["--prefix", ""], ["--start", ""], ["--start", "", "--stop", ""], []])
def test_empty_bounds_delete_no_rows(
    fake_server: FakeServer, capsys: pytest.CaptureFixture[str], bounds: list[str]
) -> None:
    assert main(["delete-range", "t", *bounds, "--yes"]) == 2
    out, errors = capsys.readouterr()
    assert (out, fake_server.scans) == ("", [])
    assert "give --prefix, --start or --stop, not empty; 'rowlock truncate' deletes all rows" in errors
