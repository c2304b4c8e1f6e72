"""`make bench`: measures every figure, prints the results, and saves them in bench/results/.

    python -m bench [--quick] [--rounds N] [--list] [FIGURE ...]

With names it measures only those figures and saves nothing; a smoke run (--quick) saves nothing either. A name also
selects all figures whose names begin with it and a hyphen. `edges` selects the figures of abusive clients,
`compaction` those of compactions, `cpu` the CPU time of point calls, `split-pause`, `merge-pause`, `snapshot-pause` and
`flush-pause` how long writes wait while regions are split and merged, snapshots are taken and memstores are flushed,
`bulk-commit` the commit of a large bulk write, `tables-start` the start of a server with many tables. These are
measured only when they are named.

    python -m bench --latency | --floods [--quick] [--rounds N] [FIGURE ...]
    python -m bench --hbase | --peers | --growth ...

These measure something else: the first two figures of their own, which they save as latency.* and floods.*; the others
have options of their own. docs/bench.md explains them.

Exits 1 when a figure misses its target or a workload fails; after a smoke run only when a workload fails.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, cast

from rich.console import Console

from bench import machine, report
from bench.bench import Bench, temporary_folder
from bench.compaction_figures import COMPACTION
from bench.figure import Figure
from bench.figures import CPU, EDGES, FIGURES
from bench.latency_figures import FLOODS, LATENCY
from bench.processes import exit_on_sigterm
from bench.region_figures import REGIONS
from bench.report import Result

_RESULTS = Path(__file__).resolve().parent / "results"
# The modules of what is measured instead of the figures, by the first word of the command line.
MODES = {
    "--hbase": "bench.hbase.run",
    "--peers": "bench.peers.run",
    "--growth": "bench.growth.run",
}

# The figures of a complete run, by the name of the files that it writes.
_COMPLETE: Mapping[str, Sequence[Figure]] = {"latest": FIGURES, "latency": LATENCY, "floods": FLOODS}
_ALL = (*FIGURES, *EDGES, *COMPACTION, *CPU, *REGIONS, *LATENCY, *FLOODS)


class Mode(Protocol):
    """A module of MODES."""

    def main(self, given: Sequence[str]) -> int:
        """Runs the mode with the other words of the command line; returns its exit code."""


def arguments(given: list[str]) -> argparse.Namespace:
    """Parses the command line; exits with a message if it is invalid."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measures rowlock against raw baselines.")
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help="measure only these; see --list")
    parser.add_argument("--quick", action="store_true", help="smoke run: little data, one round of short turns")
    parser.add_argument("--rounds", type=int, default=11, help="rounds for each ratio (default %(default)s)")
    for name, what in (("latency", "latencies without coordinated omission"), ("floods", "clients beside a flood")):
        parser.add_argument(f"--{name}", action="append_const", dest="runs", const=name, help=f"measure {what}")
    parser.add_argument("--list", action="store_true", help="list the figures and exit")
    parsed = parser.parse_args(given)
    if parsed.rounds < 1:
        parser.error("--rounds must be at least 1")
    if len(parsed.runs or []) > 1:
        parser.error("--latency and --floods are two runs")
    unknown = [name for name in parsed.figures if not chosen_figures([name])]
    if unknown:
        parser.error(f"unknown figure: {', '.join(unknown)}; --list shows all figures")
    return parsed


def chosen_figures(names: Sequence[str], default: Sequence[Figure] = FIGURES) -> list[Figure]:
    """Returns the figures with these names, or with names that begin with one and a hyphen; without names `default`."""
    if not names:
        return list(default)
    return [
        figure for figure in _ALL if any(figure.name == name or figure.name.startswith(f"{name}-") for name in names)
    ]


def run(figure: Figure, bench: Bench, console: Console) -> Result:
    """Measures one figure. An exception of its workload becomes a failed result, so that other figures still run."""
    try:
        return Result(figure, figure.measure(bench))
    except Exception as failure:
        console.print(traceback.format_exc(), markup=False, highlight=False)
        return Result(figure, None, f"{type(failure).__name__}: {failure}".splitlines()[0])


def main(given: list[str]) -> int:
    """Runs the command; returns its exit code."""
    if given and given[0] in MODES:
        # Imported on request, because a mode may need what others don't.
        module = cast(Mode, importlib.import_module(MODES[given[0]]))
        return module.main(given[1:])
    options = arguments(given)
    console = Console()
    if options.list:
        for figure in _ALL:
            console.print(f"{figure.name:22} {report.target(figure):9} {figure.sentence}", highlight=False)
        return 0
    [name] = options.runs or ["latest"]
    complete = _COMPLETE[name]
    chosen = chosen_figures(options.figures, complete)
    results = []
    facts = machine.facts()
    for figure in chosen:
        console.print(f"{figure.name}: {figure.sentence} ...", highlight=False)
        with temporary_folder("bench") as folder:
            if options.quick:
                bench = Bench(folder, rounds=1, turn_seconds=0.2, scale=0.02)
            else:
                bench = Bench(folder, rounds=options.rounds)
            result = run(figure, bench, console)
        report.print_result(console, result)
        results.append(result)
    report.print_table(console, results, facts)
    if options.quick:
        return 0 if all(result.measured for result in results) else 1
    if chosen == list(complete):
        report.write(_RESULTS, results, facts, name)
    return 0 if all(result.holds for result in results) else 1


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main(sys.argv[1:]))
