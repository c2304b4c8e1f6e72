"""Figures are judged by their median and shown with their spread."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

import bench.__main__ as command
from bench import machine, report
from bench.bench import Bench, temporary_folder
from bench.compaction_figures import COMPACTION
from bench.figure import Figure
from bench.figures import EDGES, FIGURES
from bench.goals import Aim, Alternative, Goal
from bench.measure import Measurement, Spread
from bench.report import Result


def _figure(aim: Aim = Aim.AT_LEAST, target: float = 0.6, unit: str = "", measured: float = 0.7) -> Figure:
    return Figure("gets", "gets | raw", aim, target, unit, lambda bench: _measurement(measured))


def _measurement(median: float) -> Measurement:
    return Measurement(Spread(median, median / 2, median * 2), {"gets/s": Spread(1234.5, 1000.0, 2000.0)})


@pytest.mark.parametrize(
    ("aim", "median", "verdict"),
    [
        (Aim.AT_LEAST, 0.6, "pass"),
        (Aim.AT_LEAST, 0.59, "miss"),
        (Aim.AT_MOST, 0.6, "pass"),
        (Aim.AT_MOST, 0.61, "miss"),
    ],
)
def test_the_median_is_judged(aim: Aim, median: float, verdict: str) -> None:
    assert Result(_figure(aim), _measurement(median)).verdict == verdict


@pytest.mark.parametrize(("floor_ratio", "verdict"), [(1.3, "pass"), (1.31, "miss")])
def test_a_figure_that_misses_holds_by_its_alternative(floor_ratio: float, verdict: str) -> None:
    goal = Goal("read", "seconds", Aim.AT_MOST, 2.2, "", alternative=Alternative("ratio to the floor", 1.3))
    details = {"ratio to the floor": Spread(floor_ratio, 1, 2)}
    assert Result(goal, Measurement(Spread(3, 3, 3), details)).verdict == verdict
    assert Result(goal, Measurement(Spread(2.2, 2, 3), details)).verdict == "pass"
    assert report.target(goal) == "≤ 2.2, or ratio to the floor ≤ 1.3"


def test_a_workload_that_fails_is_no_pass_and_lets_the_others_run(tmp_path: Path) -> None:
    def fails(bench: Bench) -> Measurement:
        raise ConnectionError("server gone\nand more")

    output = io.StringIO()
    figure = Figure("gets", "gets", Aim.AT_LEAST, 1, "", fails)
    result = command.run(figure, Bench(tmp_path), Console(file=output))
    assert (result.verdict, result.holds) == ("failed", False)
    assert report.measured(result) == "ConnectionError: server gone"
    assert "Traceback" in output.getvalue()


@pytest.mark.parametrize(
    ("value", "text"), [(0.6134, "0.613"), (5.714, "5.71"), (48.25, "48.2"), (10, "10"), (2145.6, "2,146"), (0, "0")]
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert report.number(value) == text


def test_the_page_and_the_file_for_programs_say_the_same(tmp_path: Path) -> None:
    results = [
        Result(_figure(), _measurement(0.7)),
        Result(_figure(Aim.AT_MOST, 10, "s"), _measurement(12)),
        Result(_figure(), None, "OSError: no | room"),
    ]
    report.write(tmp_path, results, {"cores": "2"})
    lines = (tmp_path / "latest.md").read_text().splitlines()
    assert "| ≥ 0.6 | 0.7 (0.35 to 1.4) | gets/s: 1,234 (1,000 to 2,000) | pass |" in lines[-3]
    assert "| ≤ 10 s | 12 (6 to 24) |" in lines[-2]
    assert lines[-2].endswith("| miss |")
    assert r"OSError: no \| room" in lines[-1]
    read = json.loads((tmp_path / "latest.json").read_text())
    assert read["machine"] == {"cores": "2"}
    assert [figure["verdict"] for figure in read["figures"]] == ["pass", "miss", "failed"]
    assert read["figures"][0]["measured"]["value"] == {"median": 0.7, "low": 0.35, "high": 1.4}


def test_the_table_shows_every_figure_also_one_that_failed() -> None:
    output = io.StringIO()
    results = [Result(_figure(), _measurement(0.7)), Result(_figure(), None, "OSError: no room")]
    report.print_table(Console(file=output, width=100), results, {"cores": "2"})
    lines = [line.replace("│", "").split() for line in output.getvalue().splitlines() if "gets" in line]
    assert lines == [["gets", "≥", "0.6", "0.7", "0.35", "1.4", "pass"], ["gets", "≥", "0.6", "failed"]]
    assert "cores 2" in output.getvalue()


def test_one_result_shows_what_it_was_made_of() -> None:
    output = io.StringIO()
    report.print_result(Console(file=output, width=100), Result(_figure(), _measurement(0.7)))
    assert output.getvalue() == "    0.7 (0.35 to 1.4), pass\n    gets/s: 1,234 (1,000 to 2,000)\n"


def test_facts_of_the_machine_name_no_host_and_no_path() -> None:
    facts = machine.facts()
    assert facts["cores"].isdigit()
    assert not any("/" in fact for fact in facts.values())


def test_figures_have_names_of_their_own() -> None:
    figures = (*FIGURES, *EDGES, *COMPACTION)
    assert len({figure.name for figure in figures}) == len(figures)


def test_a_name_stands_for_all_that_begin_with_it_and_edges_are_measured_only_by_name() -> None:
    assert command.chosen_figures(["edges"]) == list(EDGES)
    assert command.chosen_figures(["compaction"]) == list(COMPACTION)
    assert [figure.name for figure in command.chosen_figures(["edges-bulk", "put"])] == [
        "put-sequential",
        "put-concurrent",
        "put-arrow",
        "put-arrow-framed",
        "edges-bulk",
    ]
    assert command.chosen_figures(["pu"]) == []
    assert command.chosen_figures([]) == list(FIGURES)


@pytest.mark.parametrize("given", [["no-such-figure"], ["--rounds", "0"]])
def test_a_command_line_without_sense_is_refused(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(given)
    assert ended.value.code == 2
    assert "error" in capsys.readouterr().err


def test_figures_are_listed_with_their_targets(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert all(figure.name in listed for figure in (*FIGURES, *EDGES, *COMPACTION))


def test_a_temporary_folder_is_on_the_disk_of_the_project_and_goes() -> None:
    with temporary_folder("bench-test") as folder:
        assert folder.stat().st_dev == Path(__file__).stat().st_dev
        bench = Bench(folder, scale=0.01)
        assert bench.fresh_folder("a") != bench.fresh_folder("a")
        assert (bench.scaled(1000), bench.scaled(10, at_least=5)) == (10, 5)
    assert not folder.exists()
