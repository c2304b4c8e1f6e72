"""`make bench ARGS=--growth`: measures how cost grows with rows and clients, and writes docs/growth.md's figures.

    python -m bench --growth [--large] [--many-clients] [--rows N,...] [--clients N,...] [--seconds S] [--output FOLDER]

By default 10,000 to 1,000,000 rows and 1 to 64 clients; --large adds 10,000,000 rows, which need some 30 GB of disk,
and --many-clients 128 and 256 processes, which need 16 GB of memory. A run with other sizes, or with --output, writes
its tables and pictures only to that folder.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from bench import machine, sections
from bench.bench import temporary_folder
from bench.growth.curves import Curve, markdown
from bench.growth.measure import Growth, Sizes, with_clients, with_rows
from bench.growth.pictures import draw

_ROOT = Path(__file__).resolve().parents[2]
_ROWS = (10_000, 31_623, 100_000, 316_228, 1_000_000)
_LARGE = (3_162_278, 10_000_000)
_CLIENTS = (1, 2, 4, 8, 16, 32, 64)
_MANY = (128, 256)
_ROWS_OF_CLIENTS = 100_000
_SECONDS = 3.0


def arguments(given: Sequence[str]) -> argparse.Namespace:
    """Parses the words after --growth; exits with a message if they are invalid."""
    parser = argparse.ArgumentParser(prog="python -m bench --growth", description="Measures how cost grows.")
    parser.add_argument("--large", action="store_true", help="up to 10,000,000 rows")
    parser.add_argument("--many-clients", action="store_true", help="up to 256 clients")
    parser.add_argument("--rows", type=_ascending, help="other numbers of rows")
    parser.add_argument("--clients", type=_ascending, help="other numbers of clients")
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="of each point (default %(default)s)")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="where tables and pictures go")
    parsed = parser.parse_args(given)
    if (parsed.rows or parsed.clients) and parsed.output is None:
        parser.error("a run with other sizes needs --output FOLDER")
    if parsed.seconds <= 0:
        parser.error("--seconds must be positive")
    return parsed


def sizes_of(options: argparse.Namespace) -> Sizes:
    """Returns what to measure."""
    rows = options.rows or (_ROWS + _LARGE if options.large else _ROWS)
    clients = options.clients or (_CLIENTS + _MANY if options.many_clients else _CLIENTS)
    return Sizes(rows, clients, min(_ROWS_OF_CLIENTS, max(rows)), options.seconds)


def write(output: Path | None, by_rows: Growth, by_clients: Growth, facts: Mapping[str, str]) -> None:
    """Writes the curves as JSON, the pictures, and the tables; without `output` into the results and docs/growth.md."""
    grown = {"rows": by_rows, "clients": by_clients}
    text = {"machine": facts, **{name: asdict(each) for name, each in grown.items()}}
    results = output or _ROOT / "bench" / "results"
    pictures = output or _ROOT / "docs"
    results.mkdir(parents=True, exist_ok=True)
    (results / "growth.json").write_text(json.dumps(text, indent=2, ensure_ascii=False) + "\n")
    draw(_of_units(by_rows, {"calls/s", "rows/s"}), "Rates, by rows of the table", pictures / "growth-rows.svg")
    draw(_of_units(by_clients, {"calls/s"}), "Rates, by clients", pictures / "growth-clients.svg")
    draw(_of_units(by_clients, {"ms"}), "Latencies, by clients", pictures / "growth-latencies.svg")
    machine_line = "Machine: " + ", ".join(f"{name} {fact}" for name, fact in facts.items()) + "."
    for name, each in grown.items():
        table = f"{machine_line}\n\n{markdown(each.curves, each.others)}"
        if output is not None:
            (output / f"growth-{name}.md").write_text(table + "\n")
        else:
            sections.write_section(_ROOT / "docs" / "growth.md", f"growth by {name}", table)


def main(given: Sequence[str]) -> int:
    """Runs the mode; returns its exit code."""
    options = arguments(given)
    sizes = sizes_of(options)
    console = Console()
    facts = machine.facts()
    with temporary_folder("growth") as folder:
        by_rows = with_rows(folder, sizes, lambda line: console.print(line, highlight=False))
        by_clients = with_clients(folder, sizes, lambda line: console.print(line, highlight=False))
    write(options.output, by_rows, by_clients, facts)
    for each in (by_rows, by_clients):
        console.print(markdown(each.curves, each.others), markup=False, highlight=False, soft_wrap=True)
    return 0


def _of_units(growth: Growth, units: set[str]) -> list[Curve]:
    return [curve for curve in growth.curves if curve.unit in units]


def _ascending(text: str) -> tuple[int, ...]:
    numbers = tuple(int(word) for word in text.split(","))
    if list(numbers) != sorted(set(numbers)) or numbers[0] < 1:
        raise argparse.ArgumentTypeError(f"numbers must ascend, and be positive: {text}")
    return numbers
