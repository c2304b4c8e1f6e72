"""The data source as Spark uses it, but in this process and without a session: fast, and errors are visible."""

from __future__ import annotations

import math
import pickle
import secrets
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Self
from unittest.mock import Mock
from uuid import UUID

import pyarrow as pa
import pytest
import rowlock
from pyspark import TaskContext, cloudpickle
from pyspark.sql.datasource import (
    DataSourceReader,
    InputPartition,
)
from pyspark.sql.types import StringType, StructField, StructType
from pyspark_rowlock import DefaultSource
from rowlock import Client
from rowlock._transport.servers import Servers
from rowlock.errors import (
    FamilyNotFoundError,
    InvalidArgumentError,
    ServerUnavailableError,
    SnapshotEndedError,
    TableNotFoundError,
)
from rowlock.pytest_plugin import RowlockServer
from rowlock.scan import Scan
from rowlock.snapshot import renew_snapshot
from rowlock.spark.loading import load
from rowlock.spark.planning import PART_BYTES_MAX, PART_BYTES_MIN, ScanPartition, suitable_part_bytes
from rowlock.spark.snapshots import snapshot as held_snapshot
from rowlock.spark.source import RowlockSource

_MAPPING = "id STRING :key, a STRING f:a, b STRING f:b"


@pytest.fixture
def table(rowlock_client: Client) -> str:
    made = rowlock_client.create_table("read", {"f": rowlock.Family(block_bytes=4096)})
    with made.batch() as batch:
        for number in range(1000):
            batch.put(f"{number:04d}", {"f:a": f"a{number}", "f:other": "x" * 100})
        batch.put("only b", {"f:b": "b"})
        batch.put("neither", {"f:other": "x"})
    rowlock_client.flush("read")
    return "read"


def _source(server: RowlockServer, **options: str) -> DefaultSource:
    made = DefaultSource({"server": server.address, "path": "read", "mapping": _MAPPING, **options})
    # As it travels from where it was made to where a scan is planned.
    again: DefaultSource = pickle.loads(pickle.dumps(made))
    return again


def _reader(source: DefaultSource, schema: StructType | None = None) -> DataSourceReader:
    return source.reader(source.schema() if schema is None else schema)  # type: ignore[arg-type]  # never a text here


def _planned(reader: DataSourceReader) -> tuple[DataSourceReader, list[ScanPartition]]:
    """Returns the reader and its partitions as a task unpickles them."""
    partitions = reader.partitions()
    arrived: tuple[DataSourceReader, list[ScanPartition]] = pickle.loads(pickle.dumps((reader, partitions)))
    return arrived


