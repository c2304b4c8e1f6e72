"""The comparison with HBase has every row of the issue, judges each by its goal, and shows what others used."""

from __future__ import annotations

import itertools
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench.cores import Cores
from bench.hbase import run, table
from bench.hbase.comparison import Comparison, Failed, Result, Settings, process_counts, result_of
from bench.hbase.service import HBase
from bench.hbase.work import HBASE, HBASE_JAVA, ONE_CLIENT, ROWLOCK, ROWLOCK_SYNCED, ROWS, SAME_CLIENT, YCSB, Row
from bench.histogram import Histogram
from bench.measure import Spread
from bench.ycsb.jobs import Outcome
from bench.ycsb.operations import OPERATIONS
from bench.ycsb.workers import Turn, Workers

_SETTINGS = Settings()
_FACTS = {"cores": "2"}


def _row(name: str, section: str = SAME_CLIENT) -> Row:
    [found] = [row for row in ROWS if row.section == section and row.name == name]
    return found


def _result(row: Row, ratio: float, floor: float | None = None) -> Result:
    ours, theirs = Spread.of([1000 * ratio]), Spread.of([1000.0])
    return Result(row, ours, theirs, Spread.of([ratio]), 0.25, 1.5, 2.5, floor)


def _turn(rows: int, others: float = 0.0, stolen: float = 0.0) -> Turn:
    return Turn(Outcome(rows, rows, 2.0, Histogram.of([1_000_000] * rows)), Cores(1.0, others, stolen))


def test_the_table_has_every_row_with_its_goal() -> None:
    goals = [row.goal for row in ROWS if row.section == SAME_CLIENT]
    assert goals == [2, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.2, 2, 1.2, 2.5, 6]
    assert [row.goal for row in ROWS if row.section == ONE_CLIENT] == [2, 1.5, 1.5]
    assert [row.name[0] for row in ROWS if row.section == YCSB] == list("ABCDEF")
    assert len({(row.section, row.name) for row in ROWS}) == len(ROWS) == 24


def test_both_sides_of_a_row_have_one_shape_and_operation_unless_its_name_says_otherwise() -> None:
    differ = {
        row.name
        for row in ROWS
        if row.section != ONE_CLIENT
        and (row.ours.operation, row.ours.shape) != (row.theirs.operation, row.theirs.shape)
    }
    assert differ == {"full scan to Arrow, beside happybase's to dicts"}
    assert {side.operation for row in ROWS for side in (row.ours, row.theirs)} <= set(OPERATIONS)


@pytest.mark.parametrize(
    ("goal", "ratio", "floor", "holds"),
    [
        (2, 2.0, None, True),
        (2, 1.99, None, False),
        (2, 1.5, 3000, True),
        (2, 1.5, 3001, False),
        (None, 9.0, None, None),
    ],
)
def test_a_row_holds_by_its_goal_or_by_its_share_of_a_raw_floor(
    goal: float | None, ratio: float, floor: float | None, holds: bool | None
) -> None:
    row = replace(_row("get", ONE_CLIENT), goal=goal)
    assert _result(row, ratio, floor).holds is holds


def test_a_floor_that_does_not_apply_changes_nothing() -> None:
    # Quick syncs: the goal is HBase's rate, and no share of a raw one.
    [synced] = [row for row in ROWS if row.ours.workers == ROWLOCK_SYNCED]
    assert _result(synced, 0.99, floor=None).holds is False
    assert table.goal(_result(synced, 1.0)) == "≥ 1"


def test_ratios_are_of_the_pairs_of_a_round() -> None:
    ours, theirs = [_turn(200, 0.25, 0.5), _turn(800)], [_turn(100), _turn(200, others=0.5)]
    result = result_of(_row("full scan to dicts"), ours, theirs, None)
    assert (result.ratio.low, result.ratio.median, result.ratio.high) == (2, 3, 4)
    assert (result.ours.median, result.theirs.median) == (250, 75)
    assert result.others == 0.25
    assert result.our_p99_ms == pytest.approx(1, rel=0.01)


def test_the_page_has_every_row_with_rates_ratio_goal_verdict_and_others_cores() -> None:
    results = [_result(row, 1.75, 4321.0 if row.floor else None) for row in ROWS]
    page = table.markdown(results, _SETTINGS, _FACTS)
    assert "| get, 8 processes, gets/s | 1,000 | 1,750 | 1.75 (1.75 to 1.75) | ≥ 1.5 | yes | 0.25 |" in page
    assert "| get, 1 process, gets/s | 1,000 | 1,750 | 1.75 (1.75 to 1.75) | ≥ 2 | no | 0.25 |" in page
    assert "| C: reads, calls/s | 1,000 | 1,750 | 1.75 (1.75 to 1.75) |  |  | 0.25 |" in page
    assert "≥ 2, or 0.5 of 4,321 raw | no" in page
    assert page.count("\n| ") == len(ROWS) + 4 + 2
    assert page.count("\nRaw: ") == 2
    written = json.loads(table.as_json(results, _SETTINGS, _FACTS))
    assert [row["name"] for row in written["rows"]] == [row.name for row in ROWS]
    assert written["rows"][0]["holds"] is False
    assert written["settings"]["row_count"] == 100_000


