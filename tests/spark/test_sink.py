"""df.write.format("rowlock") and INSERT INTO, by Spark itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import rowlock
from rowlock.pytest_plugin import RowlockServer

from tests.spark.session import retried

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_MAPPING = "id STRING :key, delay INT info:delay, `from` STRING info:from"
_SCHEMA = "id STRING, delay INT, `from` STRING"


@pytest.fixture
def table(rowlock_client: rowlock.Client) -> rowlock.Table[bytes]:
    return rowlock_client.create_table("t", ["info"])


@pytest.fixture
def writer(rowlock_server: RowlockServer) -> Callable[..., DataFrameWriter]:
    """Makes the writer of a DataFrame to table t, as a user does."""

    def made(frame: DataFrame, **options: Any) -> DataFrameWriter:
        given = {"server": rowlock_server.address, "table": "t", "mapping": _MAPPING, **options}
        return frame.write.format("rowlock").mode("append").options(**given)

    return made


def _refusal(action: Callable[[], object]) -> str:
    """Returns the error that a Spark user sees."""
    from pyspark.errors import PySparkException

    def tried() -> str:
        with pytest.raises(PySparkException) as raised:
            action()
        message = str(raised.value)
        if "connect back" in message:
            raise raised.value
        return message

    return retried(tried)


def test_a_dataframe_of_every_type_is_written_with_a_timestamp_for_each_batch_of_a_task(
    spark: SparkSession,
    rowlock_server: RowlockServer,
    rowlock_client: rowlock.Client,
    writer: Callable[..., DataFrameWriter],
) -> None:
    """It reads back through the mapping with the same values."""
    from pyspark.sql.functions import expr

    columns = {
        "id": ("format_string('%05d', id)", "STRING :key"),
        "binary": ("encode(CAST(id AS STRING), 'utf-8')", "BINARY f:binary"),
        "string": ("IF(id % 3 = 0, NULL, concat('é', id))", "STRING f:string"),
        "boolean": ("id % 2 = 0", "BOOLEAN f:boolean"),
        "tiny": ("CAST(id % 100 AS TINYINT)", "TINYINT f:tiny"),
        "small": ("CAST(-id AS SMALLINT)", "SMALLINT f:small"),
        "int": ("CAST(id AS INT)", "INT f:int text"),
        "big": ("id << 33", "BIGINT f:big"),
        "float": ("CAST(id / 4 AS FLOAT)", "FLOAT f:float"),
        "double": ("CAST(id / 3 AS DOUBLE)", "DOUBLE f:double"),
        "decimal": ("CAST(id / 8 AS DECIMAL(10,2))", "DECIMAL(10,2) f:decimal"),
        "date": ("date_add(DATE'2013-01-01', CAST(id AS INT))", "DATE f:date"),
        "timestamp": ("timestamp_micros(id * 1000001)", "TIMESTAMP f:timestamp"),
    }
    mapping = ", ".join(f"{name} {mapped}" for name, (_, mapped) in columns.items())
    # In another order than the mapping's.
    chosen = [expr(made).alias(name) for name, (made, _) in reversed(columns.items())]
    frame = spark.range(0, 300, numPartitions=3).select(*chosen)
    retried(lambda: writer(frame, mapping=mapping, create="true", batch_bytes=2048).save())
    stored = rowlock_client.table("t").scan().to_arrow(mapping)
    expected = retried(frame.orderBy("id").toArrow).select(list(columns))
    assert stored.num_rows == 300
    for name in columns:
        assert stored.column(name).to_pylist() == expected.column(name).to_pylist(), name
    # All tasks begin at the same one.
    timestamps = sorted({cell.timestamp for cell in rowlock_client.table("t").scan().cells()})
    assert timestamps == list(range(timestamps[0], timestamps[0] + len(timestamps)))
    assert rowlock_client.table("t").cells("00000", "f:binary")[0][1] == timestamps[0]
    assert rowlock_client.table("t").cells("00200", "f:binary")[0][1] == timestamps[0]


def test_maps_are_written_into_the_table_that_save_names(
    spark: SparkSession, table: rowlock.Table[bytes], rowlock_server: RowlockServer
) -> None:
    frame = spark.createDataFrame(
        [(b"r1", {"info:a": b"1", r"info:\x00": b"2", "info:n": None}), (b"r2", None)],
        "row BINARY, columns MAP<STRING, BINARY>",
    )
    write = frame.write.format("rowlock").mode("append").option("server", rowlock_server.address)
    retried(lambda: write.save("t"))
    assert list(table.scan()) == [(b"r1", {b"info:\0": b"2", b"info:a": b"1"})]


def test_views_and_tables_are_inserted_into(
    spark: SparkSession, table: rowlock.Table[bytes], rowlock_server: RowlockServer
) -> None:
    options = f"server '{rowlock_server.address}', table 't', mapping '{_MAPPING}'"
    view = f"TEMPORARY VIEW sink_view ({_SCHEMA}) USING rowlock OPTIONS ({options}, snapshot 'latest')"
    retried(lambda: spark.sql(f"CREATE OR REPLACE {view}"))
    retried(lambda: spark.sql(f"CREATE TABLE IF NOT EXISTS sink_table ({_SCHEMA}) USING rowlock OPTIONS ({options})"))
    try:
        retried(lambda: spark.sql("INSERT INTO sink_view VALUES ('v', 5, 'JFK')"))
        with_options = options.replace(" '", " = '")
        retried(lambda: spark.sql(f"INSERT INTO sink_table WITH ({with_options}) SELECT 'w', 6, 'LGA'"))
        message = _refusal(lambda: spark.sql("INSERT INTO sink_table VALUES ('x', 7, 'EWR')"))
        assert "INSERT INTO t WITH" in message
    finally:
        spark.sql("DROP VIEW sink_view")
        spark.sql("DROP TABLE sink_table")
    assert list(table.scan()) == [
        (b"v", {b"info:delay": b"\0\0\0\x05", b"info:from": b"JFK"}),
        (b"w", {b"info:delay": b"\0\0\0\x06", b"info:from": b"LGA"}),
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "BEGIN INSERT INTO scripted VALUES ('s', 5, 'JFK'); END",
        "EXECUTE IMMEDIATE \"INSERT INTO scripted VALUES ('s', 5, 'JFK')\"",
    ],
)
def test_a_script_of_sql_inserts(
    spark: SparkSession, table: rowlock.Table[bytes], rowlock_server: RowlockServer, statement: str
) -> None:
    """It is not a nested query, as those that create a catalog table are."""
    given = f"server '{rowlock_server.address}', table 't', mapping '{_MAPPING}'"
    retried(lambda: spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW scripted USING rowlock OPTIONS ({given})"))
    try:
        retried(lambda: spark.sql(statement))
        assert [row for row, _ in table.scan()] == [b"s"]
    finally:
        spark.catalog.dropTempView("scripted")


def test_a_view_is_overwritten(spark: SparkSession, table: rowlock.Table[bytes], rowlock_server: RowlockServer) -> None:
    given = f"server '{rowlock_server.address}', table 't', mapping '{_MAPPING}', snapshot 'latest'"
    retried(lambda: spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW replaced ({_SCHEMA}) USING rowlock OPTIONS ({given})"))
    try:
        retried(lambda: spark.sql("INSERT INTO replaced VALUES ('a', 1, 'JFK'), ('b', 2, 'LGA')"))
        # It reads what it replaces.
        retried(
            lambda: spark.sql("INSERT OVERWRITE replaced SELECT id, delay + 10, 'EWR' FROM replaced WHERE id > 'a'")
        )
    finally:
        spark.catalog.dropTempView("replaced")
    assert list(table.scan()) == [(b"b", {b"info:delay": b"\0\0\0\x0c", b"info:from": b"EWR"})]


def test_a_job_in_mode_overwrite_replaces_all_rows_or_none(
    spark: SparkSession,
    table: rowlock.Table[bytes],
    rowlock_client: rowlock.Client,
    writer: Callable[..., DataFrameWriter],
) -> None:
    table.put(b"old", {"info:delay": b"\0\0\0\1"})
    before = list(table.scan())
    frame = spark.range(0, 200, 1, 4).selectExpr("cast(id as string) id", "cast(id as int) delay", "'JFK' from")
    failing = frame.selectExpr("id", "if(id = '199', raise_error('a bad row'), delay) delay", "from")
    assert "a bad row" in _refusal(writer(failing).mode("overwrite").save)
    assert (list(table.scan()), rowlock_client.sessions()) == (before, [])
    retried(lambda: writer(frame).mode("overwrite").save())
    assert sorted(row for row, _ in table.scan()) == sorted(b"%d" % number for number in range(200))
    assert rowlock_client.sessions() == []


def test_invalid_writes_are_refused_before_the_job(
    spark: SparkSession, table: rowlock.Table[bytes], writer: Callable[..., DataFrameWriter]
) -> None:
    frame = spark.createDataFrame([("a", 1, "x")], _SCHEMA)
    # Spark's own: it has to know whether there is data already.
    assert "UNSUPPORTED_DATA_SOURCE_SAVE_MODE" in _refusal(writer(frame).mode("errorifexists").save)
    assert "UNSUPPORTED_DATA_SOURCE_SAVE_MODE" in _refusal(writer(frame).mode("ignore").save)
    assert "lacks from and has also dest" in _refusal(writer(frame.withColumnRenamed("from", "dest")).save)
    timed = frame.selectExpr("id", "TIMESTAMP_NTZ'2013-03-10 02:30:00' at")
    message = _refusal(writer(timed, mapping="id STRING :key, at TIMESTAMP info:at").save)
    assert "F.col('at').cast('timestamp')" in message
    assert "option 'nul'" in _refusal(writer(frame, nul="skip").save)
    assert "no table 'u'" in _refusal(writer(frame, table="u").save)
    assert list(table.scan()) == []


def _entries(spark: SparkSession) -> set[str]:
    return {table.name for table in spark.catalog.listTables() if not table.isTemporary}


@pytest.mark.parametrize("mode", ["errorifexists", "ignore", "append"])
def test_a_catalog_table_is_not_created_and_nothing_is_written(
    spark: SparkSession, table: rowlock.Table[bytes], writer: Callable[..., DataFrameWriter], mode: str
) -> None:
    """It could not be read, and Spark does not pass the mode: an existing table was appended to in every mode."""
    table.put("there", {"info:from": "before"})
    frame = spark.createDataFrame([("a", 1, "x")], _SCHEMA)
    message = _refusal(lambda: writer(frame).mode(mode).saveAsTable("made"))
    assert "rowlock can't create tables in Spark's catalog" in message
    assert "made" not in _entries(spark)
    assert [row for row, _ in table.scan()] == [b"there"]


def test_other_ways_to_create_a_catalog_table_are_refused(
    spark: SparkSession, table: rowlock.Table[bytes], rowlock_server: RowlockServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"server": rowlock_server.address, "table": "t", "mapping": _MAPPING}
    frame = spark.createDataFrame([("a", 1, "x")], _SCHEMA)
    message = _refusal(lambda: frame.writeTo("made").using("rowlock").options(**options).create())
    assert "rowlock can't create tables in Spark's catalog" in message
    written = ", ".join(f"{name} '{value}'" for name, value in options.items())
    message = _refusal(lambda: spark.sql(f"CREATE TABLE made USING rowlock OPTIONS ({written}) AS SELECT 'a' id"))
    assert "no server is given" in message
    assert "made" not in _entries(spark)
    assert list(table.scan()) == []


def test_an_existing_entry_is_written_to_in_the_given_mode(
    spark: SparkSession, table: rowlock.Table[bytes], writer: Callable[..., DataFrameWriter]
) -> None:
    frame = spark.createDataFrame([("a", 1, "x")], _SCHEMA)
    spark.sql(f"CREATE TABLE entry ({_SCHEMA}) USING rowlock")
    try:
        assert "already exists" in _refusal(lambda: writer(frame).mode("errorifexists").saveAsTable("entry"))
        writer(frame).mode("ignore").saveAsTable("entry")
        assert list(table.scan()) == []
        retried(lambda: writer(frame).mode("append").saveAsTable("entry"))
        assert [row for row, _ in table.scan()] == [b"a"]
    finally:
        spark.sql("DROP TABLE entry")


def test_a_stream_is_written_by_foreach_batch_and_not_by_a_sink(
    spark: SparkSession, table: rowlock.Table[bytes], rowlock_server: RowlockServer, tmp_path: Path
) -> None:
    options = {"server": rowlock_server.address, "table": "t", "mapping": _MAPPING}
    (tmp_path / "in").mkdir()
    spark.createDataFrame([("a", 1, "x")], _SCHEMA).coalesce(1).write.mode("append").json(str(tmp_path / "in"))
    stream = spark.readStream.schema(_SCHEMA).json(str(tmp_path / "in")).writeStream.trigger(availableNow=True)

    def ended(query: StreamingQuery) -> str:
        """Returns the error of a query; empty without one."""
        try:
            query.awaitTermination()
        except Exception as error:
            return str(error)
        return ""

    sink = stream.format("rowlock").options(**options, checkpointLocation=str(tmp_path / "refused"))
    message = retried(lambda: ended(sink.start()))
    assert "no streaming source or sink: write a stream with .writeStream.foreachBatch(...)" in message
    source = spark.readStream.format("rowlock").options(**options).load()
    message = ended(source.writeStream.format("memory").queryName("refused").trigger(availableNow=True).start())
    assert "no streaming source or sink" in message

    def each(batch: DataFrame, number: int) -> None:
        batch.write.format("rowlock").mode("append").options(**options).save()

    assert ended(stream.option("checkpointLocation", str(tmp_path / "taken")).foreachBatch(each).start()) == ""
    assert [row for row, _ in table.scan()] == [b"a"]


def test_column_names_are_compared_by_the_session_s_rule(
    spark: SparkSession, table: rowlock.Table[bytes], writer: Callable[..., DataFrameWriter]
) -> None:
    frame = spark.createDataFrame([("a", 1, "x")], "ID STRING, Delay INT, `from` STRING")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        message = _refusal(writer(frame).save)
        assert (
            "columns ID, Delay differ from the mapping in letter case, and spark.sql.caseSensitive is true" in message
        )
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert list(table.scan()) == []
    retried(writer(frame).save)
    assert list(table.scan()) == [(b"a", {b"info:delay": b"\0\0\0\x01", b"info:from": b"x"})]


def test_the_error_of_a_job_names_the_row_and_says_that_rows_stay(
    spark: SparkSession,
    table: rowlock.Table[bytes],
    writer: Callable[..., DataFrameWriter],
) -> None:
    frame = spark.createDataFrame([("a", 1, "x"), (None, 2, "y")], _SCHEMA).coalesce(1)
    message = _refusal(writer(frame, batch_bytes=1).save)
    assert "a row of partition 0 can't be written: the key column 'id' is null" in message
    assert "The rows that the job has written stay" in message
    # The user's traceback alone, and not what led to it inside.
    assert message.count("Traceback") == 1
    assert [row for row, _ in table.scan()] == [b"a"]
