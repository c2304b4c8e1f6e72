"""Spark without a mapping of its own: it reads and writes by the one that the table keeps."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import rowlock
from rowlock.pytest_plugin import RowlockServer

from tests.spark.session import retried

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MAPPING = "user STRING :key, orders BIGINT count:orders, score DOUBLE model:score, at TIMESTAMP :timestamp"
_ROWS = [("alice", 7, 0.5), ("bob", 1, None)]
_NAMES = "user string, orders bigint, score double"


@pytest.fixture
def features(rowlock_client: rowlock.Client) -> rowlock.TypedTable[dict[str, Any]]:
    table = rowlock_client.create_table("fs", mapping=_MAPPING)
    for user, orders, score in _ROWS:
        table.put(user, {"orders": orders, "score": score})
    return table


@pytest.fixture
def write(rowlock_server: RowlockServer) -> Callable[..., None]:
    def written(frame: DataFrame, **options: str) -> None:
        writer = frame.write.format("rowlock").mode("append").option("server", rowlock_server.address)
        retried(lambda: writer.options(**options).save("fs"))

    return written


@pytest.fixture
def read(spark: SparkSession, rowlock_server: RowlockServer) -> Callable[..., list[tuple[Any, ...]]]:
    def found(**options: str) -> list[tuple[Any, ...]]:
        reader = spark.read.format("rowlock").option("server", rowlock_server.address).options(**options)
        return sorted(tuple(row) for row in retried(lambda: reader.load("fs").collect()))

    return found


def _refusal(action: Callable[[], object]) -> str:
    with pytest.raises(Exception) as raised:  # noqa: PT011  # Spark's errors are of many classes
        action()
    return str(raised.value)


def test_a_table_is_read_by_the_mapping_that_it_keeps(
    features: rowlock.TypedTable[dict[str, Any]], spark: SparkSession, read: Callable[..., list[tuple[Any, ...]]]
) -> None:
    """The column of the time is for writing only. Without a mapping there is the key and a map."""
    assert read() == _ROWS
    assert read(filter="orders > 5") == _ROWS[:1]
    assert read(timestamps="orders")[0][3] is not None
    assert read(mapping="u STRING :key, s DOUBLE model:score") == [("alice", 0.5), ("bob", None)]
    [alice, bob] = read(mapping="none")
    assert bytes(alice[0]) == b"alice"
    assert sorted(alice[1]) == ["count:orders", "model:score"]
    assert sorted(bob[1]) == ["count:orders"]


def test_a_view_is_typed_by_the_mapping_that_the_table_keeps(
    features: rowlock.TypedTable[dict[str, Any]], spark: SparkSession, rowlock_server: RowlockServer
) -> None:
    options = f"OPTIONS (server '{rowlock_server.address}', table 'fs', snapshot 'latest')"
    retried(lambda: spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW kept USING rowlock {options}"))
    retried(lambda: spark.sql("INSERT INTO kept VALUES ('carl', 3, 0.25)"))
    found = retried(lambda: spark.sql("SELECT sum(orders), max(score) FROM kept").collect())
    assert [tuple(row) for row in found] == [(11, 0.5)]
    assert features.row("carl") == {"orders": 3, "score": 0.25}
    spark.catalog.dropTempView("kept")


def test_a_dataframe_is_written_by_the_kept_mapping_and_may_have_some_of_its_columns(
    features: rowlock.TypedTable[dict[str, Any]], spark: SparkSession, write: Callable[..., None]
) -> None:
    write(spark.createDataFrame([("alice", 0.75), ("dora", 0.1)], "user string, Score double"))
    assert features.row("alice") == {"orders": 7, "score": 0.75}
    assert features.row("dora") == {"orders": None, "score": 0.1}
    wrong = spark.createDataFrame([("alice", 1)], "user string, ordres bigint")
    refusal = _refusal(lambda: write(wrong))
    assert "the DataFrame has also ordres" in refusal
    assert "the mapping that the table keeps has user, orders, score, at (did you mean orders for ordres?)" in refusal
    plain = spark.createDataFrame(
        [(b"eve", {"count:orders": bytes(7) + b"\x05"})], "row binary, columns map<string,binary>"
    )
    write(plain, mapping="none")
    assert features.row("eve") == {"orders": 5, "score": None}


def test_a_late_job_does_not_overwrite_newer_features(
    features: rowlock.TypedTable[dict[str, Any]], spark: SparkSession, write: Callable[..., None]
) -> None:
    late = datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)
    features.delete("alice")
    features.put("alice", {"orders": 20, "at": late})
    rows = [("alice", 10, late - datetime.timedelta(days=1)), ("bob", 11, late), ("carl", 12, None)]
    write(spark.createDataFrame(rows, "user string, orders bigint, At timestamp"))
    assert features.row("alice", ["orders"]) == {"orders": 20}
    # Bob was written just now, which is later.
    assert features.row("bob", ["orders"]) == {"orders": 1}
    assert features.row("carl", ["orders"]) == {"orders": 12}
    text = spark.createDataFrame([("alice", 1, "2024-01-03")], "user string, orders bigint, at string")
    assert "the column 'at' is string in the DataFrame and TIMESTAMP in the mapping" in _refusal(lambda: write(text))


def test_a_job_that_creates_a_table_lets_it_keep_the_mapping(
    rowlock_client: rowlock.Client,
    spark: SparkSession,
    write: Callable[..., None],
    read: Callable[..., list[tuple[Any, ...]]],
) -> None:
    frame = spark.createDataFrame(_ROWS, _NAMES)
    write(frame, mapping=_MAPPING, create="model,versions=3 count")
    assert rowlock_client.describe("fs").mapping_text == _MAPPING
    assert rowlock_client.describe("fs").families["model"].versions == 3
    assert read() == _ROWS
    # Again, now without a mapping; and with one that contradicts.
    write(frame, create="true")
    other = "user STRING :key, orders BIGINT count:orders, score DOUBLE model:score text"
    for options in ({"mapping": other}, {"mapping": other, "create": "true"}):
        refusal = _refusal(lambda: write(frame, **options))  # noqa: B023
        assert "model:score is DOUBLE binary, and not DOUBLE text" in refusal
    assert "does not agree with the one that table 'fs' keeps" in _refusal(lambda: read(mapping=other))
    assert "the key has one part, user, and not 2 parts" in _refusal(
        lambda: read(mapping="u STRING :key, v STRING :key, orders BIGINT count:orders")
    )


def test_a_table_that_keeps_no_mapping_needs_one(
    rowlock_client: rowlock.Client, spark: SparkSession, write: Callable[..., None]
) -> None:
    rowlock_client.create_table("fs", ["count", "model"])
    frame = spark.createDataFrame(_ROWS, _NAMES)
    assert "set the option mapping to map them to cells" in _refusal(lambda: write(frame))
    write(frame, mapping=_MAPPING, create="true")
    assert rowlock_client.describe("fs").mapping is None
    rowlock_client.drop_table("fs")
    assert "must name the families" in _refusal(lambda: write(frame, create="true"))


def test_widened_columns_are_read_filtered_and_written(
    features: rowlock.TypedTable[dict[str, Any]],
    rowlock_client: rowlock.Client,
    spark: SparkSession,
    write: Callable[..., None],
    read: Callable[..., list[tuple[Any, ...]]],
) -> None:
    rowlock_client.alter_table("fs", mapping=f"{_MAPPING}, n INT model:n, d DATE model:d")
    old = rowlock_client.typed_table("fs")
    old.put("alice", {"n": -5, "d": datetime.date(2024, 1, 1)})
    rowlock_client.alter_table("fs", mapping=f"{_MAPPING}, n BIGINT model:n, d TIMESTAMP model:d")
    later = datetime.datetime(2024, 1, 1, 5, tzinfo=datetime.UTC)
    write(spark.createDataFrame([("bob", 1 << 40, later)], "user string, n bigint, d timestamp"))
    by_n = {"alice": -5, "bob": 1 << 40}
    assert {row[0]: row[3] for row in read()} == by_n
    for text, users in (
        ("n < 0", ["alice"]),
        ("n = -5", ["alice"]),
        ("n IN (-5, 7)", ["alice"]),
        ("n > 4000000000", ["bob"]),
        ("n <> -5", ["bob"]),
        ("d = TIMESTAMP'2024-01-01 00:00:00Z'", ["alice"]),
        ("d > TIMESTAMP'2024-01-01 00:00:00Z'", ["bob"]),
    ):
        assert [row[0] for row in read(filter=text)] == users, text
    # A mapping that is given learns of the former type.
    assert read(mapping="user STRING :key, n BIGINT model:n", filter="n < 0") == [("alice", -5)]
    assert "it was widened" in _refusal(lambda: read(mapping="user STRING :key, n INT model:n"))


def test_a_dataframe_keeps_the_mapping_with_which_it_was_made(
    features: rowlock.TypedTable[dict[str, Any]],
    rowlock_client: rowlock.Client,
    spark: SparkSession,
    rowlock_server: RowlockServer,
) -> None:
    frame = retried(lambda: spark.read.format("rowlock").option("server", rowlock_server.address).load("fs"))
    rowlock_client.alter_table("fs", mapping=f"{_MAPPING}, n INT model:n")
    assert frame.columns == ["user", "orders", "score"]
    assert sorted(tuple(row) for row in retried(frame.collect)) == _ROWS
