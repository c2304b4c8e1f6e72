"""`make bench ARGS=--hbase`: measures rowlock beside a real HBase, and writes the table of the README.

    python -m bench --hbase [--hbase-home FOLDER | --hbase-gateway HOST:PORT] [--rows N] [--rounds N] [--seconds S]
                            [--warm-seconds S] [--only TEXT]

HBase is that of --hbase-home or $HBASE_HOME, a folder with an HBase release; else one whose jars Maven fetches. It is
started for the run, with its Thrift gateway, in a folder of its own. With --hbase-gateway a running one is used; it
must be on this machine, and then there are no rows by its Java client.

Only a run with all rows and the default settings writes bench/results/hbase.* and the README. Exits 1 when a row misses
its goal, 2 when HBase is not found.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console

from bench import client_packages, machine, sections
from bench.bench import temporary_folder
from bench.client_packages import SetupError
from bench.hbase import table
from bench.hbase.comparison import Comparison, Failed, Result, Settings, process_counts
from bench.hbase.installation import find_installation
from bench.hbase.service import HBase, running_hbase
from bench.hbase.work import HBASE, HBASE_JAVA, ROWLOCK, ROWLOCK_SYNCED, ROWS, Row
from bench.processes import start_rowlock
from bench.programs import ProgramFailedError
from bench.ycsb.workers import Workers

_ROOT = Path(__file__).resolve().parents[2]
_RESULTS = _ROOT / "bench" / "results"
_JAVA_WORKER = Path(__file__).with_name("HBaseWorker.java")
_JAVA_HEAP = "-Xmx1g"
_TABLE = "rowlock_bench"
_SYNCED_TABLE = "rowlock_bench_synced"


def arguments(given: Sequence[str]) -> argparse.Namespace:
    """Parses the words after --hbase; exits with a message if they are invalid."""
    default = Settings()
    parser = argparse.ArgumentParser(prog="python -m bench --hbase", description="Measures rowlock beside HBase.")
    parser.add_argument("--hbase-home", metavar="FOLDER", default=os.environ.get("HBASE_HOME"), help="an HBase release")
    parser.add_argument("--hbase-gateway", metavar="HOST:PORT", help="a running Thrift gateway")
    parser.add_argument("--rows", type=int, default=default.row_count, help="rows of the table (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=default.rounds, help="rounds for each row (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=default.measured_s, help="of a turn (default %(default)s)")
    parser.add_argument(
        "--warm-seconds", type=float, default=default.server_warm_s, help="before the first turn (default %(default)s)"
    )
    parser.add_argument("--only", metavar="TEXT", default="", help="measure only rows with this in section or name")
    parsed = parser.parse_args(given)
    if parsed.rows < 1000:
        parser.error("--rows must be at least 1000")
    if parsed.rounds < 1 or parsed.seconds <= 0 or parsed.warm_seconds < 0:
        parser.error("--rounds and --seconds must be positive, and --warm-seconds not negative")
    if parsed.hbase_gateway is not None and not parsed.hbase_gateway.rpartition(":")[2].isdigit():
        parser.error(f"--hbase-gateway must be HOST:PORT, not {parsed.hbase_gateway}")
    return parsed


def settings_of(options: argparse.Namespace) -> Settings:
    """Returns the settings of a run; those of one without options are complete."""
    return Settings(options.rows, options.rounds, Settings().warm_s, options.seconds, options.warm_seconds)


def chosen_rows(text: str, has_java: bool) -> list[Row]:
    """Returns the rows with a text in their section or name, and only those that this HBase's clients can do."""
    return [
        row for row in ROWS if text in f"{row.section}: {row.name}" and (has_java or row.theirs.workers != HBASE_JAVA)
    ]


@contextmanager
def _hbase(options: argparse.Namespace, folder: Path) -> Iterator[HBase]:
    if options.hbase_gateway is not None:
        yield HBase(options.hbase_gateway, (), None, "unknown")
        return
    installation = find_installation(options.hbase_home)
    hbase_folder = folder / "hbase"
    hbase_folder.mkdir()
    with running_hbase(hbase_folder, installation) as hbase:
        yield hbase


def worker_commands(hbase: HBase, rowlock_address: str, row_count: int) -> dict[str, list[str]]:
    """Returns the command of one process of each name of workers."""
    worker = [sys.executable, "-m", "bench.ycsb.worker"]
    commands = {
        ROWLOCK: [*worker, "rowlock", rowlock_address, _TABLE, str(row_count)],
        ROWLOCK_SYNCED: [*worker, "rowlock", rowlock_address, _SYNCED_TABLE, str(row_count)],
        HBASE: [*worker, "happybase", hbase.gateway, _TABLE, str(row_count)],
    }
    if hbase.java is not None:
        java, *rest = hbase.java
        quiet = "-Dbench.log=error"
        commands[HBASE_JAVA] = [java, _JAVA_HEAP, quiet, *rest, str(_JAVA_WORKER), _TABLE, str(row_count)]
    return commands


def measure(
    options: argparse.Namespace, settings: Settings, folder: Path, environment: Mapping[str, str], console: Console
) -> tuple[list[Result | Failed], str]:
    """Starts both systems, loads them, warms them up and measures the chosen rows; returns HBase's version, too."""
    with ExitStack() as stack:
        hbase = stack.enter_context(_hbase(options, folder))
        server = stack.enter_context(start_rowlock(folder / "data"))
        rows = chosen_rows(options.only, hbase.java is not None)
        commands = worker_commands(hbase, server.address, settings.row_count)
        seeds = itertools.count(1)
        workers = {
            name: stack.enter_context(Workers(commands[name], count, seeds, environment))
            for name, count in process_counts(rows).items()
        }
        for name, durability in ((ROWLOCK, "os"), (HBASE, "os"), (ROWLOCK_SYNCED, "fsync")):
            if name in workers:
                console.print(f"loading {settings.row_count:,} rows into {name} ...", highlight=False)
                workers[name].create_table(durability)
                workers[name].load(settings.row_count)
        stack.callback(workers[HBASE].drop_table)
        comparison = Comparison(workers, [server.pid, *hbase.process_ids], settings)
        comparison.warm_up(lambda line: console.print(line, highlight=False))
        results: list[Result | Failed] = []
        for row in rows:
            results.append(comparison.measure(row, folder))
            console.print(table.summary(results[-1]), markup=False, highlight=False, soft_wrap=True)
        return results, hbase.version


def main(given: Sequence[str]) -> int:
    """Runs the mode; returns its exit code."""
    options = arguments(given)
    settings = settings_of(options)
    console = Console()
    facts = machine.facts()
    try:
        environment = client_packages.environment()
        with temporary_folder("hbase") as folder:
            results, version = measure(options, settings, folder, environment, console)
        facts |= {"HBase": version, "happybase": client_packages.version_of("happybase")}
    except (SetupError, ProgramFailedError) as error:
        console.print(f"--hbase: {error}", style="red", markup=False, highlight=False)
        return 2
    text = table.markdown(results, settings, facts)
    console.print(text, markup=False, highlight=False, soft_wrap=True)
    if settings == Settings() and [result.row for result in results] == list(ROWS):
        (_RESULTS / "hbase.md").write_text(f"# Beside HBase\n\n{text}")
        (_RESULTS / "hbase.json").write_text(table.as_json(results, settings, facts))
        sections.write_section(_ROOT / "README.md", "hbase", text)
    return 1 if any(result.holds is False for result in results) else 0
