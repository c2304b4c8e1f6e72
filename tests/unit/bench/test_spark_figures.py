"""The command of the figures from Spark: what it is told, and what it does when a group fails."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import bench.spark.__main__ as command
from bench.measure import Measurement, Spread
from bench.spark.figures import goals, groups
from bench.spark.groups import Group
from bench.spark.hbase import KEY_BYTES, HBasePeer, write_plain_rows
from bench.spark.rows import ParquetRows, mapping_text
from bench.spark.stage import Stage
from bench.targets import cell_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    "given",
    [
        ["no-such-figure"],
        ["--rounds", "0"],
        ["--rows", "99"],
        ["--trips", "99"],
        ["--hbase", "localhost"],
        ["--hbase", "localhost:x"],
    ],
)
def test_a_command_line_without_sense_is_refused(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(given)
    assert ended.value.code == 2
    assert "error" in capsys.readouterr().err


def test_a_figure_against_hbase_needs_to_know_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["write-against-hbase"])
    assert ended.value.code == 2
    assert "--hbase" in capsys.readouterr().err


def test_figures_are_listed_with_their_targets(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert all(goal.name in listed for goal in goals())
    assert len({goal.name for goal in goals()}) == len(goals()) == 45


def test_a_name_stands_for_all_that_begin_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.arguments(["typed", "typed-one", "read-wall", "write"]).figures
    with pytest.raises(SystemExit):
        command.arguments(["typed-o"])
    assert "unknown figure: typed-o" in capsys.readouterr().err


def test_hbase_is_compared_with_when_it_is_there() -> None:
    def names(hbase: HBasePeer | None) -> set[str]:
        return {goal.name for group in groups(hbase) for goal in group.goals}

    assert names(HBasePeer("127.0.0.1:9090", "python")) - names(None) == {"write-against-hbase"}


def test_a_group_that_fails_fails_all_its_figures_and_no_other(tmp_path: Path) -> None:
    reads, _, writes, *_ = groups(None)

    def fails(stage: Stage) -> Mapping[str, Measurement]:
        raise ConnectionError("server gone\nand more")

    def works(stage: Stage) -> Mapping[str, Measurement]:
        return {goal.name: Measurement(Spread(1, 1, 1)) for goal in writes.goals}

    output = io.StringIO()
    stage = Stage(tmp_path, cast("SparkSession", None), 100, 100, 1)
    failed = command.run(Group(reads.goals, fails), stage, Console(file=output))
    assert [(result.verdict, result.failure) for result in failed] == [
        ("failed", "ConnectionError: server gone") for _ in reads.goals
    ]
    assert "Traceback" in output.getvalue()
    measured = command.run(Group(writes.goals, works), stage, Console(file=output))
    assert [result.verdict for result in measured] == ["pass" for _ in writes.goals]


def test_a_mapping_has_the_key_and_as_many_columns_as_asked() -> None:
    assert mapping_text(2) == "key STRING :key, q0 BINARY f:q0, q1 BINARY f:q1"


def test_rows_are_distinct_and_in_the_order_of_their_keys_over_all_files(tmp_path: Path) -> None:
    rows = ParquetRows.made_in(tmp_path / "rows", 300, file_row_count=128)
    assert [path.name for path in rows.files()] == ["00000.parquet", "00001.parquet", "00002.parquet"]
    table = pa.concat_tables([pq.read_table(path) for path in rows.files()])
    assert table["key"].to_pylist() == [f"row-{number:010d}" for number in range(300)]
    assert len(set(table["q0"].to_pylist())) == len(set(table["q9"].to_pylist())) == 300


@pytest.mark.parametrize(("row_count", "range_"), [(1000, (500, 510)), (150, (75, 76)), (10, (5, 6))])
def test_a_percent_of_the_keys_is_at_least_one_row(row_count: int, range_: tuple[int, int], tmp_path: Path) -> None:
    part = ParquetRows(tmp_path, row_count).part(1)
    assert (part.start, part.stop, part.row_count) == (
        f"row-{range_[0]:010d}",
        f"row-{range_[1]:010d}",
        range_[1] - range_[0],
    )


def test_plain_rows_are_keys_and_values_one_after_the_other(tmp_path: Path) -> None:
    rows = ParquetRows.made_in(tmp_path / "rows", 5)
    [parquet] = rows.files()
    assert write_plain_rows(parquet, tmp_path / "plain", 3) == 3
    row_bytes = KEY_BYTES + cell_tables.COLUMN_COUNT * cell_tables.VALUE_BYTES
    plain = (tmp_path / "plain").read_bytes()
    assert len(plain) == 3 * row_bytes
    last = plain[2 * row_bytes :]
    table = pq.read_table(parquet)
    assert last[:KEY_BYTES] == b"row-0000000002"
    assert last[KEY_BYTES:].startswith(table["q0"][2].as_py())
    assert last.endswith(table["q9"][2].as_py())
