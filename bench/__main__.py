"""`make bench`: measures every figure, prints them, and keeps them in bench/results/.

    python -m bench [--quick] [--rounds N] [--list] [FIGURE ...]

With names it measures only those, and keeps nothing; a smoke run (--quick) neither. Exits 1 when a figure misses or
a workload fails; of a smoke run only when a workload fails.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from pathlib import Path

from rich.console import Console

from bench import machine, report
from bench.bench import Bench, temporary_folder
from bench.figures import FIGURES, Figure
from bench.processes import end_in_order_when_told
from bench.report import Result

_RESULTS = Path(__file__).resolve().parent / "results"


def arguments(given: list[str]) -> argparse.Namespace:
    """What the command line asks for; exits with a sentence when it makes no sense."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measures rowlock against raw baselines.")
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help="only these; see --list")
    parser.add_argument("--quick", action="store_true", help="a smoke run: little data, few and short turns")
    parser.add_argument("--rounds", type=int, default=11, help="how often each ratio is measured (default %(default)s)")
    parser.add_argument("--list", action="store_true", help="say which figures there are")
    parsed = parser.parse_args(given)
    if parsed.rounds < 1:
        parser.error("--rounds must be at least 1")
    unknown = sorted(set(parsed.figures) - {figure.name for figure in FIGURES})
    if unknown:
        parser.error(f"there is no figure {', '.join(unknown)}; --list says which there are")
    return parsed


def run(figure: Figure, bench: Bench, console: Console) -> Result:
    """Measures one figure. A workload that raises fails alone: the others are still measured."""
    try:
        return Result(figure, figure.measure(bench))
    except Exception as failure:
        console.print(traceback.format_exc(), markup=False, highlight=False)
        return Result(figure, None, f"{type(failure).__name__}: {failure}".splitlines()[0])


def main(given: list[str]) -> int:
    """The command; its exit code."""
    asked = arguments(given)
    console = Console()
    if asked.list:
        for figure in FIGURES:
            console.print(f"{figure.name:22} {report.target(figure):9} {figure.sentence}", highlight=False)
        return 0
    chosen = [figure for figure in FIGURES if not asked.figures or figure.name in asked.figures]
    results = []
    facts = machine.facts()
    for figure in chosen:
        console.print(f"{figure.name}: {figure.sentence} ...", highlight=False)
        with temporary_folder("bench") as folder:
            if asked.quick:
                bench = Bench(folder, rounds=1, turn_seconds=0.2, scale=0.02)
            else:
                bench = Bench(folder, rounds=asked.rounds)
            result = run(figure, bench, console)
        report.print_result(console, result)
        results.append(result)
    report.print_table(console, results, facts)
    if asked.quick:
        return 0 if all(result.measured for result in results) else 1
    if chosen == list(FIGURES):
        report.write(_RESULTS, results, facts)
    return 0 if all(result.holds for result in results) else 1


if __name__ == "__main__":
    end_in_order_when_told()
    sys.exit(main(sys.argv[1:]))
