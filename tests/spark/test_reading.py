from __future__ import annotations

import datetime
import decimal
import io
import math
import socket
import struct
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import rowlock
import rowlock.spark
from rowlock import Client
from rowlock.pytest_plugin import RowlockServer

from tests.spark.session import retried

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MAPPING = (
    "carrier STRING :key, flight INT :key ordered, delay INT info:delay, dest STRING info:dest, x DOUBLE info:x, "
    "day DATE info:day, at TIMESTAMP info:at"
)
# Whether Spark hands filters to Python sources.
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_AT = datetime.datetime(2013, 1, 1, 5, 15)
_MICROS = int(_AT.replace(tzinfo=datetime.UTC).timestamp()) * 1_000_000


def _key(carrier: str, flight: int) -> bytes:
    return carrier.encode() + b"|" + (flight + (1 << 31)).to_bytes(4, "big")


def _delay(minutes: int) -> bytes:
    return minutes.to_bytes(4, "big", signed=True)


class Flights:
    """A table of 200 flights of four carriers, in files and in memory, and the rows that Spark should read."""

    def __init__(self, server: RowlockServer, client: Client) -> None:
        self.server = server
        self.client = client
        self.table = client.create_table("flights", {"info": rowlock.Family()})
        self.rows: list[tuple[Any, ...]] = []
        with self.table.batch() as batch:
            for number in range(200):
                carrier, flight = ("AA", "DL", "UA", "ÖS")[number // 50], number % 50 - 20
                data: dict[str, bytes | str] = {"info:dest": ("JFK", "LGA")[number % 2]}
                delay = None if number % 5 == 0 else number - 100
                if delay is not None:
                    data["info:delay"] = _delay(delay)
                x = (None, float("nan"), -0.0, number / 8)[number % 4]
                if x is not None:
                    data["info:x"] = struct.pack(">d", x)
                at = _AT + datetime.timedelta(hours=number)
                data["info:at"] = (_MICROS + number * 3_600_000_000).to_bytes(8, "big")
                data["info:day"] = (at.date() - datetime.date(1970, 1, 1)).days.to_bytes(4, "big")
                batch.put(_key(carrier, flight), data)
                self.rows.append((carrier, flight, delay, data["info:dest"], _comparable(x), at.date(), at))
                if number == 100:
                    batch.send()
                    client.flush("flights")

    def reader(self, spark: SparkSession, **options: str) -> Any:  # Any: Spark's reader, of either kind of session
        return spark.read.format("rowlock").options(server=self.server.address, mapping=_MAPPING, **options)

    def load(self, spark: SparkSession, **options: str) -> DataFrame:
        frame: DataFrame = retried(lambda: self.reader(spark, **options).load("flights"))
        return frame


@pytest.fixture(scope="module")
def flights(rowlock_server: RowlockServer) -> Iterator[Flights]:
    with rowlock.connect(rowlock_server.address) as client:
        yield Flights(rowlock_server, client)
        client.drop_table("flights")


def _tuples(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(map(_comparable, row)) for row in retried(frame.collect)), key=repr)


