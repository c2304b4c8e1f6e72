"""Change feeds over the wire, by both faces and the command line."""

from __future__ import annotations

import asyncio
import json
import math
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
import rowlock
from rowlock.pytest_plugin import RowlockServer

from tests.waiting import WAIT_S, wait_until

FEED = {"changes_retained_hours": 24}


def read(
    db: rowlock.Client, since: Mapping[int, int] | None = None
) -> tuple[list[tuple[bytes, str, bytes]], dict[int, int]]:
    """Returns (row, kind, value) of all changes since, and the offset after them."""
    feed = db.changes("t", since)
    changes = [change for batch in feed for change in batch.to_pylist()]
    return [(change["row"], change["kind"], change["value"]) for change in changes], feed.offset


def test_a_reader_goes_on_over_splits_bulk_writes_and_restarts(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client
) -> None:
    db = rowlock_client
    table = db.create_table("t", ["f"], properties=FEED)
    table.put("a", {"f:q": b"1"})
    table.put("a", {"f:q": b"2"})
    table.delete("a", ["f:q"])
    found, offset = read(db)
    assert found == [(b"a", "put", b"1"), (b"a", "put", b"2"), (b"a", "delete_column", b"")]
    db.split("t", b"m")
    with db.bulk_write("t") as write:
        write.put("b", {"f:q": b"3"})
        write.put("z", {"f:q": b"4"})
    rowlock_server.restart()
    found, offset = read(db, offset)
    assert found == [(b"b", "put", b"3"), (b"z", "put", b"4")]
    db.merge("t", b"m")
    table.put("z", {"f:q": b"5"})
    found, offset = read(db, offset)
    assert found == [(b"z", "put", b"5")]
    assert read(db, offset) == ([], offset)
    assert len(read(db)[0]) == 6


def test_the_offset_of_now_goes_with_a_scan(rowlock_client: rowlock.Client) -> None:
    db = rowlock_client
    table = db.create_table("t", ["f"], properties=FEED, splits=[b"m"])
    table.put("a", {"f:q": b"1"})
    offset = db.changes_offset("t")
    assert set(offset) == {region.region_id for region in db.regions("t")}
    assert table.count() == 1
    table.put("z", {"f:q": b"2"})
    assert read(db, offset)[0] == [(b"z", "put", b"2")]


def test_a_change_of_many_cells_is_one_batch(rowlock_client: rowlock.Client) -> None:
    db = rowlock_client
    table = db.create_table("t", ["f"], properties=FEED)
    with db.bulk_write("t", replace=True) as write:
        for number in range(1000):
            write.put(f"{number:04}", {"f:q": b"v" * 1000})
    with db.bulk_write("t", replace=True) as write:
        write.put("0000", {"f:q": b"new"})
    batches = list(db.changes("t"))
    numbers = [set(batch.column("write_number").to_pylist()) for batch in batches]
    assert all(not one & other for i, one in enumerate(numbers) for other in numbers[i + 1 :])
    kinds = [change["kind"] for batch in batches for change in batch.to_pylist()]
    assert (kinds.count("put"), kinds.count("delete_family")) == (1001, 1000)
    assert table.count() == 1


def test_a_change_that_is_too_large_for_a_batch_comes_in_parts(rowlock_client: rowlock.Client) -> None:
    db = rowlock_client
    table = db.create_table("t", ["f"], properties=FEED)
    count = 200_000
    keys = [b"%040d" % number for number in range(count)]
    table.put_arrow(pa.table({"id": keys, "v": [b"v"] * count}), "id BINARY :key, v BINARY f:q")
    offset = db.changes_offset("t")
    with db.bulk_write("t", replace=True) as write:
        write.put("z", {"f:q": b"1"})
    feed = db.changes("t", since=offset)
    deleted: list[bytes] = []
    states = []
    for batch in feed:
        assert batch.nbytes < 10 << 20
        deleted += [change["row"] for change in batch.to_pylist() if change["row"] != b"z"]
        states.append((feed.is_partial, feed.offset == offset))
    assert deleted == keys
    assert states[0] == (True, True)
    assert states[-1] == (False, False)
    assert all(is_partial == is_before for is_partial, is_before in states)


def test_a_feed_that_follows_yields_what_comes(rowlock_client: rowlock.Client) -> None:
    db = rowlock_client
    table = db.create_table("t", ["f"], properties=FEED)
    table.put("a", {"f:q": b"1"})
    feed = db.changes("t", follow_s=WAIT_S)
    found = []
    for batch in feed:
        found += [change["value"] for change in batch.to_pylist()]
        if len(found) == 1:
            table.put("z", {"f:q": b"2"})
        elif len(found) == 2:
            db.split("t", b"m")
            table.put("z", {"f:q": b"3"})
        else:
            break
    assert found == [b"1", b"2", b"3"]
    assert read(db, feed.offset)[0] == []


