"""Compactions of a real server: requested, shown, cancelled, refused, and kept over a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import rowlock
from rowlock.cli.main import main
from rowlock_regionserver.config import Config
from rowlock_regionserver.server import Server

from tests.waiting import WAIT_S

BY_HAND = {"compaction.automatic": False}


class Running:
    """A server on a folder, which may be restarted, and a client of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.start()

    def start(self) -> None:
        self._server = Server(self._folder, config=Config())
        self._server.__enter__()
        self.address = self._server.address
        self.db = rowlock.connect(self.address, timeout=60)

    def stop(self) -> None:
        self.db.close()
        self._server.__exit__(None, None, None)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path / "data")
    yield running
    running.stop()


def with_files(db: rowlock.Client, name: str = "t", file_count: int = 5) -> rowlock.Table[bytes]:
    """A table with so many files in each of its families f and g, which are compacted by hand only."""
    table = db.create_table(name, ["f", "g"], properties=BY_HAND)
    for number in range(file_count):
        table.put(b"row", {b"f:q": b"%d" % number, b"g:%d" % number: b"v"})
        db.flush(name)
    return table


def file_count(db: rowlock.Client, name: str = "t") -> int:
    return sum(region.store_file_count for region in db.describe(name).regions)


def test_a_major_compaction_by_hand_leaves_one_file_a_family_and_the_same_rows(running: Running) -> None:
    db = running.db
    table = with_files(db)
    before = table.row(b"row")
    found = db.compact("t", major=True, wait=True, timeout=WAIT_S)
    assert [(each.family, each.kind, each.state, each.files_in, each.files_out) for each in found] == [
        ("f", "major", "succeeded", 5, 1),
        ("g", "major", "succeeded", 5, 1),
    ]
    assert all(each.requested_by_hand and each.worker and each.is_over for each in found)
    assert all(each.bytes_read == each.bytes_total > each.bytes_written > 0 for each in found)
    assert file_count(db) == 2
    assert table.row(b"row") == before
    assert (
        db.compactions("t") == db.compactions() == db.compactions(ids=[each.compaction_id for each in found]) == found
    )


def test_only_the_families_that_are_named_are_compacted(running: Running) -> None:
    with_files(running.db)
    [found] = running.db.compact("t", families=["g"], wait=True, timeout=WAIT_S)
    assert (found.family, found.state) == ("g", "succeeded")
    assert file_count(running.db) == 6


def test_automatic_compaction_works_off_what_flushes_write(running: Running) -> None:
    db = running.db
    with_files(db, file_count=12)
    db.alter_table("t", properties={"compaction.automatic": None})
    ended: list[rowlock.Compaction] = []
    while file_count(db) > 4 or not all(each.is_over for each in ended):
        ended = db.compactions("t")
    assert ended
    assert not any(each.requested_by_hand for each in ended)
    assert all(each.why for each in ended)


def test_the_history_and_the_properties_are_there_after_a_restart(running: Running) -> None:
    with_files(running.db)
    before = running.db.compact("t", major=True, wait=True, timeout=WAIT_S)
    running.stop()
    running.start()
    assert running.db.compactions() == before
    assert running.db.describe("t").properties == {"compaction.automatic": "false"}
    assert min(each.compaction_id for each in running.db.compact("t")) > max(each.compaction_id for each in before)


