"""Locks of a real server: kept apart, waited for, lost with their session, and shown."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import rowlock
from rowlock.cli.main import main
from rowlock.pytest_plugin import RowlockServer
from rowlock_regionserver.config import Config
from rowlock_regionserver.server import Server

from tests.waiting import WAIT_S, wait_until


@pytest.fixture
def table(rowlock_client: rowlock.Client) -> rowlock.Table[bytes]:
    return rowlock_client.create_table("t", ["f"])


@pytest.fixture
def impatient(rowlock_server: RowlockServer, table: rowlock.Table[bytes]) -> Iterator[rowlock.Client]:
    """A client whose calls don't wait for locks."""
    with rowlock.connect(rowlock_server.address, lock_wait_s=0, lock_retries=0) as client:
        yield client


def test_table_operations_and_snapshots_are_kept_out_and_rows_are_not(
    rowlock_client: rowlock.Client, table: rowlock.Table[bytes], impatient: rowlock.Client
) -> None:
    with rowlock_client.lock("t", "exclusive", purpose="moving") as lock:
        for call in (
            lambda: impatient.snapshot("t"),
            lambda: impatient.alter_table("t", set_families={"g": rowlock.Family()}),
            lambda: impatient.truncate_table("t"),
            lambda: impatient.lock("t", "shared"),
            lambda: impatient.lock("t", "shared", region=impatient.regions("t")[0].region_id),
        ):
            with pytest.raises(rowlock.LockUnavailableError, match=r"\(moving\)") as caught:
                call()
            assert caught.value.holders == (lock.session.id,)
        with pytest.raises(rowlock.TableInUseError) as in_use:
            impatient.drop_table("t")
        assert in_use.value.holders == (lock.session.id,)
        table.put(b"r", {b"f:q": b"1"})
        assert len(list(table.scan())) == 1
        rowlock_client.truncate_table("t", session=lock.session)
        assert list(table.scan()) == []
    with impatient.snapshot("t"):
        pass
    assert rowlock_client.locks() == []


def test_a_scan_and_a_snapshot_without_a_session_keep_nobody_from_dropping_the_table(
    rowlock_client: rowlock.Client, table: rowlock.Table[bytes], impatient: rowlock.Client
) -> None:
    with table.batch() as batch:
        for number in range(1000):
            batch.put(b"%04d" % number, {"f:q": b"v" * 1000})
    snapshot = rowlock_client.snapshot("t")
    scans = [iter(table.scan(batch_bytes=1000)), iter(table.scan(snapshot=snapshot, batch_bytes=1000))]
    read = [next(scan) for scan in scans]
    with rowlock_client.session() as session:
        rowlock_client.snapshot("t", session=session)
        with pytest.raises(rowlock.TableInUseError):
            impatient.drop_table("t")
    impatient.drop_table("t")
    assert [len(list(scan)) for scan in scans] == [999, 999]
    assert [row for row, _ in read] == [b"0000", b"0000"]
    with pytest.raises(rowlock.SnapshotEndedError, match="its table was dropped"):
        list(table.scan(snapshot=snapshot))


def test_a_mapping_is_changed_under_locks(
    rowlock_client: rowlock.Client, table: rowlock.Table[bytes], impatient: rowlock.Client
) -> None:
    with rowlock_client.lock("t", "exclusive") as lock:
        with pytest.raises(rowlock.LockUnavailableError):
            impatient.alter_table("t", mapping="id STRING :key, n INT f:n")
        assert rowlock_client.kept_mapping("t") is None
        rowlock_client.alter_table("t", mapping="id STRING :key, n INT f:n", session=lock.session)
    assert impatient.typed_table("t").row("a") == {}


def test_shared_locks_go_together_and_keep_exclusive_ones_out(
    rowlock_client: rowlock.Client, impatient: rowlock.Client
) -> None:
    with rowlock_client.lock("t", "shared"), impatient.lock("t", "shared"), impatient.snapshot("t"):
        with pytest.raises(rowlock.LockUnavailableError):
            impatient.truncate_table("t")
        with pytest.raises(rowlock.LockUnavailableError):
            impatient.lock(["t"], "exclusive")