def _comparable(value: Any) -> Any:
    """Returns NaN, which does not equal itself, as a text."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def _sorted(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


def test_a_table_is_read_as_it_is_mapped(spark: SparkSession, flights: Flights) -> None:
    frame = flights.load(spark, partition_bytes="4096")
    assert _tuples(frame) == _sorted(flights.rows)
    assert frame.rdd.getNumPartitions() > 1
    assert retried(flights.load(spark).limit(3).count) == 3


def test_bounds_and_conditions_choose_rows(spark: SparkSession, flights: Flights) -> None:
    for options, expected in (
        ({"prefix": "UA|"}, [row for row in flights.rows if row[0] == "UA"]),
        ({"start": "DL", "stop": r"UA|\x80"}, [r for r in flights.rows if r[0] == "DL" or (r[0] == "UA" and r[1] < 0)]),
        (
            {"where": "info:delay as int > 50 and info:dest = JFK"},
            [row for row in flights.rows if row[2] is not None and row[2] > 50 and row[3] == "JFK"],
        ),
        ({"prefix": "none"}, []),
    ):
        assert expected or options == {"prefix": "none"}
        assert _tuples(flights.load(spark, **options)) == _sorted(expected), options


def test_a_schema_narrows_the_columns_and_not_the_rows(spark: SparkSession, flights: Flights) -> None:
    frame = flights.reader(spark, timestamps="dest").schema("delay INT, flight INT").load("flights")
    assert _tuples(frame) == _sorted([(row[2], row[1]) for row in flights.rows])
    keys = flights.reader(spark).schema("Carrier STRING").load("flights")
    assert keys.columns == ["Carrier"]
    assert {row["Carrier"] for row in retried(keys.collect)} == {row[0] for row in flights.rows}
    assert retried(keys.count) == 200


def test_rows_are_counted_from_their_keys(spark: SparkSession, flights: Flights) -> None:
    def count(**options: str) -> int:
        given = {"server": flights.server.address, "partition_bytes": "4096", **options}
        return retried(lambda: rowlock.spark.count(spark, "flights", **given))

    assert count() == 200
    assert count(mapping=_MAPPING, filter="delay > 50") == len([row for row in flights.rows if (row[2] or 0) > 50])
    assert count(prefix="none") == count(mapping=_MAPPING, filter="carrier = 'UA' AND carrier = 'DL'") == 0


def test_timestamps_are_columns_on_request(spark: SparkSession, rowlock_server: RowlockServer) -> None:
    with rowlock.connect(rowlock_server.address) as client:
        table = client.create_table("timed", {"info": rowlock.Family()})
        millis = int(_AT.replace(tzinfo=datetime.UTC).timestamp() * 1000)
        table.put(_key("UA", 1), {"info:delay": _delay(5)}, timestamp=millis)
        reader = spark.read.format("rowlock").options(server=rowlock_server.address, mapping=_MAPPING)
        frame = (
            reader.option("timestamps", "*").load("timed").select("delay_timestamp", "dest_timestamp", "x_timestamp")
        )
        assert _tuples(frame) == [(_AT, None, None)]
        client.drop_table("timed")


def test_without_a_mapping_a_row_is_its_key_and_a_map(spark: SparkSession, flights: Flights) -> None:
    frame = spark.read.format("rowlock").options(server=flights.server.address, prefix="UA|").load("flights")
    assert frame.schema.simpleString() == "struct<row:binary,columns:map<string,binary>>"
    found = {bytes(row["row"]): row["columns"] for row in retried(frame.collect)}
    assert found[_key("UA", 1)] == {
        "info:delay": _delay(21),
        "info:dest": b"LGA",
        "info:x": struct.pack(">d", float("nan")),
        "info:at": (_MICROS + 121 * 3_600_000_000).to_bytes(8, "big"),
        "info:day": (15711).to_bytes(4, "big"),
    }
    assert len(found) == 50


def test_infer_makes_a_mapping_of_the_columns_seen(spark: SparkSession, flights: Flights) -> None:
    reader = spark.read.format("rowlock").options(server=flights.server.address)
    frame = reader.option("infer", "10").load("flights")
    assert frame.schema.simpleString() == "struct<row:binary,at:binary,day:binary,delay:binary,dest:string,x:binary>"
    assert retried(frame.where("dest = 'JFK'").count) == 100
    with pytest.raises(Exception, match="has no rows to infer a mapping from"):
        reader.options(infer="10", prefix="none").load("flights")


def test_malformed_bytes_fail_with_row_and_column_or_are_nulls(
    spark: SparkSession, rowlock_server: RowlockServer
) -> None:
    with rowlock.connect(rowlock_server.address) as client:
        table = client.create_table("malformed", {"info": rowlock.Family()})
        table.put(_key("UA", 1), {"info:delay": b"five", "info:dest": "JFK"})
        table.put(_key("UA", 2), {"info:delay": b"many", "info:dest": b"\xff"})
        table.put(b"UA", {"info:delay": b"x", "info:dest": "JFK"})
        reader = spark.read.format("rowlock").options(server=rowlock_server.address, mapping=_MAPPING)
        with pytest.raises(Exception, match=r"is not a key of Mapping.*malformed=null"):
            retried(reader.load("malformed").collect)
        with pytest.raises(Exception, match=r"column 'dest' \(info:dest\) of row .*UA.* can't be read as STRING"):
            retried(reader.option("prefix", "UA|").load("malformed").collect)
        frame = reader.options(malformed="null", prefix="").load("malformed")
        rest = (None, None, None)
        five, many = int.from_bytes(b"five", "big"), int.from_bytes(b"many", "big")
        expected = [("UA", 1, five, "JFK", *rest), ("UA", 2, many, None, *rest), (None, None, None, "JFK", *rest)]
        assert _tuples(frame) == _sorted(expected)
        client.drop_table("malformed")


def test_all_scans_of_a_dataframe_see_one_moment(spark: SparkSession, rowlock_server: RowlockServer) -> None:
    with rowlock.connect(rowlock_server.address) as client:
        table = client.create_table("moments", {"info": rowlock.Family()})
        for number in range(10):
            table.put(_key("UA", number), {"info:delay": _delay(number)})
        reader = spark.read.format("rowlock").options(server=rowlock_server.address, mapping=_MAPPING)
        frame = reader.load("moments")
        latest = reader.option("snapshot", "latest").load("moments")
        latest.createOrReplaceTempView("moments_latest")
        assert retried(frame.count) == 10
        table.delete(_key("UA", 0))
        table.put(_key("UA", 1), {"info:delay": _delay(-1)})
        table.put(_key("UA", 99), {"info:delay": _delay(99)})
        client.flush("moments")
        assert retried(frame.where("delay = 1").count) == 1
        other = frame.select("flight", frame.delay.alias("other")).where("other >= 0")
        assert retried(frame.join(other, "flight").where("delay = other").count) == 10
        assert retried(spark.sql("SELECT count(*) FROM moments_latest WHERE delay = 99").collect)[0][0] == 1
        with rowlock.spark.snapshot(spark, "moments", server=rowlock_server.address) as moment:
            table.delete(_key("UA", 99))
            held = reader.option("snapshot", moment.id).load("moments")
            assert retried(held.where("delay = 99").count) == 1
        with pytest.raises(Exception, match=r"its with block ended.*rowlock\.spark\.snapshot"):
            retried(held.where("delay = 98").collect)
        client.truncate_table("moments")
        with pytest.raises(Exception, match="has ended"):
            retried(frame.where("delay = 3").collect)
        empty = reader.option("snapshot", "latest").load("moments")
        assert _tuples(empty) == []
        client.drop_table("moments")


def test_a_named_snapshot_is_read_by_an_option(spark: SparkSession, rowlock_server: RowlockServer) -> None:
    with rowlock.connect(rowlock_server.address) as client:
        table = client.create_table("named", {"info": rowlock.Family()})
        for flight in range(40):
            table.put(_key("UA", flight), {"info:delay": _delay(flight)})
        client.create_snapshot("noon", "named")
        client.create_table("other", {"info": rowlock.Family()})

        def reader() -> Any:  # Any: Spark's reader, of either kind of session
            options = {"server": rowlock_server.address, "mapping": _MAPPING, "snapshot": "@noon"}
            return spark.read.format("rowlock").options(**options)

        frame = reader().load("named")
        assert retried(frame.count) == 40
        for flight in range(40):
            table.put(_key("UA", flight), {"info:delay": _delay(-1)})
        expected = [("UA", flight, flight) for flight in range(40)]
        chosen = ("carrier", "flight", "delay")
        assert sorted(map(tuple, retried(frame.select(*chosen).collect))) == expected
        with pytest.raises(Exception, match="is of table 'named', not of 'other'"):
            reader().load("other")
        with pytest.raises(Exception, match="there is no named snapshot 'absent'"):
            reader().option("snapshot", "@absent").load()
        client.drop_table("named")
        assert retried(reader().load().where("delay >= 30").count) == 10
        assert retried(spark.read.format("rowlock").options(server=rowlock_server.address).load("@noon").count) == 40
    rowlock_server.restart()
    assert sorted(map(tuple, retried(frame.select(*chosen).collect))) == expected
    with rowlock.connect(rowlock_server.address) as client:
        client.drop_snapshot("noon")
        client.drop_table("other")


def test_each_query_of_a_latest_view_or_dataframe_sees_what_is_there_when_it_begins(
    spark: SparkSession, rowlock_server: RowlockServer
) -> None:
    with rowlock.connect(rowlock_server.address) as client:
        table = client.create_table("now", {"info": rowlock.Family()})
        options = {"server": rowlock_server.address, "table": "now", "mapping": _MAPPING, "snapshot": "latest"}
        written = ", ".join(f"{name} '{value}'" for name, value in options.items())
        table.put(_key("UA", 0), {"info:delay": _delay(0)})
        there, was_set = 1, spark.conf.get(_PUSHDOWN) or "false"
        try:
            for pushes in ("false", "true"):
                spark.conf.set(_PUSHDOWN, pushes)
                spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW now_view USING rowlock OPTIONS ({written})")
                frame = spark.read.format("rowlock").options(**options).load()
                both = "SELECT count(*) FROM now_view a JOIN now_view b ON a.flight = b.flight"
                for _ in range(2):
                    for query in (spark.table("now_view"), frame):
                        assert retried(query.count) == there
                        assert len(retried(query.where("delay >= 0").collect)) == there
                        assert len(retried(lambda: list(query.toLocalIterator()))) == there  # noqa: B023
                    assert retried(spark.sql(both).collect)[0][0] == there
                    table.put(_key("UA", there), {"info:delay": _delay(there)})
                    there += 1
            rowlock_server.restart()
            assert retried(spark.table("now_view").count) == there
            assert retried(frame.count) == there
        finally:
            spark.conf.set(_PUSHDOWN, was_set)
        client.drop_table("now")


def test_a_dataframe_does_not_outlive_its_server(spark: SparkSession, flights: Flights) -> None:
    before = flights.load(spark)
    flights.server.restart()
    with pytest.raises(Exception, match="or the server restarted"):
        retried(before.collect)
    assert retried(flights.load(spark).count) == 200


def test_what_cannot_be_read_is_refused_when_the_dataframe_is_made(spark: SparkSession, flights: Flights) -> None:
    with pytest.raises(
        Exception, match=r"names 'infos', which is not a family of table 'flights'; its families are info"
    ):
        flights.reader(spark).option("mapping", "id STRING :key, delay INT infos:delay").load("flights")
    with pytest.raises(Exception, match="no_such_table"):
        flights.reader(spark).load("no_such_table")
    with pytest.raises(Exception, match="no option 'tabel'"):
        flights.load(spark, tabel="flights")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        gone = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(Exception, match=f"no rowlock server answered at {gone}.*Is it running"):
            flights.reader(spark).options(server=gone, timeout="1").load("flights")


# Of SQL, and whether the server evaluates them.
_CONDITIONS = [
    ("carrier = 'UA' AND flight BETWEEN -3 AND 3", True),
    ("carrier IN ('AA', 'ÖS') AND flight < 0", True),
    ("carrier = 'UA' AND delay NOT IN (20, 21, 22) AND dest = 'LGA'", True),
    # Text in front of other parts of a key is not in the order of its bytes.
    ("carrier > 'DL'", False),
    ("NOT (delay <=> 20) AND carrier LIKE 'U%'", False),
    ("delay <> 20 AND carrier LIKE 'U%'", True),
    ("delay IS NULL AND dest <> 'JFK'", True),
    ("x IS NULL AND delay < -90 AND dest LIKE '%F%'", True),
    ("x < 5 AND day = DATE'2013-01-03'", True),
    ("x > 5", False),
    ("x <= 0 AND x = 0 AND at >= TIMESTAMP'2013-01-04 12:15:00Z'", True),
    ("delay = 20 OR delay = 21", False),
    ("flight % 7 = 0 AND carrier = 'UA'", False),
    ("carrier = 'UA' AND carrier = 'DL'", True),
]


def test_a_filter_of_the_server_gives_what_spark_s_gives(spark: SparkSession, flights: Flights) -> None:
    plain = flights.load(spark)
    for text, is_the_server_s in _CONDITIONS:
        if not is_the_server_s:
            with pytest.raises(Exception, match=r"\.where\("):
                flights.load(spark, filter=text)
            continue
        expected = _tuples(plain.where(text))
        assert _tuples(flights.load(spark, filter=text)) == expected, text
        assert expected or "'DL'" in text


@pytest.mark.parametrize("spark_pushes", ["false", "true"])
def test_no_query_of_a_dataframe_or_view_is_read_by_the_filters_of_another(
    spark: SparkSession, flights: Flights, spark_pushes: str
) -> None:
    """Even in a session that pushes filters into Python for another source."""
    from pyspark.sql import functions as F  # noqa: N812

    rows = [row for row in flights.rows if row[2] is not None and row[2] > 15]
    to_jfk = [row for row in rows if row[3] == "JFK"]
    planes = spark.createDataFrame([("UA", "boeing")], "carrier string, maker string")
    spark.conf.set(_PUSHDOWN, spark_pushes)
    try:
        whole = flights.load(spark)
        assert retried(whole.where("carrier = 'UA' AND flight = 1").count) == 1
        assert retried(whole.count) == 200
        frame = flights.load(spark, filter="delay > 15")
        narrow = frame.where("dest = 'JFK'")
        assert _tuples(narrow) == _sorted(to_jfk)
        assert _tuples(frame) == _sorted(rows)
        assert _tuples(narrow.union(frame)) == _sorted(rows + to_jfk)
        assert retried(frame.join(F.broadcast(planes), "carrier").count) == len([r for r in rows if r[0] == "UA"])
        assert _tuples(frame.groupBy("dest").count().where("dest = 'JFK'")) == [("JFK", len(to_jfk))]
        frame.createOrReplaceTempView("filtered")
        options = f"server '{flights.server.address}', table 'flights', mapping '{_MAPPING}', filter 'delay > 15'"
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW made USING rowlock OPTIONS ({options})")
        for view in ("filtered", "made"):
            for condition, count in (("dest = 'JFK'", len(to_jfk)), ("true", len(rows))):
                found = retried(spark.sql(f"SELECT count(*) FROM {view} WHERE {condition}").collect)
                assert found[0][0] == count, (view, condition)
    finally:
        spark.conf.unset(_PUSHDOWN)
        spark.catalog.dropTempView("filtered")
        spark.catalog.dropTempView("made")


def test_spark_s_plan_has_no_filter_for_what_the_option_leaves_out(spark: SparkSession, flights: Flights) -> None:
    filtered = flights.load(spark, filter="delay > 15")
    assert "Filter" not in _plan(filtered)
    assert "Filter (isnotnull(dest" in _plan(filtered.where("dest = 'JFK'"))


def _plan(frame: DataFrame) -> str:
    """The optimized one."""
    with redirect_stdout(io.StringIO()) as told:
        frame.explain(extended=True)
    _, _, plans = told.getvalue().partition("== Optimized Logical Plan ==")
    optimized, found, _ = plans.partition("== Physical Plan ==")
    assert found, told.getvalue()
    return optimized


def test_a_filter_that_spark_would_push_is_refused_as_an_option(spark: SparkSession, flights: Flights) -> None:
    with pytest.raises(Exception, match="no option 'pushdown'"):
        flights.load(spark, pushdown="true")
    options = f"server '{flights.server.address}', table 'flights', mapping '{_MAPPING}', pushdown 'true'"
    with pytest.raises(Exception, match="no option 'pushdown'"):
        spark.sql(f"CREATE TEMPORARY VIEW pushing USING rowlock OPTIONS ({options})")


def test_filters_on_long_decimals_are_exact(
    spark: SparkSession, rowlock_server: RowlockServer, rowlock_client: Client
) -> None:
    options = {"server": rowlock_server.address, "table": "long", "mapping": "k DECIMAL(38,2) :key ordered, v INT f:v"}
    rows = [(decimal.Decimal(unscaled).scaleb(-2, decimal.Context(40)), unscaled % 100) for unscaled in _LONG]
    rowlock_client.create_table("long", ["f"]).put_arrow(
        pa.table(
            {"k": pa.array([k for k, _ in rows], pa.decimal128(38, 2)), "v": pa.array([v for _, v in rows], pa.int32())}
        ),
        mapping=options["mapping"],
    )
    for text, expected in (
        (f"k = {rows[1][0]}", rows[1:2]),
        (f"k > {rows[1][0]}", rows[2:]),
        (f"k IN ({rows[0][0]}, {rows[2][0]})", [rows[0], rows[2]]),
    ):
        frame = retried(lambda: spark.read.format("rowlock").options(**options, filter=text).load())  # noqa: B023
        assert _tuples(frame) == _sorted(expected), text


_LONG = [12345678901234567890123456789012345670 + number for number in range(4)]


def test_views_keep_their_options_and_tables_say_that_they_do_not(
    spark: SparkSession, flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROWLOCK_SERVER", raising=False)
    options = f"server '{flights.server.address}', table 'flights', mapping '{_MAPPING}'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW flights_view USING rowlock OPTIONS ({options}, snapshot 'latest')")
    assert retried(spark.sql("SELECT count(*) FROM flights_view WHERE carrier = 'UA'").collect)[0][0] == 50
    spark.sql(f"CREATE TABLE flights_table USING rowlock OPTIONS ({options})")
    try:
        with pytest.raises(Exception, match=r"SELECT \* FROM t WITH.*CREATE TEMPORARY VIEW"):
            retried(spark.sql("SELECT * FROM flights_table").collect)
        given = ", ".join(
            f"'{word}' = {value}"
            for word, value in (
                part.split(" ", 1)
                for part in [f"server '{flights.server.address}'", "table 'flights'", f"mapping '{_MAPPING}'"]
            )
        )
        assert retried(spark.sql(f"SELECT count(*) FROM flights_table WITH ({given})").collect)[0][0] == 200
    finally:
        spark.sql("DROP TABLE flights_table")


def test_scans_that_are_left_early_are_closed(spark: SparkSession, flights: Flights) -> None:
    frame = flights.load(spark, batch_bytes="512")
    assert len(retried(lambda: frame.take(1))) == 1
