"""`make spark-bench`: measures every figure from Spark, prints the results, and saves them in bench/results/.

    python -m bench.spark [--rows N] [--trips N] [--rounds N] [--list] [FIGURE ...]
    python -m bench.spark --hbase HOST:PORT [--hbase-python PATH] ...

With names it measures only the groups of these figures, and saves nothing. A name also selects all figures whose names
begin with it and a hyphen: `typed` selects those of typed rows. A run with fewer rows or trips saves nothing either,
and its figures are meaningless. Exits 1 when a figure misses its target or a workload fails; with fewer rows only when
a workload fails.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench import machine, report
from bench.bench import temporary_folder
from bench.goals import Goal
from bench.processes import exit_on_sigterm
from bench.report import Result
from bench.spark import session
from bench.spark.figures import AGAINST_HBASE, goals, groups
from bench.spark.groups import Group
from bench.spark.hbase import HBasePeer
from bench.spark.stage import Stage

_RESULTS = Path(__file__).resolve().parent.parent / "results"
ROWS = 1_000_000
TRIPS = 3_000_000
_ROUNDS = 5
_INTRODUCTION = """\
Made by `make spark-bench`: {rows:,} rows of 10 × 100 random bytes, and for the figures `typed-...` {trips:,} taxi trips
of 15 typed columns, in {rounds} rounds in turns with the baseline, after one warm-up round, all on one machine. CPU is
user and system seconds of a process tree; Spark's is the driver, Java and the Python workers. The median of the rounds
is compared with the target; the lowest and the highest are in brackets."""


def arguments(given: Sequence[str]) -> argparse.Namespace:
    """Parses the command line; exits with a message if it is invalid."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description="Measures rowlock from Spark.")
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help="measure only these; see --list")
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of random bytes (default %(default)s)")
    parser.add_argument("--trips", type=int, default=TRIPS, help="typed rows (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="rounds for each figure (default %(default)s)")
    parser.add_argument("--hbase", metavar="HOST:PORT", help="HBase's Thrift gateway, for the comparison with HBase")
    parser.add_argument("--hbase-python", metavar="PATH", default=sys.executable, help="a Python that has happybase")
    parser.add_argument("--list", action="store_true", help="list the figures and exit")
    parsed = parser.parse_args(given)
    if parsed.rounds < 1:
        parser.error("--rounds must be at least 1")
    for name in ("rows", "trips"):
        if getattr(parsed, name) < 100:
            parser.error(f"--{name} must be at least 100")
    if parsed.hbase is not None and not parsed.hbase.rpartition(":")[2].isdigit():
        parser.error(f"--hbase must be HOST:PORT, not {parsed.hbase}")
    unknown = [name for name in parsed.figures if not any(_is_named(goal, [name]) for goal in goals())]
    if unknown:
        parser.error(f"unknown figure: {', '.join(unknown)}; --list shows all figures")
    if AGAINST_HBASE.name in parsed.figures and parsed.hbase is None:
        parser.error(f"{AGAINST_HBASE.name} needs --hbase HOST:PORT")
    return parsed


def _is_named(goal: Goal, names: Sequence[str]) -> bool:
    """Returns whether the goal has one of the names, or one with a hyphen after it; every goal has if there is none."""
    return not names or any(goal.name == name or goal.name.startswith(f"{name}-") for name in names)


def run(group: Group, stage: Stage, console: Console) -> list[Result]:
    """Measures one group. An exception of its workload becomes failed results, so that other groups still run."""
    try:
        measured = group.measure(stage)
        return [Result(goal, measured[goal.name]) for goal in group.goals]
    except Exception as failure:
        console.print(traceback.format_exc(), markup=False, highlight=False)
        reason = f"{type(failure).__name__}: {failure}".splitlines()[0]
        return [Result(goal, None, reason) for goal in group.goals]


def main(given: Sequence[str]) -> int:
    """Runs the command; returns its exit code."""
    options = arguments(given)
    console = Console()
    if options.list:
        for goal in goals():
            console.print(f"{goal.name:26} {report.target(goal):9} {goal.sentence}", highlight=False)
        return 0
    hbase = HBasePeer(options.hbase, options.hbase_python) if options.hbase is not None else None
    everything = groups(hbase)
    chosen = [group for group in everything if any(_is_named(goal, options.figures) for goal in group.goals)]
    facts = machine.facts()
    results: list[Result] = []
    with temporary_folder("spark-bench") as folder, session.running_session(folder / "spark") as spark:
        facts |= session.facts(spark)
        stage = Stage(folder, spark, options.rows, options.trips, options.rounds)
        for group in chosen:
            for result in run(group, stage, console):
                console.print(f"{result.figure.name}: {result.figure.sentence}", highlight=False)
                report.print_result(console, result)
                results.append(result)
    report.print_table(console, results, facts)
    if (options.rows, options.trips) != (ROWS, TRIPS):
        return 0 if all(result.measured for result in results) else 1
    if chosen == everything:
        introduction = _INTRODUCTION.format(rows=options.rows, trips=options.trips, rounds=options.rounds)
        report.write(_RESULTS, results, facts, "spark", introduction)
    return 0 if all(result.holds for result in results) else 1


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main(sys.argv[1:]))
