"""The plan and the tasks of a write job, against a real server and without Spark."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import rowlock
import rowlock.spark.write_plan
import rowlock.spark.write_task
from pyspark.sql.types import (
    DataType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    YearMonthIntervalType,
)
from rowlock._core.bulk_input import Piece, Sizes
from rowlock._transport.server_times import ReservedTimes
from rowlock.bulk_outcome import BulkResult
from rowlock.errors import (
    FamilyNotFoundError,
    InvalidArgumentError,
    MappingError,
    ServerUnavailableError,
    TableNotFoundError,
)
from rowlock.pytest_plugin import RowlockServer
from rowlock.spark.write_options import write_options
from rowlock.spark.write_plan import BATCH_TIMES, WritePlan, write_plan
from rowlock.spark.write_task import WriteFailedError, Written, write_task
from rowlock.spark.writer import PartWritten, RowlockWriter

_MAPPING = "id STRING :key, a STRING f:a, b STRING f:b"
_SCHEMA = pa.schema([("id", pa.string()), ("a", pa.string()), ("b", pa.string())])
_MAPS = pa.schema([("row", pa.binary()), ("columns", pa.map_(pa.string(), pa.binary()))])

Row = tuple[Any, ...]


def _batch(*rows: Row, schema: pa.Schema = _SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


def _plan(server: RowlockServer, **options: str) -> WritePlan:
    given = {
        "server": server.address,
        "table": "t",
        "mapping": _MAPPING,
        "create": "true",
        "batch_bytes": "1",
        **options,
    }
    return write_plan(write_options(given), _SCHEMA)


def _map_plan(server: RowlockServer, **options: str) -> WritePlan:
    return write_plan(write_options({"server": server.address, "table": "t", "create": "f g", **options}), _MAPS)


def _write(plan: WritePlan, *rows: Row) -> Written:
    """Makes a batch of each row, as Spark may."""
    schema = _SCHEMA if plan.options.mapping else _MAPS
    return write_task(plan, [_batch(row, schema=schema) for row in rows], "partition 3")


def _rows(client: rowlock.Client) -> list[tuple[bytes, dict[bytes, bytes]]]:
    return list(client.table("t").scan())


def test_a_repeated_task_writes_the_same_versions_and_undoes_no_later_change(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client
) -> None:
    plan = _plan(rowlock_server, create="f,versions=10")
    assert _write(plan, ("x", "1", "2"), ("y", "3", None)) == Written(2, 3)
    table = rowlock_client.table("t")
    table.put("x", {"f:a": "changed"}, timestamp=plan.timestamp + 1)
    assert _write(plan, ("x", "1", "2"), ("y", "3", None)) == Written(2, 3)
    assert _rows(rowlock_client) == [(b"x", {b"f:a": b"changed", b"f:b": b"2"}), (b"y", {b"f:a": b"3"})]
    assert table.cells("x", "f:a") == [(b"changed", plan.timestamp + 1), (b"1", plan.timestamp)]


def test_all_tasks_of_a_job_write_at_its_one_time_of_the_server(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client
) -> None:
    before = rowlock_client.server_info().now_ms
    plan = _plan(rowlock_server)
    assert before <= plan.timestamp < rowlock_client.server_info("t").now_ms
    _write(plan, ("x", "1", None))
    _write(plan, ("y", "1", None))
    for row in ("x", "y"):
        assert rowlock_client.table("t").cells(row, "f:a") == [(b"1", plan.timestamp)]


def test_the_job_that_comes_later_wins(rowlock_server: RowlockServer, rowlock_client: rowlock.Client) -> None:
    _write(_plan(rowlock_server), ("x", "first", "first"))
    _write(_plan(rowlock_server), ("x", "second", None))
    assert _rows(rowlock_client) == [(b"x", {b"f:a": b"second", b"f:b": b"first"})]


@pytest.mark.parametrize("nulls", ["skip", "delete"])
def test_an_attempt_that_dies_half_way_after_another_one_finished_undoes_no_later_row(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client, nulls: str
) -> None:
    plan = _plan(rowlock_server, nulls=nulls)
    rows = [("k", "old", None), ("j", "x", "x"), ("k", "new", "new")]
    _write(plan, *rows)
    for finished in range(3):
        _write(plan, *rows[:finished])
        assert _rows(rowlock_client) == [(b"j", {b"f:a": b"x", b"f:b": b"x"}), (b"k", {b"f:a": b"new", b"f:b": b"new"})]


def test_batches_beyond_those_with_timestamps_of_their_own_share_the_last_one(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client
) -> None:
    plan = replace(_plan(rowlock_server, create="f,versions=10"), later_ms=2)
    _write(plan, *[("x", str(number), None) for number in range(5)])
    expected = [(b"4", plan.timestamp + 2), (b"1", plan.timestamp + 1), (b"0", plan.timestamp)]
    assert rowlock_client.table("t").cells("x", "f:a") == expected


def test_a_point_write_after_the_plan_is_later_than_all_batches_of_the_job(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client
) -> None:
    plan = _plan(rowlock_server)
    assert plan.later_ms == BATCH_TIMES
    rowlock_client.table("t").put("x", {"f:a": "point"})
    _write(plan, *[("x", str(number), None) for number in range(BATCH_TIMES + 5)])
    assert _rows(rowlock_client) == [(b"x", {b"f:a": b"point"})]


@pytest.mark.parametrize("batch_bytes", ["1", "1000000"])
def test_of_rows_with_one_key_the_last_wins_in_one_batch_and_over_several(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client, batch_bytes: str
) -> None:
    plan = _plan(rowlock_server, batch_bytes=batch_bytes, nulls="delete")
    rows = [("x", str(i), None) for i in range(20)] + [("y", "gone", "gone"), ("y", None, "there"), ("z", None, None)]
    write_task(plan, [_batch(*rows)], "partition 0")
    assert _rows(rowlock_client) == [(b"x", {b"f:a": b"19"}), (b"y", {b"f:b": b"there"})]


def test_where_nulls_are_skipped_the_last_row_with_a_key_wins_cell_by_cell(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client
) -> None:
    _write(_plan(rowlock_server), ("k", "1", "2"), ("k", None, "3"))
    assert _rows(rowlock_client) == [(b"k", {b"f:a": b"1", b"f:b": b"3"})]


def test_duplicates_are_refused_on_request(rowlock_server: RowlockServer, rowlock_client: rowlock.Client) -> None:
    plan = _plan(rowlock_server, duplicates="fail")
    with pytest.raises(WriteFailedError, match=r"partition 3.*row 2 has the same key 'x' as an earlier row"):
        _write(plan, ("x", "1", "1"), ("y", "1", "1"), ("x", "2", "2"))
    assert _write(plan, ("x", "1", "1"), ("y", "1", "1")).row_count == 2
    with pytest.raises(MappingError, match=r"table 't' keeps a mapping, .* set the option mapping to none"):
        _map_plan(rowlock_server)
    maps = _map_plan(rowlock_server, duplicates="fail", mapping="none")
    with pytest.raises(WriteFailedError, match="row 1 has the same key 'x'"):
        _write(maps, (b"x", [("f:a", b"1")]), (b"x", []))


def test_nulls_delete_cells_on_request(rowlock_server: RowlockServer, rowlock_client: rowlock.Client) -> None:
    _write(_plan(rowlock_server), ("x", "1", "2"))
    _write(_plan(rowlock_server), ("x", None, "3"))
    assert _rows(rowlock_client) == [(b"x", {b"f:a": b"1", b"f:b": b"3"})]
    _write(_plan(rowlock_server, nulls="delete"), ("x", None, "4"))
    assert _rows(rowlock_client) == [(b"x", {b"f:b": b"4"})]


def test_maps_are_written_as_they_are(rowlock_server: RowlockServer, rowlock_client: rowlock.Client) -> None:
    plan = _map_plan(rowlock_server)
    assert _write(plan, (b"x", [("f:a", b"1"), ("g:\\xff", b"")]), (b"y", None)) == Written(2, 2)
    assert _rows(rowlock_client) == [(b"x", {b"f:a": b"1", b"g:\xff": b""})]
    with pytest.raises(WriteFailedError, match=r"family h; the families of table 't' are f, g"):
        _write(plan, (b"z", [("h:a", b"1")]))


def test_no_row_is_split_however_small_the_batches_are(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = _sent(monkeypatch)
    write_task(_plan(rowlock_server), [_batch(*((str(i), "1", "2") for i in range(9)))], "partition 0")
    assert sent == [[b"%d" % i] for i in range(9)]


def _sent(monkeypatch: pytest.MonkeyPatch) -> list[list[bytes | None]]:
    """Sends nothing from now on, but returns the keys of each batch."""
    sent: list[list[bytes | None]] = []

    def put_pieces(servers: object, view: object, pieces: Iterator[Piece], *_: object) -> BulkResult:
        sent.extend(piece.data.keys.to_pylist() for piece in pieces)
        return BulkResult(0, 0)

    monkeypatch.setattr(rowlock.spark.write_task, "put_pieces", put_pieces)
    return sent


def test_short_batches_are_sent_together_and_long_ones_in_parts_of_equal_size(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = _sent(monkeypatch)
    rows = [_batch((f"{i:02}", "x" * 100, "2")) for i in range(20)]
    size = rows[0].nbytes
    plan = replace(_plan(rowlock_server), sizes=Sizes(4 * size, None))
    write_task(plan, [*rows[:9], _batch(), *rows[9:], _batch(*((str(i), "y" * 100, "2") for i in range(9)))], "part")
    assert [len(batch) for batch in sent] == [4, 4, 4, 4, 4, 3, 3, 3]
    assert [key for batch in sent[:5] for key in batch] == [f"{i:02}".encode() for i in range(20)]


def test_batches_are_as_small_as_the_server_s_limit_requires(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for takes_rows, expected in ((True, Sizes(1 << 20, None)), (False, Sizes(1 << 20, 1 << 20))):
        times = ReservedTimes(1, 0, takes_rows, request_bytes_max=3 << 20)
        monkeypatch.setattr(rowlock.spark.write_plan, "reserve_times", lambda *_, times=times: times)
        assert _plan(rowlock_server, batch_bytes="16m").sizes == expected


def test_rows_that_were_collected_when_the_input_fails_are_not_written(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client
) -> None:
    """Else a repeated task, killed half-way, would write an earlier row of a batch again without the later one."""
    plan = _plan(rowlock_server, batch_bytes="1m")

    def failing() -> Iterator[pa.RecordBatch]:
        yield _batch(("k", "old", None))
        raise OSError("killed")

    _write(plan, ("k", "old", None), ("k", "new", None))
    with pytest.raises(OSError, match="killed"):
        write_task(plan, failing(), "partition 0")
    assert _rows(rowlock_client) == [(b"k", {b"f:a": b"new"})]


def test_an_invalid_row_is_named_and_the_rows_before_it_stay(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client
) -> None:
    plan = _plan(rowlock_server)
    message = (
        "partition 3 can't be written: the key column 'id' is null in row 0.*from row 2 of the data.*The rows that"
    )
    with pytest.raises(WriteFailedError, match=message):
        _write(plan, ("x", "1", "1"), ("y", "1", "1"), (None, "1", "1"))
    assert [row for row, _ in _rows(rowlock_client)] == [b"x", b"y"]


def test_a_key_or_value_beyond_the_limits_is_named(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client
) -> None:
    with pytest.raises(WriteFailedError, match=r"partition 3.*row 'kkkk.*row_bytes_max"):
        _write(_plan(rowlock_server), ("k" * 40_000, "1", "1"))
    with pytest.raises(WriteFailedError, match=r"row 'x'.*cell_bytes_max"):
        _write(_plan(rowlock_server), ("x", "v" * (11 * 1024 * 1024), "1"))
    # No part of the row either.
    assert _rows(rowlock_client) == []


def test_a_row_beyond_the_size_of_a_message_is_named(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client
) -> None:
    large = "v" * (9 << 20)
    row = (b"x", [(f"f:{number}", large.encode()) for number in range(8)])
    message = r"partition 3.*row 'x' takes 75\d+ bytes as one message, more than request_bytes_max = 67108864"
    with pytest.raises(WriteFailedError, match=message):
        _write(_map_plan(rowlock_server), (b"w", [("f:0", b"1")]), row)
    assert [name for name, _ in _rows(rowlock_client)] == [b"w"]


def test_a_part_without_rows_writes_nothing(rowlock_server: RowlockServer, rowlock_client: rowlock.Client) -> None:
    plan = _plan(rowlock_server)
    assert write_task(plan, [], "partition 0") == Written(0, 0)
    assert write_task(plan, [_batch()], "partition 0") == Written(0, 0)


def test_a_writer_is_pickled_and_logs_the_result_of_its_job(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client, caplog: pytest.LogCaptureFixture
) -> None:
    schema = StructType([StructField(name, StringType()) for name in _SCHEMA.names])
    options = {"server": rowlock_server.address, "table": "t", "mapping": _MAPPING, "create": "true"}
    writer: RowlockWriter = pickle.loads(pickle.dumps(RowlockWriter(options, schema, overwrite=False)))
    message = writer.write(iter([_batch(("x", "1", None), ("y", "1", "2"))]))
    assert pickle.loads(pickle.dumps(message)) == PartWritten(0, Written(2, 3))
    with caplog.at_level("INFO", "rowlock.spark"):
        writer.commit([message])
        assert "wrote 2 rows, 3 cells to table 't'" in caplog.text
        writer.abort([message, None])
        assert "failed after it wrote 1 of its 2 partitions completely to table 't'" in caplog.text


@pytest.mark.parametrize("kind", [YearMonthIntervalType(), MapType(NullType(), NullType())])
def test_a_column_whose_type_arrow_does_not_have_is_reported_by_its_name(kind: DataType) -> None:
    schema = StructType([StructField("id", StringType()), StructField("term", kind)])
    with pytest.raises(MappingError, match=r"column 'term' is (interval|map).*, a type.*that no cell can hold"):
        RowlockWriter({"server": "127.0.0.1:1", "table": "t"}, schema, overwrite=False)


def _overwriting(server: RowlockServer) -> RowlockWriter:
    """Returns a writer as the driver makes it, and as a task and the commit get it."""
    schema = StructType([StructField(name, StringType()) for name in _SCHEMA.names])
    options = {"server": server.address, "table": "t", "mapping": _MAPPING, "create": "true"}
    writer: RowlockWriter = pickle.loads(pickle.dumps(RowlockWriter(options, schema, overwrite=True)))
    return writer


def test_the_commit_of_an_overwriting_job_replaces_all_rows_at_once(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client, caplog: pytest.LogCaptureFixture
) -> None:
    _write(_plan(rowlock_server), ("old", "1", "1"), ("x", "1", "1"))
    before = _rows(rowlock_client)
    writer = _overwriting(rowlock_server)
    messages = [writer.write(iter([_batch((row, "2", None))])) for row in ("x", "y")]
    [session] = rowlock_client.sessions()
    assert session.purpose == "Spark overwrites t"
    # A second attempt of a task, whose result Spark does not take.
    writer.write(iter([_batch(("y", "2", None))]))
    rowlock_client.table("t").put(b"meanwhile", {"f:a": b"3"})
    assert _rows(rowlock_client) == [(b"meanwhile", {b"f:a": b"3"}), *before]
    with caplog.at_level("INFO", "rowlock.spark"):
        writer.commit(messages)
    assert "replaced all rows: wrote 2 rows, 2 cells to table 't'" in caplog.text
    assert [row for row, _ in _rows(rowlock_client)] == [b"x", b"y"]
    assert all(len(data) == 1 for _, data in _rows(rowlock_client))
    assert rowlock_client.sessions() == []
    with pytest.raises(WriteFailedError, match="the table stays as it was"):  # A straggler.
        writer.write(iter([_batch(("z", "2", None))]))
    rowlock_client.table("t").put(b"x", {"f:a": b"4"})
    assert dict(_rows(rowlock_client))[b"x"].items() >= {b"f:a": b"4"}.items()


@pytest.mark.parametrize("is_of_a_failed_attempt", [False, True])
def test_a_lost_batch_of_a_task_that_succeeded_refuses_the_commit(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client, *, is_of_a_failed_attempt: bool
) -> None:
    """One of an attempt whose result Spark does not take has no row that is not in another batch."""
    _write(_plan(rowlock_server), ("old", "1", "1"))
    before = _rows(rowlock_client)
    writer = _overwriting(rowlock_server)
    messages = [writer.write(iter([_batch((row, "2", None))])) for row in ("x", "y")]
    assert [each.written.staged_batches for each in messages if isinstance(each, PartWritten)] == [{1}, {2}]
    if is_of_a_failed_attempt:
        writer.write(iter([_batch(("y", "2", None))]))
    rowlock_server.stop()
    *_, last = sorted(rowlock_server.folder.glob("staging/*/batch-*"))
    last.unlink()
    rowlock_server.restart()
    if is_of_a_failed_attempt:
        writer.commit(messages)
        assert [row for row, _ in _rows(rowlock_client)] == [b"x", b"y"]
        return
    with pytest.raises(WriteFailedError, match=rf"not replaced, the table stays as it was: .*{last.name} is damaged"):
        writer.commit(messages)
    assert _rows(rowlock_client) == before
    writer.abort(messages)
    assert rowlock_client.sessions() == []


def test_an_overwriting_job_that_fails_leaves_the_table_as_it_was(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client, caplog: pytest.LogCaptureFixture
) -> None:
    _write(_plan(rowlock_server), ("old", "1", "1"))
    before = _rows(rowlock_client)
    writer = _overwriting(rowlock_server)
    message = writer.write(iter([_batch(("x", "2", None))]))
    writer.abort([message, None])
    assert "the rows of table 't' were not replaced" in caplog.text
    assert (_rows(rowlock_client), rowlock_client.sessions()) == (before, [])
    with pytest.raises(WriteFailedError, match="the table stays as it was"):
        writer.commit([message])
    assert _rows(rowlock_client) == before


def test_an_overwriting_job_without_rows_empties_the_table(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client
) -> None:
    _write(_plan(rowlock_server), ("old", "1", "1"))
    _overwriting(rowlock_server).commit([])
    assert _rows(rowlock_client) == []


def test_a_table_that_is_dropped_meanwhile_ends_the_task(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client
) -> None:
    plan = _plan(rowlock_server)
    rowlock_client.drop_table("t")
    with pytest.raises(WriteFailedError, match="not all rows of partition 3 were written to table 't'"):
        _write(plan, ("x", "1", "1"))


def test_a_task_waits_for_a_server_that_restarts(rowlock_server: RowlockServer, rowlock_client: rowlock.Client) -> None:
    plan = _plan(rowlock_server)
    _write(plan, ("x", "1", "1"))
    rowlock_server.kill()
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(_write, plan, ("y", "1", "1"))
        rowlock_server.restart()
        assert writing.result().row_count == 1
    assert [row for row, _ in _rows(rowlock_client)] == [b"x", b"y"]


def test_a_server_that_does_not_come_back_is_named(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client
) -> None:
    usual = _plan(rowlock_server)
    plan = replace(usual, options=replace(usual.options, timeout_s=1))
    rowlock_server.kill()
    with pytest.raises(
        WriteFailedError, match=rf"server at {rowlock_server.address} did not accept.*run the job again"
    ):
        _write(plan, ("x", "1", "1"))


def test_the_option_busy_timeout_limits_the_wait_for_a_busy_server(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that is away."""
    waits: list[float] = []

    def table(client: rowlock.Client, name: str, *, durability: object, timeout: float) -> object:
        waits.append(timeout)
        return SimpleNamespace(_view=None)

    def put_pieces(servers: object, view: object, pieces: object, busy_timeout: float, *_: object) -> BulkResult:
        waits.append(busy_timeout)
        return BulkResult(0, 0)

    plans = [_plan(rowlock_server), _plan(rowlock_server, busy_timeout="5", timeout="7")]
    monkeypatch.setattr(rowlock.Client, "table", table)
    monkeypatch.setattr(rowlock.spark.write_task, "put_pieces", put_pieces)
    for plan in plans:
        write_task(plan, [_batch(("x", "1", "2"))], "partition 0")
    assert waits == [60.0, 3600.0, 7.0, 5.0]


