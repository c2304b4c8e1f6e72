"""The client against a real server: calls, threads, forks, losses, bulk writes and scans."""

from __future__ import annotations

import asyncio
import os
import select
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import rowlock
from rowlock.pytest_plugin import RowlockServer

from tests.end_to_end.lossy_proxy import LossyProxy
from tests.end_to_end.server_command import ServerCommand
from tests.ending import end_at_once
from tests.unit.client.answer_threads import answer_threads
from tests.waiting import WAIT_S, wait_until


@pytest.fixture
def table(rowlock_client: rowlock.Client) -> rowlock.Table[bytes]:
    return rowlock_client.create_table("t", {"f": rowlock.Family(versions=3), "g": rowlock.Family()})


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[tuple[LossyProxy, rowlock.Client]]:
    """A server that advertises the proxy's address, and a client that connects through the proxy."""
    proxy = LossyProxy()
    words = ("--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--advertise", proxy.address)
    with ServerCommand(*words) as server:
        proxy.stand_before(server.ready())
        with rowlock.connect(proxy.address, timeout=60) as db:
            db.create_table("t", ["f"])
            yield proxy, db
    proxy.close()


def test_every_operation_on_a_row(rowlock_client: rowlock.Client, table: rowlock.Table[bytes]) -> None:
    assert table.row("r") == {}
    table.put("r", {"f:a": "1", "g:b": b"\0\xff"})
    assert table.row("r") == {b"f:a": b"1", b"g:b": b"\0\xff"}
    assert table.row("r", ["g"]) == {b"g:b": b"\0\xff"}
    assert not table.create("r", {"f:a": "2"})
    assert table.create("new", {"f:a": "2"})
    assert table.update("new", {"f:b": "3"})
    assert not table.update("absent", {"f:a": "1"})
    assert table.increment("r", "f:n", 5) == 5
    assert table.increment("r", "f:n", -7) == -2
    assert table.counter("r", "f:n") == -2
    assert table.append("r", "f:a", "x") == b"1x"
    assert table.mutate_row(
        "r", [rowlock.Put("f:a", "2"), rowlock.Append("f:a", "y"), rowlock.Increment("f:n"), rowlock.Delete("g:b")]
    ) == [None, b"2y", -1, None]
    assert table.row("r") == {b"f:a": b"2y", b"f:n": b"\xff" * 8}
    table.delete("r", ["f:a"])
    assert table.row("r", ["f:a"]) == {}
    table.delete("r")
    assert table.rows(["r", "new"]) == [(b"r", {}), (b"new", {b"f:a": b"2", b"f:b": b"3"})]


def test_a_text_table_is_read_whatever_its_counters_hold(rowlock_client: rowlock.Client) -> None:
    """From 128 on, each number has bytes that are not UTF-8."""
    rowlock_client.create_table("t", ["f"])
    table = rowlock_client.table("t", encoding="utf-8")
    table.put("r", {"f:text": "x"})
    for number in range(1, 301):
        assert table.increment("r", "f:n") == number
        row = table.row("r")
        assert row["f:text"] == "x"
        assert rowlock.counter_value(row["f:n"]) == number
        assert table.rows(["r"]) == list(table.scan()) == [("r", row)]
        assert [cell.value for cell in table.scan().cells()] == list(row.values())
    assert table.check_and_put("r", "f:n", row["f:n"], {"f:n": row["f:n"]})
    assert table.counter("r", "f:n") == 300


def test_checks_return_what_they_saw(table: rowlock.Table[bytes]) -> None:
    assert table.check_and_put("r", "f:a", None, {"f:a": "1"})
    missed = table.check_and_put("r", "f:a", None, {"f:a": "2"})
    assert not missed
    assert missed.current == b"1"
    assert table.check_and_put("r", "f:a", "0", {"f:a": "5"}, op=">").applied
    both = table.check_and_mutate(
        "r",
        [rowlock.Check("f:a", "5"), rowlock.column("f:z").is_absent()],
        [rowlock.Increment("f:n", 2)],
        [rowlock.Put("f:a", "no")],
    )
    assert (both.applied, both.results, both.seen) == (True, [2], {b"f:a": b"5", b"f:z": None})
    otherwise = table.check_and_mutate("r", [rowlock.Check("f:a", "6")], [], [rowlock.Append("f:a", "!")])
    assert (otherwise.applied, otherwise.results) == (False, [b"5!"])
    assert not table.check_and_delete("r", "f:a", "5")
    assert table.check_and_delete("r", "f:a", "5!")
    assert table.row("r") == {}


