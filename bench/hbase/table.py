"""The table of the comparison, for the README and the terminal, and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import groupby

from bench.hbase.comparison import Failed, Result, Settings
from bench.report import number, spread

_HEADING = """\
| work | HBase | rowlock | ratio | goal | holds | others' cores |
| --- | ---: | ---: | ---: | ---: | --- | ---: |"""


def verdict(result: Result | Failed) -> str:
    """Returns whether the row holds: yes, no, or nothing if it has no goal."""
    return {True: "yes", False: "no", None: ""}[result.holds]


def goal(result: Result) -> str:
    """Formats the goal, and the floor beside it where one was measured: `≥ 2, or 0.5 of 43,210 raw`."""
    if result.row.goal is None:
        return ""
    text = f"≥ {number(result.row.goal)}"
    if result.row.floor is None or result.floor is None:
        return text
    return f"{text}, or {number(result.row.floor.share)} of {number(result.floor)} raw"


def markdown(results: Sequence[Result | Failed], settings: Settings, facts: Mapping[str, str]) -> str:
    """Returns the table as Markdown, with what a reader must know to judge it."""
    lines = [
        introduction(settings),
        "",
        "Machine: " + ", ".join(f"{name} {fact}" for name, fact in facts.items()) + ".",
    ]
    lines += ["", _HEADING]
    for section, rows in groupby(results, lambda result: result.row.section):
        lines.append(f"| **{section}** | | | | | | |")
        lines.extend(_line(result) for result in rows)
    lines += ["", *_footnotes(results)]
    return "\n".join(lines).rstrip() + "\n"


def introduction(settings: Settings) -> str:
    """Returns how the figures were measured."""
    return (
        f"Made by `make bench ARGS=--hbase` in one run: {settings.row_count:,} rows of 10 × 100 bytes, each row of the "
        f"table in {settings.rounds} rounds of turns of {number(settings.measured_s)} s, HBase and rowlock one after "
        f"the other, after {number(settings.server_warm_s)} s of warming up. Rates and ratios are medians; the lowest "
        "and the highest ratio of a round are in brackets. Neither side syncs (`os`), unless said. The last column is "
        "what other programs used of the machine's cores meanwhile."
    )


def as_json(results: Sequence[Result | Failed], settings: Settings, facts: Mapping[str, str]) -> str:
    """Returns all that was measured as JSON."""
    rows = [
        {
            "section": result.row.section,
            "name": result.row.name,
            "unit": result.row.unit,
            "goal": result.row.goal,
            "holds": result.holds,
            **_measured(result),
        }
        for result in results
    ]
    page = {"machine": facts, "settings": asdict(settings), "rows": rows}
    return json.dumps(page, indent=2, ensure_ascii=False) + "\n"


def _measured(result: Result | Failed) -> dict[str, object]:
    if isinstance(result, Failed):
        return {"failure": result.reason}
    return {
        "floor": result.floor,
        "rowlock": asdict(result.ours),
        "hbase": asdict(result.theirs),
        "ratio": asdict(result.ratio),
        "rowlock_p99_ms": result.our_p99_ms,
        "hbase_p99_ms": result.their_p99_ms,
        "others_cores": result.others,
    }


def summary(result: Result | Failed) -> str:
    """Returns one line for the terminal while the run goes on."""
    if isinstance(result, Failed):
        return f"{result.row.name}: failed, {result.reason}"
    unit = result.row.unit
    return (
        f"{result.row.name}: HBase {number(result.theirs.median)} {unit} (p99 {number(result.their_p99_ms)} ms), "
        f"rowlock {number(result.ours.median)} (p99 {number(result.our_p99_ms)} ms), ratio {spread(result.ratio)} "
        f"{goal(result)} {verdict(result)}; others {result.others:.2f} cores"
    )


def _line(result: Result | Failed) -> str:
    if isinstance(result, Failed):
        reason = result.reason.replace("|", "\\|")
        return f"| {result.row.name}, {result.row.unit} | | | failed: {reason} | | {verdict(result)} | |"
    cells = [
        f"{result.row.name}, {result.row.unit}",
        number(result.theirs.median),
        number(result.ours.median),
        spread(result.ratio),
        goal(result),
        verdict(result),
        f"{result.others:.2f}",
    ]
    return f"| {' | '.join(cells)} |"


def _footnotes(results: Sequence[Result | Failed]) -> list[str]:
    """Returns what each raw rate in the table is, once."""
    measured = [result for result in results if isinstance(result, Result) and result.floor is not None]
    floors = {result.row.floor.sentence for result in measured if result.row.floor is not None}
    return [f"Raw: {sentence}." for sentence in sorted(floors)]
