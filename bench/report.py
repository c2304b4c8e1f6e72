"""Reports figures as a table on the terminal, as a Markdown page, and as JSON."""

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
Made by `make bench`, or by `make bench ARGS=--NAME` if this page has another name. Each ratio is of two quantities
measured in turns in one run. The median of the rounds is compared with the target; the lowest and the highest are in
brackets."""


@dataclass(frozen=True, slots=True)
class Result:
    """One figure and its measurement, or the reason why its workload failed."""

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
    """Formats a number with three significant digits, or with all digits from 100 on: 0.613, 5.71, 48.2, 2,145."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def spread(value: Spread) -> str:
    """Formats the median, with the lowest and highest in brackets."""
    return f"{number(value.median)} ({number(value.low)} to {number(value.high)})"


def target(figure: Goal) -> str:
    """Formats the target: `≥ 0.6`, `≤ 10 s`, `≤ 2.2, or the seconds of the floor ≤ 1.3`."""
    text = f"{figure.aim.value} {number(figure.target)} {figure.unit}".strip()
    if figure.alternative is None:
        return text
    return f"{text}, or {figure.alternative.detail} {figure.aim.value} {number(figure.alternative.target)}"


def measured(result: Result) -> str:
    """Formats the measured figure, or the reason of the failure."""
    if result.measured is None:
        return result.failure
    return spread(result.measured.value)


def print_table(console: Console, results: Sequence[Result], facts: dict[str, str]) -> None:
    """Prints all results, one a line."""
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
    """Prints one result with its details."""
    console.print(f"    {measured(result)}, {result.verdict}", markup=False, highlight=False)
    for name, value in details(result):
        console.print(f"    {name}: {value}", markup=False, highlight=False)


def details(result: Result) -> list[tuple[str, str]]:
    """Returns the name and the formatted spread of each quantity behind the figure."""
    if result.measured is None:
        return []
    return [(name, spread(value)) for name, value in result.measured.details.items()]


def markdown(results: Sequence[Result], facts: dict[str, str], introduction: str = _INTRODUCTION) -> str:
    """Returns the report as a Markdown page; the introduction says how the figures were measured."""
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
    """Returns the report as JSON."""
    figures = [
        {
            "name": result.figure.name,
            "sentence": result.figure.sentence,
            "aim": result.figure.aim.value,
            "target": result.figure.target,
            "unit": result.figure.unit,
            "alternative": asdict(result.figure.alternative) if result.figure.alternative else None,
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
    """Writes name.md and name.json to the folder, replacing those of an earlier run."""
    (folder / f"{name}.md").write_text(markdown(results, facts, introduction))
    (folder / f"{name}.json").write_text(as_json(results, facts))