def test_versions_and_times(table: rowlock.Table[bytes]) -> None:
    for timestamp in (100, 200, 300):
        table.put("r", {"f:a": f"at {timestamp}"}, timestamp=timestamp)
    assert table.cells("r", "f:a") == [(b"at 300", 300), (b"at 200", 200), (b"at 100", 100)]
    assert table.cells("r", "f:a", 2) == [(b"at 300", 300), (b"at 200", 200)]
    assert table.row("r", timestamp=200) == {b"f:a": b"at 200"}
    assert table.row("r", time_range=(100, 200), include_timestamp=True) == {b"f:a": (b"at 100", 100)}
    table.delete("r", ["f:a"], timestamp=200, exact=True)
    assert [timestamp for _, timestamp in table.cells("r", "f:a")] == [300, 100]
    assert [cell.timestamp for cell in table.scan(versions=3).cells()] == [300, 100]


def test_errors_name_what_is_wrong(rowlock_client: rowlock.Client, table: rowlock.Table[bytes]) -> None:
    with pytest.raises(rowlock.TableNotFoundError, match="nowhere"):
        rowlock_client.table("nowhere").row("r")
    with pytest.raises(rowlock.FamilyNotFoundError) as unknown:
        table.put("r", {"h:a": "1"})
    assert unknown.value.family == b"h"
    table.put("r", {"f:a": "text"})
    with pytest.raises(rowlock.NotACounterError):
        table.increment("r", "f:a")
    table.increment("r", "f:n", (1 << 63) - 1)
    with pytest.raises(rowlock.CounterOverflowError):
        table.increment("r", "f:n")
    with pytest.raises(rowlock.LimitExceededError) as ahead:
        table.put("r", {"f:a": "1"}, timestamp=1 << 60)
    assert ahead.value.limit == "timestamp_ahead_ms_max"
    with pytest.raises(rowlock.LimitExceededError) as large:
        table.put("r", {"f:a": bytes(11 << 20)})
    assert large.value.limit == "cell_bytes_max"
    with pytest.raises(rowlock.FilterTypeError):
        list(table.scan(where=rowlock.column("f:a", int) > 1))
    with pytest.raises(rowlock.TableExistsError):
        rowlock_client.create_table("t", ["f"])
    rowlock_client.create_table("t", ["f"], if_not_exists=True)
    with pytest.raises(rowlock.InvalidArgumentError):
        table.with_options(durability="skip").put("r", {"f:a": "1"})


def test_one_bad_row_of_a_batch_leaves_the_others(table: rowlock.Table[bytes]) -> None:
    batch = table.batch()
    batch.put("a", {"f:a": "1"})
    batch.put("b", {"nowhere:a": "1"})
    batch.put("c", {"f:a": "1"})
    with pytest.raises(rowlock.BatchError) as caught:
        batch.send()
    assert caught.value.applied == [b"a", b"c"]
    assert [(row, type(error)) for row, error in caught.value.failed] == [(b"b", rowlock.FamilyNotFoundError)]
    assert [row for row, _ in table.scan()] == [b"a", b"c"]