def test_a_line_for_the_terminal_has_both_latencies() -> None:
    line = table.summary(_result(_row("put, 1 process"), 1.75))
    assert "HBase 1,000 puts/s (p99 2.5 ms), rowlock 1,750 (p99 1.5 ms)" in line
    assert "others 0.25 cores" in line


def test_a_row_that_failed_has_its_line_and_does_not_hold() -> None:
    results: list[Result | Failed] = [_result(ROWS[0], 3.0), Failed(ROWS[1], "a row has 9 | columns")]
    page = table.markdown(results, _SETTINGS, _FACTS)
    assert "| get, 8 processes, gets/s | | | failed: a row has 9 \\| columns | | no | |" in page
    assert "failed, a row has 9" in table.summary(results[1])
    assert json.loads(table.as_json(results, _SETTINGS, _FACTS))["rows"][1]["failure"] == "a row has 9 | columns"


# Answers as a worker does, and fails at the first of the commands that it is given.
_WORKER = """
import sys
fails = sys.argv[1:]
for line in sys.stdin:
    if fails and line.startswith(fails[0]):
        fails.pop()
        print('{"error": "OSError: the disk is full"}', flush=True)
    elif line.startswith("measure"):
        print('{"operations": 2, "rows": 20, "seconds": 0.5, "latencies": {"7": 2}}', flush=True)
    else:
        print('{"ready": 1}', flush=True)
"""


@pytest.mark.parametrize("command", ["prepare", "measure"])
def test_a_row_that_fails_leaves_the_next_one_measured(tmp_path: Path, command: str) -> None:
    seeds = itertools.count(1)
    with (
        Workers([sys.executable, "-c", _WORKER, command], 8, seeds) as ours,
        Workers([sys.executable, "-c", _WORKER], 8, seeds) as theirs,
    ):
        comparison = Comparison({ROWLOCK: ours, HBASE: theirs}, [], Settings(rounds=2))
        row = _row("put, 8 processes")
        assert comparison.measure(row, tmp_path) == Failed(row, "OSError: the disk is full")
        result = comparison.measure(row, tmp_path)
    assert isinstance(result, Result)
    assert (result.ours.median, result.ratio.median) == (320, 1)


def test_rows_by_the_java_client_need_its_jars() -> None:
    assert run.chosen_rows("", has_java=True) == list(ROWS)
    without = run.chosen_rows("", has_java=False)
    assert (
        [row for row in ROWS if row not in without] == [row for row in ROWS if row.theirs.workers == HBASE_JAVA] != []
    )
    assert [row.name for row in run.chosen_rows("full scan to d", has_java=True)] == ["full scan to dicts"]


def test_each_side_has_as_many_processes_as_its_largest_row() -> None:
    assert process_counts(ROWS) == {ROWLOCK: 8, HBASE: 8, ROWLOCK_SYNCED: 8, HBASE_JAVA: 1}


def test_all_python_workers_are_one_program() -> None:
    commands = run.worker_commands(HBase("127.0.0.1:9090", (), ("java", "-cp", "x"), "2.6"), "127.0.0.1:1", 10)
    assert commands[HBASE][:3] == commands[ROWLOCK][:3] == commands[ROWLOCK_SYNCED][:3]
    assert commands[HBASE][3:] == ["happybase", "127.0.0.1:9090", "rowlock_bench", "10"]
    assert commands[HBASE_JAVA][-2:] == ["rowlock_bench", "10"]
    assert HBASE_JAVA not in run.worker_commands(HBase("127.0.0.1:9090", (), None, "2.6"), "127.0.0.1:1", 10)


@pytest.mark.parametrize(
    "words", [["--rows", "10"], ["--rounds", "0"], ["--seconds", "0"], ["--hbase-gateway", "somewhere"]]
)
def test_wrong_options_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.arguments(words)
    assert words[0] in capsys.readouterr().err


def test_a_run_without_options_is_complete_and_any_other_is_not() -> None:
    assert run.settings_of(run.arguments([])) == Settings()
    for words in (["--rows", "2000"], ["--rounds", "4"], ["--seconds", "2"], ["--warm-seconds", "1"]):
        assert run.settings_of(run.arguments(words)) != Settings()