def _batches(reader: DataSourceReader, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    found: Any = reader.read(partition)  # Any: Spark's stubs allow rows too
    yield from found


def _ids(reader: DataSourceReader) -> list[str]:
    arrived, partitions = _planned(reader)
    return [name for partition in partitions for batch in _batches(arrived, partition) for name in _names(batch)]


def _names(batch: pa.RecordBatch) -> list[str]:
    names: list[Any] = batch.column("id").to_pylist()  # Any: the stubs think that they may be null
    return names


def _count(planned: tuple[DataSourceReader, list[ScanPartition]]) -> int:
    """Returns the rows that all tasks of a plan read."""
    reader, partitions = planned
    return sum(batch.num_rows for partition in partitions for batch in _batches(reader, partition))


def _query() -> UUID:
    """Returns the id of a query that begins now, as Spark draws it: a UUID of version 7."""
    return UUID(int=int(time.time() * 1000) << 80 | secrets.randbits(80))


class _Task(TaskContext):
    """What Spark tells a task of itself."""

    # Made in the usual way the first one would be the process's for ever.
    def __new__(cls, query: UUID | None, attempt: int) -> Self:
        return object.__new__(cls)

    def __init__(self, query: UUID | None, attempt: int) -> None:
        self.query = query
        self.attempt = attempt

    def attemptNumber(self) -> int:  # noqa: N802  (Spark's name)
        return self.attempt

    def getLocalProperty(self, key: str) -> str | None:  # noqa: N802
        assert key == "spark.sql.execution.query.id"
        return None if self.query is None else str(self.query)


def _task_of(monkeypatch: pytest.MonkeyPatch, query: UUID | None, attempt: int = 0) -> None:
    """From here on this process is a task of that query."""
    monkeypatch.setattr(TaskContext, "get", lambda: _Task(query, attempt))


_MAPPED = [f"{number:04d}" for number in range(1000)] + ["only b"]
_ALL = sorted([*_MAPPED, "neither"])


def test_the_default_source_is_the_full_source(rowlock_server: RowlockServer, table: str) -> None:
    assert isinstance(_source(rowlock_server), RowlockSource)


def test_parts_together_are_the_table(rowlock_server: RowlockServer, table: str) -> None:
    source = _source(rowlock_server, partition_bytes="8192")
    assert len(_planned(_reader(source))[1]) > 3
    assert _ids(_reader(source)) == _ALL
    assert len(_planned(_reader(_source(rowlock_server)))[1]) == 1


def test_a_narrow_schema_or_mapping_reads_the_same_rows(rowlock_server: RowlockServer, table: str) -> None:
    narrow = StructType([StructField("id", StringType())])
    assert _ids(_reader(_source(rowlock_server), narrow)) == _ALL
    assert _ids(_reader(_source(rowlock_server, mapping="id STRING :key, b STRING f:b"))) == _ALL


def test_rows_without_any_mapped_column_are_omitted_on_request(rowlock_server: RowlockServer, table: str) -> None:
    assert _ids(_reader(_source(rowlock_server, rows="mapped"))) == _MAPPED
    only_b = _source(rowlock_server, rows="mapped", mapping="id STRING :key, b STRING f:b")
    assert _ids(_reader(only_b)) == ["only b"]


def test_counting_gives_one_number_a_task(rowlock_server: RowlockServer, table: str) -> None:
    reader = _reader(_source(rowlock_server, count="true", partition_bytes="8192"))
    arrived, partitions = _planned(reader)
    found = [line for partition in partitions for batch in _batches(arrived, partition) for line in batch.to_pylist()]
    assert len(found) == len(partitions) > 3
    assert sum(line["count"] for line in found) == len(_ALL)


@pytest.mark.parametrize(
    "options",
    [{}, {"rows": "mapped"}, {"prefix": "00"}, {"filter": "a LIKE '%5%' AND b IS NULL"}, {"where": "f:b is present"}],
)
def test_counting_counts_the_rows_that_a_read_returns(
    rowlock_server: RowlockServer, table: str, options: dict[str, str]
) -> None:
    reader, partitions = _planned(_reader(_source(rowlock_server, count="true", **options)))
    found = [line["count"] for each in partitions for batch in _batches(reader, each) for line in batch.to_pylist()]
    assert sum(found) == len(_ids(_reader(_source(rowlock_server, **options)))) > 0


def test_nothing_to_read_is_one_part_without_ranges(rowlock_server: RowlockServer, table: str) -> None:
    reader = _reader(_source(rowlock_server, filter="id = 'a' AND id = 'b'"))
    [partition] = _planned(reader)[1]
    assert partition.ranges == ()
    assert _ids(reader) == []


def test_the_option_of_a_check_is_not_an_option_of_a_read(rowlock_server: RowlockServer) -> None:
    """The DataFrame once had a column "place", and reading it raised a TypeError."""
    with pytest.raises(InvalidArgumentError, match="no option 'check'; the read options are"):
        _source(rowlock_server, check="true")


def test_a_schema_may_have_its_own_letters_case(rowlock_server: RowlockServer, table: str) -> None:
    schema = StructType([StructField("B", StringType()), StructField("ID", StringType())])
    reader, [partition, *_] = _planned(_reader(_source(rowlock_server, prefix="only"), schema))
    assert [batch.to_pylist() for batch in _batches(reader, partition)] == [[{"B": "b", "ID": "only b"}]]


def test_a_format_under_a_name_that_plans_show_reads_the_same(rowlock_server: RowlockServer, table: str) -> None:
    """Spark pickles it by value for other processes, and it is registered once."""
    spark = Mock(version="4.3.0", _sc=None)
    given = {"server": rowlock_server.address, "mapping": _MAPPING, "filter": "b IS NOT NULL"}
    for _ in range(2):
        load(spark, "read", **given)
    [[registered]] = [call.args for call in spark.dataSource.register.call_args_list]
    pickling: Any = cloudpickle  # Any: it has no types
    arrived = pickling.loads(pickling.dumps(registered))
    assert arrived.name() == "rowlock read, filter b IS NOT NULL"
    spark.read.format.assert_called_with(arrived.name())
    spark.read.format().options.assert_called_with(**given)
    source = pickling.loads(pickling.dumps(arrived({**given, "path": "read"})))
    assert _ids(_reader(source)) == ["only b"]


def test_a_filter_narrows_what_is_read(rowlock_server: RowlockServer, table: str) -> None:
    given = "id BETWEEN '0100' AND '0509' AND a LIKE '%5%'"
    reader = _reader(_source(rowlock_server, filter=given, start="0500", where="f:a is present"))
    [partition] = _planned(reader)[1]
    assert partition.ranges == ((b"0500", b"0509\0"),)
    assert _ids(reader) == [f"{number:04d}" for number in range(500, 510)]


def test_a_filter_may_use_columns_of_the_mapping_that_the_schema_omits(
    rowlock_server: RowlockServer, table: str
) -> None:
    narrow = StructType([StructField("id", StringType())])
    assert _ids(_reader(_source(rowlock_server, filter="b IS NOT NULL"), narrow)) == ["only b"]


def test_an_invalid_filter_is_refused_when_the_dataframe_is_made(rowlock_server: RowlockServer, table: str) -> None:
    for wrong, message in (("a > ", "can't be parsed at its end"), ("id LIKE '%5'", r"\.where\(\"id LIKE '%5'\"\)")):
        with pytest.raises(InvalidArgumentError, match=message):
            _source(rowlock_server, filter=wrong).schema()


def test_a_reader_pushes_no_filters(rowlock_server: RowlockServer, table: str) -> None:
    """PySpark would apply the filters that one query pushes to every other query of the DataFrame."""
    assert type(_reader(_source(rowlock_server, filter="b IS NULL"))).pushFilters is DataSourceReader.pushFilters


def test_a_scan_that_ends_early_is_closed(
    rowlock_server: RowlockServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[Scan[bytes]] = []
    close = Scan.close

    def noted(scan: Scan[bytes]) -> None:
        closed.append(scan)
        close(scan)

    monkeypatch.setattr(Scan, "close", noted)
    reader, [partition] = _planned(_reader(_source(rowlock_server, batch_bytes="1024")))
    rows: Any = reader.read(partition)  # Any: Spark's stubs allow rows too
    assert next(rows).num_rows < 1000
    assert not closed
    rows.close()
    assert len(closed) == 1


def test_scans_of_one_dataframe_see_one_moment(
    rowlock_server: RowlockServer, rowlock_client: Client, table: str
) -> None:
    source = _source(rowlock_server)
    made_first = _source(rowlock_server)
    first = _planned(_reader(source))
    rowlock_client.table("read").put("new", {"f:a": "new"})
    assert _ids(_reader(source)) == _ALL
    assert [name for batch in _batches(first[0], first[1][0]) for name in _names(batch)] == _ALL
    # Its moment is that of its first use.
    assert "new" in _ids(_reader(made_first))


def test_the_error_for_an_ended_snapshot_has_advice_for_spark(
    rowlock_server: RowlockServer, rowlock_client: Client, table: str
) -> None:
    with held_snapshot(None, "read", server=rowlock_server.address) as moment:  # type: ignore[arg-type]  # not used
        source = _source(rowlock_server, snapshot=moment.id)
        reader, [partition] = _planned(_reader(source))
        assert _ids(_reader(source)) == _ALL
    for action in (_reader(source).partitions, lambda: list(_batches(reader, partition))):
        with pytest.raises(SnapshotEndedError, match=r"its with block ended.* rowlock\.spark\.snapshot"):
            action()


def test_a_held_snapshot_of_another_table_is_refused(
    rowlock_server: RowlockServer, rowlock_client: Client, table: str
) -> None:
    rowlock_client.create_table("other", ["f"])
    with (
        held_snapshot(None, "other", server=rowlock_server.address) as moment,  # type: ignore[arg-type]  # not used
        pytest.raises(
            InvalidArgumentError, match="names a snapshot of table 'other', but the DataFrame reads table 'read'"
        ),
    ):
        _reader(_source(rowlock_server, snapshot=moment.id)).partitions()


def test_latest_is_one_moment_for_each_query_of_what_was_planned_once(
    rowlock_server: RowlockServer, rowlock_client: Client, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark plans once, and reuses the partitions for every later query."""
    planned = _planned(_reader(_source(rowlock_server, snapshot="latest", partition_bytes="8192")))
    first, second = _query(), _query()
    _task_of(monkeypatch, first)
    assert _count(planned) == 1002
    rowlock_client.table("read").put("new", {"f:a": "new"})
    _task_of(monkeypatch, second)
    assert _count(planned) == 1003
    rowlock_client.table("read").put("newer", {"f:a": "newer"})
    assert _count(planned) == 1003
    # A repeated task of a query that began before.
    _task_of(monkeypatch, first)
    assert _count(planned) == 1002


def test_latest_without_a_query_is_the_moment_of_the_first_job(
    rowlock_server: RowlockServer, rowlock_client: Client, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = _planned(_reader(_source(rowlock_server, snapshot="latest")))
    rowlock_client.table("read").put("new", {"f:a": "new"})
    _task_of(monkeypatch, None)
    assert _count(planned) == 1003
    rowlock_client.table("read").put("newer", {"f:a": "newer"})
    assert _count(planned) == 1003


def test_latest_works_after_a_restart_of_the_server_for_queries_that_begin_later(
    rowlock_server: RowlockServer, rowlock_client: Client, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks of an earlier query may have read already, and must not read at two read points."""
    planned = _planned(_reader(_source(rowlock_server, snapshot="latest")))
    before, unused = _query(), _query()
    _task_of(monkeypatch, before)
    assert _count(planned) == 1002
    rowlock_server.restart()
    for query in (before, unused):
        _task_of(monkeypatch, query)
        with pytest.raises(SnapshotEndedError, match=r"Run the query again.*restarted"):
            _count(planned)
    _task_of(monkeypatch, _query())
    assert _count(planned) == 1002


def test_the_lease_of_a_query_is_minutes_and_that_of_a_dataframe_an_hour(
    rowlock_server: RowlockServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dashboard takes several snapshots a second, and the server limits their number."""
    _task_of(monkeypatch, None)
    with closing(Servers((rowlock_server.address,))) as servers:
        for snapshot, lease_ms in (("token", 3_600_000), ("latest", 600_000)):
            planned = _planned(_reader(_source(rowlock_server, snapshot=snapshot)))
            assert _count(planned) == 1002
            [partition] = planned[1]
            assert renew_snapshot(servers, partition.snapshot_id, 60.0).lease_ms == lease_ms


def test_a_dataframe_does_not_outlive_its_server(rowlock_server: RowlockServer, table: str) -> None:
    source = _source(rowlock_server)
    rowlock_server.restart()
    with pytest.raises(SnapshotEndedError, match="or the server restarted"):
        _reader(source).partitions()


def test_planning_a_scan_names_an_unreachable_server(rowlock_server: RowlockServer, table: str) -> None:
    source = _source(rowlock_server, timeout="1")
    reader = _reader(source)
    rowlock_server.kill()
    try:
        for action in (reader.partitions, lambda: _source(rowlock_server, timeout="1")):
            with pytest.raises(ServerUnavailableError, match=f"no rowlock server answered at {rowlock_server.address}"):
                action()
    finally:
        rowlock_server.restart()


def test_a_retried_task_waits_a_quarter_of_the_timeout_for_an_unreachable_server(
    rowlock_server: RowlockServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt has waited the full timeout."""
    reader, [partition] = _planned(_reader(_source(rowlock_server, timeout="2")))
    rowlock_server.kill()
    try:
        for attempt, waited in ((0, "2 s"), (1, "0.5 s"), (3, "0.5 s")):
            _task_of(monkeypatch, None, attempt)
            message = f"no rowlock server answered at {rowlock_server.address} within {waited}: "
            with pytest.raises(ServerUnavailableError, match=message):
                list(_batches(reader, partition))
    finally:
        rowlock_server.restart()


def test_a_missing_family_is_refused(rowlock_server: RowlockServer, table: str) -> None:
    with pytest.raises(
        FamilyNotFoundError, match="names 'g', which is not a family of table 'read'; its families are f"
    ):
        _source(rowlock_server, mapping="id STRING :key, a INT g:a").schema()


def test_options_that_are_invalid_for_reading_and_writing_are_refused_at_once(rowlock_server: RowlockServer) -> None:
    with pytest.raises(InvalidArgumentError, match="no option 'tabel'"):
        _source(rowlock_server, tabel="x")
    # Which of the two it will be is not known yet.
    with pytest.raises(
        InvalidArgumentError, match=r"'durabilty'; .*read options are server,.*write-only options .*durability"
    ):
        _source(rowlock_server, durabilty="os")


def test_an_inferred_mapping_is_pickled_with_the_dataframe(
    rowlock_server: RowlockServer, rowlock_client: Client, table: str
) -> None:
    source = DefaultSource({"server": rowlock_server.address, "table": "read", "infer": "5"})
    schema = source.schema()
    rowlock_client.table("read").put("0000", {"f:new": "x"})
    again: DefaultSource = pickle.loads(pickle.dumps(source))
    assert again.schema() == schema


def test_a_mapping_is_inferred_once_even_if_the_user_gives_the_schema(
    rowlock_server: RowlockServer, rowlock_client: Client, table: str
) -> None:
    """Spark then requests no schema, and plans with copies of the source."""
    source = DefaultSource({"server": rowlock_server.address, "table": "read", "infer": "5"})
    rowlock_client.table("read").put("0000", {"f:a": b"\xff"})
    again: DefaultSource = pickle.loads(pickle.dumps(source))
    given = StructType([StructField("row", StringType()), StructField("a", StringType())])
    assert len(_planned(_reader(again, given))[1]) == 1


def test_a_source_that_is_only_written_needs_no_inferred_mapping(rowlock_server: RowlockServer) -> None:
    options = {"server": rowlock_server.address, "table": "away", "infer": "5"}
    with pytest.raises(TableNotFoundError):
        DefaultSource(options).schema()


def test_there_are_as_many_parts_as_cores_or_a_multiple_of_them() -> None:
    def part_count(byte_count: int, core_count: int) -> int:
        return math.ceil(byte_count / suitable_part_bytes(byte_count, core_count))

    assert suitable_part_bytes(0, 2) == PART_BYTES_MIN
    assert part_count(PART_BYTES_MIN * 3, 8) == 3, "each has at least the smallest size"
    assert [part_count(PART_BYTES_MAX + extra, 2) for extra in (-7, 0, 7)] == [2, 2, 2]
    assert [part_count(PART_BYTES_MAX * 6 + extra, 3) for extra in (-7, 0, 7)] == [6, 6, 9]