def test_tables_are_made_changed_and_dropped(rowlock_client: rowlock.Client) -> None:
    db = rowlock_client
    db.create_table("t", {"f": rowlock.Family(versions=2, time_to_live_ms=1 << 40)}, durability="os")
    assert db.exists("t")
    described = db.describe("t")
    assert described.families == {"f": rowlock.Family(versions=2, time_to_live_ms=1 << 40)}
    assert described.durability == "os"
    assert [region.region.table for region in described.regions] == ["t"]
    db.table("t").put("r", {"f:a": "1"})
    assert set(db.alter_table("t", set_families={"g": rowlock.Family(compression="zstd")}).families) == {"f", "g"}
    db.table("t").put("r", {"g:a": "1"})
    assert db.flush("t").cell_count == 2
    assert db.table("t").row("r") == {b"f:a": b"1", b"g:a": b"1"}
    table = db.table("t")
    db.truncate_table("t")
    assert table.row("r") == {}
    db.drop_table("t")
    assert not db.exists("t")
    with pytest.raises(rowlock.TableNotFoundError):
        table.row("r")
    db.create_table("t", ["f"])
    table.put("r", {"f:a": "again"})
    assert table.row("r") == {b"f:a": b"again"}


def test_scans_over_memory_and_files(rowlock_client: rowlock.Client, table: rowlock.Table[bytes]) -> None:
    with table.batch() as batch:
        for number in range(3000):
            batch.put(
                f"{number:05}", {"f:n": str(number), "g:even": "yes"} if number % 2 == 0 else {"f:n": str(number)}
            )
            if number == 1500:
                batch.send()
                rowlock_client.flush("t")
    assert [row for row, _ in table.scan()] == [b"%05d" % number for number in range(3000)]
    assert [row for row, _ in table.scan("00005", "00008", reverse=True)] == [b"00007", b"00006", b"00005"]
    assert [row for row, _ in table.scan(prefix="0299", limit=2)] == [b"02990", b"02991"]
    assert [row for row, _ in table.scan(ranges=[("02999", None), (None, "00001")])] == [b"00000", b"02999"]
    late = (rowlock.column("f:n", int, "text") >= 2997) & rowlock.column("g:even").is_absent()
    assert [row for row, _ in table.scan(where=late, columns=["g", "f:n"])] == [b"02997", b"02999"]
    assert list(table.scan("00001", "00003", keys_only=True)) == [
        (b"00001", {b"f:n": b""}),
        (b"00002", {b"f:n": b"", b"g:even": b""}),
    ]
    assert len(list(table.scan(cells=rowlock.CellFilter(first_key_only=True)).cells())) == 3000
    assert sum(batch.num_rows for batch in table.scan(columns=["g"], batch_bytes=1000).to_batches()) == 1500


def test_threads_share_a_client(rowlock_client: rowlock.Client, table: rowlock.Table[bytes]) -> None:
    def work(thread: int) -> None:
        for number in range(20):
            table.put(f"{thread}/{number}", {"f:a": f"{thread * number}"})
            table.increment("sum", "f:n", number)
            assert table.row(f"{thread}/{number}") == {b"f:a": b"%d" % (thread * number)}

    with ThreadPoolExecutor(64) as threads:
        list(threads.map(work, range(64)))
    assert table.counter("sum", "f:n") == 64 * sum(range(20))