def test_a_driver_that_reaches_no_server_reports_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        options = write_options({"server": address, "table": "t", "mapping": _MAPPING, "timeout": "0.5"})
        with pytest.raises(ServerUnavailableError, match=rf"server at {address} does not answer.*Is it running"):
            write_plan(options, _SCHEMA)


def test_one_of_many_jobs_creates_the_table_on_request(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client
) -> None:
    with pytest.raises(TableNotFoundError, match=r"no table 't'.*'create', 'true'"):
        _plan(rowlock_server, create="false")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: _plan(rowlock_server, durability="os"), range(8)))
    made = rowlock_client.describe("t")
    assert (dict(made.families), made.durability) == ({"f": rowlock.Family()}, "os")


def test_an_existing_table_does_not_change(rowlock_server: RowlockServer, rowlock_client: rowlock.Client) -> None:
    rowlock_client.create_table("t", {"f": rowlock.Family(versions=5), "g": rowlock.Family()})
    assert _plan(rowlock_server, create="f,versions=7").families == {b"f", b"g"}
    assert rowlock_client.describe("t").families["f"].versions == 5


def test_missing_families_are_reported_before_anything_is_written(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client
) -> None:
    rowlock_client.create_table("t", ["g"])
    with pytest.raises(
        FamilyNotFoundError, match=r"names 'f', which is not a family of table 't' at .*; its families are 'g'"
    ):
        _plan(rowlock_server)
    with pytest.raises(
        InvalidArgumentError, match=r"create names the families 'g', but the mapping also names 'f'; .*to true"
    ):
        _plan(rowlock_server, create="g")
    _map_plan(rowlock_server, create="true")
    rowlock_client.drop_table("t")
    for options in ({}, {"mapping": "none"}):
        with pytest.raises(InvalidArgumentError, match="without a mapping the option create must name the families"):
            _map_plan(rowlock_server, create="true", **options)


def test_a_data_frame_without_its_mapping_creates_no_table(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client
) -> None:
    """The next job would find the table, which would then never keep that job's mapping."""
    options = {"server": rowlock_server.address, "table": "t", "create": "f"}
    with pytest.raises(MappingError, match="set the option mapping to map them to cells"):
        write_plan(write_options(options), _SCHEMA)
    assert not rowlock_client.exists("t")
    _plan(rowlock_server, create="f")
    assert rowlock_client.describe("t").mapping_text == _MAPPING


def test_a_durability_weaker_than_the_table_s_is_refused_before_anything_is_written(
    rowlock_server: RowlockServer, rowlock_client: rowlock.Client
) -> None:
    rowlock_client.create_table("t", ["f"], durability="os")
    for weaker in ("async", "skip"):
        with pytest.raises(InvalidArgumentError, match=rf"durability, {weaker}, is less than table 't' guarantees, os"):
            _plan(rowlock_server, durability=weaker)
    for enough in ("os", "fsync"):
        _plan(rowlock_server, durability=enough)