def test_a_feed_that_follows_ends_when_nothing_comes(rowlock_client: rowlock.Client) -> None:
    db = rowlock_client
    table = db.create_table("t", ["f"], properties=FEED)
    table.put("a", {"f:q": b"1"})
    feed = db.changes("t", follow_s=0.3)
    assert [batch.num_rows for batch in feed] == [1]
    table.put("a", {"f:q": b"2"})
    assert [batch.num_rows for batch in feed] == [], "it has ended"
    assert len(read(db, feed.offset)[0]) == 1


def test_refusals_come_as_errors_of_the_client(rowlock_client: rowlock.Client) -> None:
    db = rowlock_client
    db.create_table("t", ["f"], properties=FEED)
    db.create_table("off", ["f"])
    offset = db.changes_offset("t")
    (region,) = offset
    refused: list[tuple[type[rowlock.RowlockError], str, Callable[[], object]]] = [
        (rowlock.TableNotFoundError, "absent", lambda: list(db.changes("absent"))),
        (rowlock.InvalidArgumentError, "is off", lambda: list(db.changes("off"))),
        (rowlock.InvalidArgumentError, "is off", lambda: db.changes_offset("off")),
        (rowlock.InvalidArgumentError, "no region ever", lambda: list(db.changes("t", {999: 1, **offset}))),
        (rowlock.InvalidArgumentError, "the newest one is", lambda: list(db.changes("t", {region: 1000}))),
        (rowlock.InvalidArgumentError, "empty offset", lambda: db.changes("t", {})),
        (
            rowlock.InvalidArgumentError,
            "from 0 to 8784",
            lambda: db.alter_table("t", properties={"changes_retained_hours": 9999}),
        ),
        (
            rowlock.InvalidArgumentError,
            "from 0 to 8784",
            lambda: db.create_table("u", ["f"], properties={"changes_retained_hours": -1}),
        ),
    ]
    for kind, named, call in refused:
        with pytest.raises(kind, match=named):
            call()
    db.truncate_table("t")
    with pytest.raises(rowlock.ChangesExpiredError, match="truncated"):
        list(db.changes("t", offset))


def test_the_asyncio_face_reads_the_same(rowlock_server: RowlockServer) -> None:
    async def run() -> None:
        async with rowlock.aio.connect(rowlock_server.address) as db:
            table = await db.create_table("t", ["f"], properties=FEED)
            offset = await db.changes_offset("t")
            await table.put("a", {"f:q": b"1"})
            feed = db.changes("t", since=offset)
            assert [change["value"] async for batch in feed for change in batch.to_pylist()] == [b"1"]
            assert [batch async for batch in db.changes("t", since=feed.offset)] == []
            async for batch in db.changes("t", since=offset, follow_s=math.inf):
                if batch.column("value").to_pylist() == [b"2"]:
                    break
                await table.put("a", {"f:q": b"2"})
            await db.drop_table("t")

    asyncio.run(run())


def test_the_command_goes_on_from_its_file(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client, tmp_path: Path
) -> None:
    table = rowlock_client.create_table("t", ["f"], properties=FEED)
    file = tmp_path / "offset"

    def changes(*options: str) -> list[str]:
        words = [sys.executable, "-m", "rowlock", "--server", rowlock_server.address, "changes", "t", *options]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()

    table.put("a", {"f:q": b"1"})
    assert len(changes("--since", str(file))) == 1
    table.put("b", {"f:q": b"2\t"})
    (line,) = changes("--since", str(file), "--json")
    shown = json.loads(line)
    assert (shown["row"], shown["kind"], shown["value"]) == ("b", "put", "2\\x09")
    assert changes("--since", str(file)) == []
    assert len(changes()) == 2


def test_the_command_follows_until_it_is_interrupted(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client, tmp_path: Path
) -> None:
    table = rowlock_client.create_table("t", ["f"], properties=FEED)
    file = tmp_path / "offset"
    words = [sys.executable, "-m", "rowlock", "--server", rowlock_server.address, "changes", "t", "--follow"]
    with subprocess.Popen([*words, "--since", str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        for row in (b"a", b"b"):
            table.put(row, {"f:q": b"1"})
            assert process.stdout.readline().split(b"\t")[2] == row
        wait_until(file.exists)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, out) == (130, b"")
    assert err.decode() == f"interrupted; 'rowlock changes t --follow --since {file}' continues after the last batch\n"
    stored = {int(region): number for region, number in json.loads(file.read_text()).items()}
    assert read(rowlock_client, stored)[0] in ([], [(b"b", "put", b"1")])