def test_a_wide_table_round_trips_through_arrow(rowlock_client: rowlock.Client, table: rowlock.Table[bytes]) -> None:
    mapping = rowlock.Mapping("id BIGINT :key ordered, name STRING f:name, score DOUBLE f:score, at TIMESTAMP g:at")
    count = 50_000
    random = np.random.default_rng(7)
    data = pa.table(
        {
            "id": pa.array(random.permutation(count) - count // 2),
            "name": pa.array([None if number % 7 == 0 else f"name {number}" for number in range(count)]),
            "score": pa.array(random.normal(size=count)),
            "at": pa.array(random.integers(0, 10**15, count)).cast(pa.timestamp("us", tz="UTC")),
        }
    ).cast(mapping.schema)
    progress: list[int] = []
    result = table.put_arrow(data, mapping, batch_bytes=1 << 18, on_progress=progress.append)
    assert result == rowlock.BulkResult(count, 3 * count - data.column("name").null_count)
    assert len(progress) > 3
    assert table.scan().to_arrow(mapping).equals(data.sort_by("id"))
    rowlock_client.flush("t")
    read = list(table.scan(batch_bytes=1 << 18).to_batches(mapping))
    assert len(read) > 3
    assert pa.Table.from_batches(read).equals(data.sort_by("id"))
    assert table.scan(limit=2).to_pandas(mapping)["id"].tolist() == [-count // 2, -count // 2 + 1]


def test_cells_with_null_values_delete(table: rowlock.Table[bytes]) -> None:
    table.put("a", {"f:a": "1", "f:b": "1"})
    cells = pa.table({"row": ["a", "b"], "family": ["f", "f"], "qualifier": ["a", "a"], "value": [None, "2"]})
    assert table.put_arrow(cells).row_count == 2
    assert list(table.scan()) == [(b"a", {b"f:b": b"1"}), (b"b", {b"f:a": b"2"})]


def test_of_rows_with_the_same_key_the_later_wins_over_batches(table: rowlock.Table[bytes]) -> None:
    batches = [pa.record_batch({"k": ["a", "b"], "v": [f"{number}", f"{number}"]}) for number in range(20)]
    table.put_arrow(batches, "k STRING :key, v STRING g:v")
    assert list(table.scan()) == [(b"a", {b"g:v": b"19"}), (b"b", {b"g:v": b"19"})]


def test_retried_increments_count_once_over_a_lossy_connection(proxied: tuple[LossyProxy, rowlock.Client]) -> None:
    proxy, db = proxied
    table = db.table("t")
    done = threading.Event()
    answered: list[int] = []

    def lose() -> None:
        answered_before = -1
        while not done.wait(0.02):
            if len(answered) == answered_before:
                continue  # However slow the machine is, something comes through between two losses.
            answered_before = len(answered)
            proxy.swallow_answers()
            done.wait(0.02)
            proxy.cut()

    loser = threading.Thread(target=lose)
    loser.start()
    try:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda _: answered.append(table.increment("r", "f:n")), range(400)))
    finally:
        done.set()
        loser.join()
    assert sorted(answered) == list(range(1, 401))
    assert table.counter("r", "f:n") == 400


def test_a_server_that_is_slow_to_accept_a_connection_is_reached(proxied: tuple[LossyProxy, rowlock.Client]) -> None:
    proxy, _ = proxied
    proxy.begin_late(1.0)
    with rowlock.connect(proxy.address, timeout=60) as db:
        assert db.tables() == ["t"]


def test_scans_and_bulk_writes_continue_over_a_lossy_connection(proxied: tuple[LossyProxy, rowlock.Client]) -> None:
    proxy, db = proxied
    table = db.table("t")
    mapping = "k BIGINT :key ordered, v STRING f:v"
    data = pa.table({"k": list(range(40_000)), "v": ["x" * 50] * 40_000})
    table.put_arrow(data, mapping, batch_bytes=200_000, on_progress=lambda rows: proxy.cut() if rows < 15_000 else None)
    scanning = table.scan(batch_bytes=100_000)
    rows = []
    for row, _ in scanning:
        rows.append(row)
        if len(rows) in (1000, 20_000):
            proxy.cut()
    assert len(rows) == 40_000
    assert rows == sorted(set(rows))
    assert scanning.resumed


def test_a_server_that_comes_back_is_found_again(tmp_path: Path) -> None:
    server, others = RowlockServer(tmp_path / "data", tmp_path / "server.log"), answer_threads()
    server.start()
    with rowlock.connect(server.address, timeout=60) as db:
        table = db.create_table("t", ["f"])
        table.put("r", {"f:a": "1"})
        server.kill()
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(table.increment, "r", "f:n")
            server.start()
            assert waiting.result(timeout=WAIT_S) == 1
        assert table.row("r", ["f:a"]) == {b"f:a": b"1"}
        server.kill()
        # Until the client knows that its stream has ended, a change goes out on it, and is rightly in doubt.
        wait_until(lambda: answer_threads() <= others)
        with pytest.raises(rowlock.DeadlineError, match="Nothing was changed"):
            table.with_options(timeout=0.5).put("r", {"f:a": "2"})


