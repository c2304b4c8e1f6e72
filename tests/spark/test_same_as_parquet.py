"""A query of a table has the same result as a query of a Parquet file with the same rows, for every mapping."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import rowlock
from rowlock.pytest_plugin import RowlockServer

from tests.drawn_cases import drawn
from tests.spark.session import retried

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Columns of three families. No row is without all of them: a table has no row without a cell.
_COLUMNS = {"delay": "INT info:delay", "dest": "STRING info:dest", "seen": "BIGINT count:seen", "note": "STRING x:note"}
_ROWS = [
    ("a", 11, "IAH", None, None),
    ("b", None, "IAH", 3, None),
    ("c", None, None, None, "late"),
    ("d", None, None, 4, None),
    ("e", 7, None, None, "early"),
    ("f", None, "ATL", None, None),
]


def _stored(mapped: str, value: str | int) -> bytes:
    if isinstance(value, str):
        return value.encode()
    return value.to_bytes({"INT": 4, "BIGINT": 8}[mapped.split()[0]], "big")


@pytest.fixture(scope="module")
def table(rowlock_server: RowlockServer) -> Iterator[RowlockServer]:
    """Half of the rows in files, half in memory."""
    with rowlock.connect(rowlock_server.address) as client:
        rows = client.create_table("same", ["info", "count", "x"])
        for key, *values in _ROWS:
            cells = {
                mapped.split()[1]: _stored(mapped, value)
                for mapped, value in zip(_COLUMNS.values(), values, strict=True)
                if value is not None
            }
            rows.put(key, cells)
            if key == "c":
                client.flush("same")
        yield rowlock_server
        client.drop_table("same")


class Both:
    """The same rows from the table and from a file."""

    def __init__(self, spark: SparkSession, server: RowlockServer, file: Path) -> None:
        self._spark = spark
        self._server = server
        self._file = str(file)
        frame = spark.createDataFrame(_ROWS, "id STRING, delay INT, dest STRING, seen BIGINT, note STRING")
        retried(lambda: frame.coalesce(1).write.mode("overwrite").parquet(self._file))

    def read(self, *names: str, **options: str) -> tuple[DataFrame, DataFrame]:
        """Reads with a mapping of only these columns; and the same columns of the file."""
        mapping = ", ".join(["id STRING :key", *(f"{name} {_COLUMNS[name]}" for name in names)])
        given = {"server": self._server.address, "table": "same", "mapping": mapping, **options}
        table: DataFrame = retried(lambda: self._spark.read.format("rowlock").options(**given).load())
        return table, self._spark.read.parquet(self._file).select("id", *names)


def _sorted(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, retried(frame.collect)), key=repr)


@pytest.fixture(scope="module")
def both(spark: SparkSession, table: RowlockServer, tmp_path_factory: pytest.TempPathFactory) -> Both:
    return Both(spark, table, tmp_path_factory.mktemp("same") / "rows")


_NARROW = [["delay"], ["delay", "dest"], ["seen"], ["delay", "seen"], [], list(_COLUMNS)]


@pytest.mark.parametrize("names", drawn(_NARROW, 3, "narrow mappings"))
def test_a_narrow_mapping_gives_every_row(both: Both, names: list[str]) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    table, file = both.read(*names)
    assert _sorted(table) == _sorted(file)
    assert retried(table.count) == len(_ROWS)
    for name in names:
        for condition in (f"{name} IS NULL", f"{name} IS NOT NULL", f"NOT (CAST({name} AS STRING) <=> '7')"):
            assert _sorted(table.where(condition)) == _sorted(file.where(condition)), condition
        shares = [frame.agg(F.avg(F.isnull(name).cast("int")), F.count("*"), F.count(name)) for frame in (table, file)]
        assert _sorted(shares[0]) == _sorted(shares[1])


@pytest.mark.parametrize("how", drawn(["left_semi", "left_anti", "left", "right", "full"], 2, "joins"))
def test_joins_of_narrow_mappings_lose_no_row(both: Both, spark: SparkSession, how: str) -> None:
    delays, delays_of_file = both.read("delay")
    counts, counts_of_file = both.read("seen")
    others = spark.createDataFrame([("c", 1), ("d", 2), ("z", 3)], "id STRING, other INT")
    assert _sorted(delays.join(counts, "id", how)) == _sorted(delays_of_file.join(counts_of_file, "id", how))
    assert _sorted(delays.join(others, "id", how)) == _sorted(delays_of_file.join(others, "id", how))
    with_value = counts.where("seen IS NOT NULL")
    with_value_in_file = counts_of_file.where("seen IS NOT NULL")
    assert _sorted(delays.join(with_value, "id", how)) == _sorted(delays_of_file.join(with_value_in_file, "id", how))


def test_rows_without_any_mapped_column_are_omitted_on_request(both: Both) -> None:
    table, file = both.read("delay", "seen", rows="mapped")
    assert _sorted(table) == _sorted(file.where("delay IS NOT NULL OR seen IS NOT NULL"))
