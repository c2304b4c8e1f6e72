"""Figures as people and programs read them: a table on the terminal, a page and a file for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.goals import Goal
from bench.measure import Measurement, Spread

_INTRODUCTION = """\
Made by `make bench`. Each ratio is of two rates measured in turns in one run; the median of the rounds is
judged, the lowest and the highest are in brackets."""


@dataclass(frozen=True, slots=True)
class Result:
    """One figure and what became of it. A workload that failed has no measurement but a reason."""

    figure: Goal
    measured: Measurement | None
    failure: str = ""

    @property
    def holds(self) -> bool:
        return self.measured is not None and self.figure.holds(self.measured)

    @property
    def verdict(self) -> str:
        if self.measured is None:
            return "failed"
        return "pass" if self.holds else "miss"


def number(value: float) -> str:
    """Three significant digits, or all of a greater number: 0.613, 5.71, 48.2, 2,145."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def spread(value: Spread) -> str:
    """The median, and the lowest and highest in brackets."""
    return f"{number(value.median)} ({number(value.low)} to {number(value.high)})"


def target(figure: Goal) -> str:
    """`≥ 0.6`, `≤ 10 s`."""
    return f"{figure.aim.value} {number(figure.target)} {figure.unit}".strip()


def measured(result: Result) -> str:
    """The figure as measured, or why it could not be."""
    if result.measured is None:
        return result.failure
    return spread(result.measured.value)


def print_table(console: Console, results: Sequence[Result], facts: dict[str, str]) -> None:
    """All results, one a line."""
    table = Table(caption=", ".join(f"{name} {fact}" for name, fact in facts.items()))
    table.add_column("figure")
    for heading in ("target", "median", "lowest", "highest"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for result in results:
        value = result.measured.value if result.measured else None
        numbers = [number(part) for part in (value.median, value.low, value.high)] if value else ["", "", ""]
        verdict = f"[{'green' if result.holds else 'red'}]{result.verdict}[/]"
        table.add_row(result.figure.name, target(result.figure), *numbers, verdict)
    console.print(table)


def print_result(console: Console, result: Result) -> None:
    """One result, with what it was made of."""
    console.print(f"    {measured(result)}, {result.verdict}", markup=False, highlight=False)
    for name, value in details(result):
        console.print(f"    {name}: {value}", markup=False, highlight=False)


def details(result: Result) -> list[tuple[str, str]]:
    """What the figure was made of, by what it is called."""
    if result.measured is None:
        return []
    return [(name, spread(value)) for name, value in result.measured.details.items()]


def markdown(results: Sequence[Result], facts: dict[str, str], introduction: str = _INTRODUCTION) -> str:
    """The whole report as a page; the introduction says how the figures were made."""
    lines = [
        "# Figures",
        "",
        introduction,
        "",
        "Machine: " + ", ".join(f"{name} {value}" for name, value in facts.items()) + ".",
        "",
        "| figure | what | target | measured | made of | |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for result in results:
        parts = "; ".join(f"{name}: {value}" for name, value in details(result))
        cells = [
            result.figure.name,
            result.figure.sentence,
            target(result.figure),
            measured(result).replace("|", "\\|").replace("\n", " "),
            parts,
            result.verdict,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def as_json(results: Sequence[Result], facts: dict[str, str]) -> str:
    """The whole report for programs."""
    figures = [
        {
            "name": result.figure.name,
            "sentence": result.figure.sentence,
            "aim": result.figure.aim.value,
            "target": result.figure.target,
            "unit": result.figure.unit,
            "measured": asdict(result.measured) if result.measured else None,
            "failure": result.failure,
            "verdict": result.verdict,
        }
        for result in results
    ]
    return json.dumps({"machine": facts, "figures": figures}, indent=2, ensure_ascii=False) + "\n"


def write(
    folder: Path,
    results: Sequence[Result],
    facts: dict[str, str],
    name: str = "latest",
    introduction: str = _INTRODUCTION,
) -> None:
    """name.md and name.json in the folder, over those of the run before."""
    (folder / f"{name}.md").write_text(markdown(results, facts, introduction))
    (folder / f"{name}.json").write_text(as_json(results, facts))