def in_child(work: Callable[[], None]) -> int:
    """Forks a child that does the work. Returns its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            end_at_once(1)
        end_at_once(0)
    return pid


def exit_codes(pids: list[int], seconds: float) -> list[int | None]:
    """Returns the exit status of each child; None for one that did not end in time, which is killed."""
    deadline = time.monotonic() + seconds
    codes: list[int | None] = []
    for pid in pids:
        descriptor = os.pidfd_open(pid)
        ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        os.close(descriptor)
        if not ready:
            os.kill(pid, 9)
        status = os.waitpid(pid, 0)[1]
        codes.append(os.waitstatus_to_exitcode(status) if ready else None)
    return codes


def test_twenty_forked_children_use_their_parents_client(
    rowlock_client: rowlock.Client, table: rowlock.Table[bytes]
) -> None:
    table.increment("r", "f:n")
    busy = threading.Event()

    def keep_busy() -> None:
        while not busy.is_set():
            table.increment("parent", "f:n")

    threads = [threading.Thread(target=keep_busy) for _ in range(3)]
    for thread in threads:
        thread.start()

    def work() -> None:
        for _ in range(5):
            table.increment("r", "f:n")
        assert len(list(table.scan(prefix="r"))) == 1

    try:
        pids = [in_child(work) for _ in range(20)]
        assert exit_codes(pids, 60) == [0] * 20
    finally:
        busy.set()
        for thread in threads:
            thread.join()
    assert table.increment("r", "f:n") == 102


def test_a_process_may_fork_after_its_asyncio_client_is_closed(
    rowlock_server: RowlockServer, table: rowlock.Table[bytes]
) -> None:
    async def increment() -> None:
        async with rowlock.aio.connect(rowlock_server.address) as db:
            await db.table("t").increment("r", "f:n")

    asyncio.run(increment())
    pids = [in_child(lambda: asyncio.run(increment())) for _ in range(5)]
    assert exit_codes(pids, 60) == [0] * 5
    assert table.counter("r", "f:n") == 6


# Python 3.12 also warns of the threads, which these tests are not about.
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_forked_beside_an_open_asyncio_client_refuses_instead_of_hanging(
    rowlock_server: RowlockServer, table: rowlock.Table[bytes]
) -> None:
    def child() -> None:
        with pytest.raises(rowlock.ClosedError, match=r"rowlock\.aio open when it forked"):
            rowlock.connect(rowlock_server.address)
        with pytest.raises(rowlock.ClosedError):
            table.row("r")

    async def parent() -> list[int]:
        async with rowlock.aio.connect(rowlock_server.address):
            with pytest.warns(RuntimeWarning, match="does not survive"):
                return [in_child(child)]

    assert exit_codes(asyncio.run(parent()), 60) == [0]


def test_many_tasks_share_an_asyncio_client(rowlock_server: RowlockServer, table: rowlock.Table[bytes]) -> None:
    async def body() -> None:
        async with rowlock.aio.connect(rowlock_server.address) as db:
            ours = db.table("t")
            await asyncio.gather(*(ours.increment("r", "f:n") for _ in range(500)))
            data = pa.table({"k": list(range(20_000)), "v": ["x" * 50] * 20_000})
            await ours.put_arrow(data, "k BIGINT :key ordered, v STRING f:v", batch_bytes=200_000)
            count = 0
            async for _ in ours.scan(columns=["f:v"]):
                count += 1
            assert count == 20_000

    asyncio.run(body())
    assert table.counter("r", "f:n") == 500


def test_batches_are_no_larger_than_a_server_with_little_memory_accepts(tmp_path: Path) -> None:
    mapping = "k BIGINT :key ordered, v BINARY f:v"
    data = pa.table({"k": range(4000), "v": [bytes(1000)] * 4000})
    settings = ("--config", "memory=64MiB", "--config", "request_bytes_max=1MiB")
    with ServerCommand("--data", tmp_path / "data", "--listen", "127.0.0.1:0", *settings) as server:
        address = server.ready()

        async def put() -> int:
            async with rowlock.aio.connect(address, timeout=60) as db:
                return (await db.table("t").put_arrow(data, mapping)).row_count

        with rowlock.connect(address, timeout=60) as db:
            assert db.create_table("t", ["f"]).put_arrow(data, mapping).row_count == 4000
        assert asyncio.run(put()) == 4000