def test_jobs_of_a_dropped_table_are_gone(running: Running) -> None:
    with_files(running.db)
    found = running.db.compact("t", major=True, wait=True, timeout=WAIT_S)
    running.db.alter_table("t", drop_families=["g"])
    assert [each.family for each in running.db.compactions()] == ["f"]
    running.db.truncate_table("t")
    assert running.db.compactions() == []
    running.db.drop_table("t")
    with pytest.raises(rowlock.TableNotFoundError):
        running.db.compactions("t")
    assert running.db.compactions(ids=[each.compaction_id for each in found]) == found


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda db: db.compact("nope"), rowlock.TableNotFoundError, "there is no table 'nope'"),
        (lambda db: db.compactions("nope"), rowlock.TableNotFoundError, "there is no table 'nope'"),
        (
            lambda db: db.compact("t", families=["x"]),
            rowlock.FamilyNotFoundError,
            "has no column family x; it has f, g",
        ),
        (
            lambda db: db.compact("t", properties={"compaction.files_max": 1}),
            rowlock.InvalidArgumentError,
            "compaction.files_max must be from 2 to 10000, it is 1",
        ),
        (
            lambda db: db.alter_table("t", properties={"compaction.automatic": "maybe"}),
            rowlock.InvalidArgumentError,
            "compaction.automatic must be true or false, it is 'maybe'",
        ),
        (
            lambda db: db.create_table("u", ["f"], properties={"compaction.autmatic": "true"}),
            rowlock.InvalidArgumentError,
            "no property of a table is called 'compaction.autmatic'; there are compaction.automatic",
        ),
        (
            lambda db: db.alter_table("t", properties={"split.bytes": "1"}),
            rowlock.InvalidArgumentError,
            "compaction.move_bytes_min, split.region_bytes",
        ),
        (
            lambda db: db.alter_table("t", properties={"compaction.files_max": None}),
            rowlock.InvalidArgumentError,
            "has no property 'compaction.files_max', so it can't be dropped; it has 'compaction.automatic'",
        ),
    ],
)
def test_what_does_not_exist_or_is_impossible_is_refused(
    running: Running, call: Callable[[rowlock.Client], object], kind: type[Exception], message: str
) -> None:
    running.db.create_table("t", ["f", "g"], properties=BY_HAND)
    with pytest.raises(kind, match=message):
        call(running.db)
    assert running.db.tables() == ["t"]
    assert running.db.describe("t").properties == {"compaction.automatic": "false"}


def test_a_damaged_file_is_named_and_the_table_is_served_as_before(running: Running, tmp_path: Path) -> None:
    db = running.db
    with_files(db)
    running.stop()
    newest = max((tmp_path / "data" / "regions").glob("*/1-*.store"))
    data = bytearray(newest.read_bytes())
    data[data.index(b"row", 1 << 15)] ^= 0xFF  # in the only block; before it there are empty pages
    newest.write_bytes(data)
    running.start()
    with pytest.raises(rowlock.CompactionError, match=newest.name) as failed:
        running.db.compact("t", major=True, families=["f"], wait=True, timeout=WAIT_S)
    [found] = running.db.compactions(ids=failed.value.ids)
    assert found.state == "failed"
    assert running.db.table("t").row(b"row", ["g"]) == {b"g:%d" % number: b"v" for number in range(5)}


def test_the_asyncio_client_waits_too(running: Running) -> None:
    with_files(running.db)

    async def compacted() -> list[rowlock.Compaction]:
        async with rowlock.aio.connect(running.address) as db:
            found = await db.compact("t", major=True, wait=True, timeout=WAIT_S)
            assert await db.compactions("t") == found
            return await db.cancel_compactions([each.compaction_id for each in found])

    assert {each.state for each in asyncio.run(compacted())} == {"succeeded"}


def test_the_command_line_compacts_and_shows_it(running: Running, capsys: pytest.CaptureFixture[str]) -> None:
    with_files(running.db)
    server = ("--server", running.address)
    assert main(("compact", "t", "--major", "--wait", *server)) == 0
    assert capsys.readouterr().out.count("\tsucceeded\t") == 2
    assert main(("compactions", "t", *server)) == 0
    assert "5 to 1 files" in capsys.readouterr().out
    assert main(("compactions", "--cancel", "12345", *server)) == 2
    assert "there is no compaction 12345" in capsys.readouterr().err
    assert main(("compact", "t", "--property", "compaction.files_max=1", *server)) == 2
    assert "compaction.files_max must be from 2" in capsys.readouterr().err