def test_a_waiting_call_goes_on_when_the_lock_is_released(
    rowlock_client: rowlock.Client, table: rowlock.Table[bytes]
) -> None:
    with ThreadPoolExecutor(2) as pool:
        with rowlock_client.lock("t", "exclusive") as lock:
            waiting = pool.submit(rowlock_client.truncate_table, "t")
            wait_until(lambda: any(not info.is_held for info in rowlock_client.locks("t")))
            [held, waits] = rowlock_client.locks("t")
            assert (held.is_held, held.mode, held.holder, held.number) == (
                True,
                "exclusive",
                lock.session.id,
                lock.number,
            )
            assert (waits.purpose, waits.waits_for, waits.holder[:5]) == (
                "truncate a table",
                (lock.session.id,),
                "call-",
            )
            assert waits.waits_until_ms is not None
            assert held.heartbeat_ms is not None
        waiting.result(WAIT_S)


def test_a_refused_request_is_repeated_with_growing_pauses(
    rowlock_client: rowlock.Client, table: rowlock.Table[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    holder = rowlock_client.lock("t", "exclusive")

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            holder.release()

    monkeypatch.setattr("rowlock._locked_call.time.sleep", pause)
    with rowlock_client.lock("t", "exclusive", wait_s=0, retries=5) as lock:
        assert lock.number > holder.number
    assert pauses == [0.1, 0.2, 0.4]


def test_an_exclusive_request_whose_tries_are_shorter_than_the_holds_is_granted_under_shared_load(
    rowlock_server: RowlockServer, table: rowlock.Table[bytes]
) -> None:
    """Three holders overlap, so the lock is never free while others may pass the request."""
    ended = threading.Event()

    def hold(number: int) -> int:
        held = 0
        with rowlock.connect(rowlock_server.address, lock_wait_s=WAIT_S) as client:
            ended.wait(0.2 * number)
            while not ended.is_set():
                with client.lock("t", "shared"):
                    held += 1
                    ended.wait(0.6)
        return held

    with ThreadPoolExecutor(3) as pool, rowlock.connect(rowlock_server.address) as client:
        holders = [pool.submit(hold, number) for number in range(3)]
        try:
            wait_until(lambda: len(client.locks("t")) == 3)
            with client.lock("t", "exclusive", wait_s=0.1, retries=9):
                assert [info.mode for info in client.locks("t") if info.is_held] == ["exclusive"]
        finally:
            ended.set()
        assert min(holder.result(WAIT_S) for holder in holders) > 0


def test_a_lock_is_lost_with_its_session_and_its_block_says_so(
    rowlock_client: rowlock.Client, impatient: rowlock.Client
) -> None:
    def work() -> None:
        with rowlock_client.lock("t", "exclusive") as lock:
            rowlock_client.end_session(lock.session.id, reason="taken away")
            with pytest.raises(rowlock.SessionEndedError, match="taken away"):
                lock.check()
            assert not lock.is_held
            with impatient.lock("t", "exclusive") as later:
                assert later.number > lock.number

    with pytest.raises(rowlock.SessionEndedError, match="taken away"):
        work()


def test_the_lock_of_a_client_that_dies_is_freed(rowlock_server: RowlockServer, rowlock_client: rowlock.Client) -> None:
    rowlock_client.create_table("t", ["f"])
    with rowlock.connect(rowlock_server.address) as dying:
        session = dying.session("dying", idle_s=1.5)
        dying.lock("t", "exclusive", session=session)
    # Its client is closed, so no heartbeats come.
    with rowlock_client.lock("t", "exclusive", wait_s=WAIT_S):
        assert session.id not in [info.session_id for info in rowlock_client.sessions()]


def test_many_tables_are_locked_in_one_request(rowlock_client: rowlock.Client) -> None:
    """The names of all made a purpose that was too long for a session."""
    names = [f"{'t' * 250}{number}" for number in range(5)]
    for name in names:
        rowlock_client.create_table(name, ["f"])
    with rowlock_client.lock(names, "shared") as lock:
        assert lock.tables == tuple(names)
        [info] = rowlock_client.sessions()
        assert info.purpose == f"lock of {', '.join(names[:3])} and 2 more tables"


def test_what_cannot_be_locked_is_refused(rowlock_client: rowlock.Client, table: rowlock.Table[bytes]) -> None:
    with pytest.raises(rowlock.TableNotFoundError):
        rowlock_client.lock("nosuch", "shared")
    with pytest.raises(rowlock.TableNotFoundError):
        rowlock_client.locks("nosuch")
    with pytest.raises(rowlock.InvalidArgumentError, match="mode must be 'shared' or 'exclusive'"):
        rowlock_client.lock("t", "update")  # type: ignore[arg-type]
    with pytest.raises(rowlock.InvalidArgumentError, match=r"region 4000 is not one of table 't'"):
        rowlock_client.lock("t", "shared", region=4000)
    with pytest.raises(rowlock.InvalidArgumentError, match="name at least one table"):
        rowlock_client.lock([], "shared")
    with pytest.raises(rowlock.LimitExceededError, match="has 1001 entries, more than 1000; lock whole tables"):
        rowlock_client.lock(["t"] * 1001, "shared")
    with pytest.raises(rowlock.InvalidArgumentError, match="lock_wait_s must be a number of seconds"):
        rowlock_client.lock("t", "shared", wait_s=-1)
    assert rowlock_client.locks() == []
    assert not [info for info in rowlock_client.sessions() if info.purpose.startswith("lock of")]


def test_a_table_in_use_is_dropped_by_force(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client, table: rowlock.Table[bytes]
) -> None:
    lock = rowlock_client.lock("t", "shared", purpose="reading")
    assert main(["drop", "t", "--yes", "--server", rowlock_server.address]) == 2
    assert main(["drop", "t", "--yes", "--force", "--server", rowlock_server.address]) == 0
    with pytest.raises(rowlock.SessionEndedError, match="its table 't' was dropped"):
        lock.check()


def test_the_command_lists_holders_and_those_that_wait(
    rowlock_server: RowlockServer,
    rowlock_client: rowlock.Client,
    table: rowlock.Table[bytes],
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ThreadPoolExecutor(1) as pool:
        with (
            rowlock_client.session("nightly load", session_id="load-42", owner="ana@db7") as session,
            rowlock_client.lock("t", "shared", session=session),
        ):
            waiting = pool.submit(rowlock_client.truncate_table, "t")
            wait_until(lambda: len(rowlock_client.locks()) == 2)
            assert main(["locks", "t", "--server", rowlock_server.address]) == 0
            held, waits = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
            assert held[:6] == ["t", "", "shared", "held", "load-42", "ana@db7"]
            assert held[7:] == ["nightly load", ""]
            assert waits[2:4] == ["exclusive", "waiting"]
            assert waits[7:] == ["truncate a table", "load-42"]
            assert main(["locks", "--extended", "--server", rowlock_server.address]) == 0
            held, waits = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
            assert held[9:] == [str(rowlock_client.locks()[0].number), held[10], ""]
            assert held[10].startswith("0:0")
            assert waits[11].startswith("0:03:")
        waiting.result(WAIT_S)


@pytest.mark.parametrize(
    "words", [["truncate", "t", "--yes"], ["alter", "t", "--set", "g"], ["drop", "t", "--yes"], ["snapshot", "t"]]
)
def test_a_command_that_waits_for_a_lock_says_for_whom(
    rowlock_server: RowlockServer,
    rowlock_client: rowlock.Client,
    table: rowlock.Table[bytes],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
) -> None:
    monkeypatch.setattr("rowlock.cli.lock_waits.LOOK_S", 0.01)
    shown: list[str] = []

    def has_note() -> bool:
        shown.append(capsys.readouterr().err)
        return "load-42" in "".join(shown)

    with ThreadPoolExecutor(1) as pool:
        with (
            rowlock_client.session("nightly load", session_id="load-42", owner="ana@db7") as session,
            rowlock_client.lock("t", "exclusive", session=session),
        ):
            waiting = pool.submit(main, [*words, "--server", rowlock_server.address, "--timeout", "90"])
            wait_until(lambda: waiting.done() or has_note())
        exit_code = waiting.result(WAIT_S)
    if words[0] == "drop":
        # It does not wait for sessions: it names them.
        assert exit_code == 2
        return
    assert exit_code == 0
    [note] = "".join(shown).splitlines()
    assert note == (
        "waiting for a lock of table t: load-42 (ana@db7, nightly load) holds it. 'rowlock locks t' shows it; "
        "--timeout says how long to wait, now 90 s"
    )


def test_the_timeout_of_a_command_bounds_its_wait_for_a_lock(
    rowlock_server: RowlockServer,
    rowlock_client: rowlock.Client,
    table: rowlock.Table[bytes],
    capsys: pytest.CaptureFixture[str],
) -> None:
    with rowlock_client.lock("t", "shared", purpose="nightly load"):
        assert main(["--timeout", "0.3", "truncate", "t", "--yes", "--server", rowlock_server.address]) != 0
    assert "was refused after 0.3 s" in capsys.readouterr().err


def test_without_locks_operations_run_and_none_can_be_taken(tmp_path: Path) -> None:
    with Server(tmp_path / "data", config=Config(locks=0)) as server, rowlock.connect(server.address) as db:
        db.create_table("t", ["f"])
        with db.snapshot("t"):
            db.truncate_table("t")
        with pytest.raises(rowlock.InvalidArgumentError, match="locks are switched off"):
            db.lock("t", "shared")
        db.drop_table("t")
