"""`make bench ARGS=--peers`: measures one caller of rowlock beside one of Redis, PostgreSQL and etcd.

    python -m bench --peers [--quick] [--rounds N] [NAME ...]

A peer that is not installed is skipped, with a line that says so. Each peer is started for the run, with the durability
of rowlock's table: `os` is a write before the answer, `fsync` a sync. The rates are of one thread that waits for each
answer, in turns. A complete run writes bench/results/peers.*.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import rowlock
from rich.console import Console

from bench import machine
from bench.bench import Bench, temporary_folder
from bench.measure import Measurement, Operation, rate, ratio
from bench.peers import etcd, postgresql, redis
from bench.peers.peer import Durability, Peer, PeerStore
from bench.programs import ProgramFailedError
from bench.report import number, spread
from bench.targets.messages import FAMILY, VALUE_BYTES, row_key
from bench.targets.rowlock import running_rowlock

PEERS = (redis.PEER, postgresql.PEER, etcd.PEER)
_RESULTS = Path(__file__).resolve().parents[1] / "results"
_ROWS = 1000
_COLUMN = FAMILY + b":value"
_COUNTER = FAMILY + b":counter"
_NAMES = {"get": "get", "put": "put", "increment": "increment", "compare_and_swap": "compare and swap"}


class RowlockPeer:
    """rowlock as a PeerStore."""

    def __init__(self, table: rowlock.Table[bytes]) -> None:
        self._table = table

    def get(self, row: bytes) -> bytes | None:
        return self._table.row(row).get(_COLUMN)

    def put(self, row: bytes, value: bytes) -> None:
        self._table.put(row, {_COLUMN: value})

    def increment(self, row: bytes) -> int:
        return self._table.increment(row, _COUNTER)

    def compare_and_swap(self, row: bytes, expected: bytes, value: bytes) -> bool:
        return bool(self._table.check_and_put(row, _COLUMN, expected, {_COLUMN: value}))


@dataclass(frozen=True, slots=True)
class Row:
    """One measured call of one peer; the value of `measured` is rowlock's rate divided by the peer's."""

    peer: str
    call: str
    durability: Durability
    measured: Measurement


def operation(store: PeerStore, call: str, row_count: int) -> Operation:
    """Returns one call of a store on one row after the other; raises AssertionError for a wrong answer."""
    rows = map(row_key, itertools.cycle(range(row_count)))
    values = [bytes([fill]) * VALUE_BYTES for fill in (0, 1)]
    if call == "get":
        return lambda: _check(store.get(next(rows)) is not None, "a row is absent")
    if call == "put":
        return lambda: store.put(next(rows), values[0])
    if call == "increment":
        return lambda: store.increment(b"counter")
    if call != "compare_and_swap":
        raise ValueError(f"a peer has no call {call}")
    swaps = _swaps(values)
    store.put(b"swapped", values[0])

    def swap() -> None:
        expected, value = next(swaps)
        _check(store.compare_and_swap(b"swapped", expected, value), "a swap failed")

    return swap


def _swaps(values: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return itertools.cycle([(values[0], values[1]), (values[1], values[0])])


def _check(holds: bool, what: str) -> None:
    assert holds, what


@contextmanager
def _rowlock(folder: Path, durability: Durability) -> Iterator[PeerStore]:
    with running_rowlock(folder) as server:
        yield RowlockPeer(server.store("peers", durability).table)


def measure(peer: Peer, bench: Bench, report: Callable[[Row], None]) -> list[Row]:
    """Measures all calls of one peer. Raises ProgramFailedError if it does not start."""
    measured = []
    for durability, calls in peer.work.items():
        folder = bench.fresh_folder(peer.name.lower())
        with _rowlock(folder, durability) as ours, peer.running(folder, durability) as theirs:
            for store in (ours, theirs):
                for key in range(_ROWS):
                    store.put(row_key(key), bytes(VALUE_BYTES))
            for call in calls:
                our_call, their_call = (operation(store, call, _ROWS) for store in (ours, theirs))
                found = ratio(
                    "rowlock",
                    partial(rate, our_call, bench.turn_seconds),
                    peer.name,
                    partial(rate, their_call, bench.turn_seconds),
                    bench.rounds,
                )
                measured.append(Row(peer.name, _NAMES[call], durability, found))
                report(measured[-1])
    return measured


def markdown(rows: Sequence[Row], facts: dict[str, str]) -> str:
    """Returns the rows as a Markdown table."""
    lines = ["Machine: " + ", ".join(f"{name} {fact}" for name, fact in facts.items()) + ".", ""]
    lines += [
        "| peer | call | durability | peer's calls/s | rowlock's | ratio |",
        "| --- | --- | --- | ---: | ---: | ---: |",
    ]
    for row in rows:
        details = row.measured.details
        cells = [row.peer, row.call, f"`{row.durability}`", number(details[row.peer].median)]
        cells += [number(details["rowlock"].median), spread(row.measured.value)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def arguments(given: Sequence[str]) -> argparse.Namespace:
    """Parses the words after --peers; exits with a message if they are invalid."""
    parser = argparse.ArgumentParser(
        prog="python -m bench --peers", description="Measures rowlock beside other stores."
    )
    names = [peer.name for peer in PEERS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these: {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="smoke run: one round of short turns")
    parser.add_argument("--rounds", type=int, default=5, help="rounds for each ratio (default %(default)s)")
    parsed = parser.parse_args(given)
    unknown = [name for name in parsed.names if name.lower() not in [known.lower() for known in names]]
    if unknown:
        parser.error(f"unknown peer: {', '.join(unknown)}; there are {', '.join(names)}")
    if parsed.rounds < 1:
        parser.error("--rounds must be at least 1")
    return parsed


def main(given: Sequence[str]) -> int:
    """Runs the mode; returns its exit code: 1 if an installed peer failed."""
    options = arguments(given)
    wanted = [name.lower() for name in options.names]
    console = Console()
    facts = machine.facts()
    rows: list[Row] = []
    is_complete = not options.quick
    for peer in PEERS:
        if wanted and peer.name.lower() not in wanted:
            is_complete = False
            continue
        if peer.find() is None:
            console.print(f"{peer.name}: skipped, because there is no {peer.program} on this machine", highlight=False)
            continue
        with temporary_folder("peers") as folder:
            bench = Bench(folder, 1, 0.1) if options.quick else Bench(folder, options.rounds)
            try:
                rows += measure(peer, bench, lambda row: _report(console, row))
            except ProgramFailedError as failure:
                console.print(f"{peer.name}: {failure}", markup=False, highlight=False)
                return 1
    text = markdown(rows, facts)
    console.print(text, markup=False, highlight=False, soft_wrap=True)
    if is_complete:
        (_RESULTS / "peers.md").write_text(f"# Beside other stores\n\nMade by `make bench ARGS=--peers`.\n\n{text}")
        (_RESULTS / "peers.json").write_text(
            json.dumps({"machine": facts, "rows": [asdict(row) for row in rows]}, indent=2, ensure_ascii=False) + "\n"
        )
    return 0


def _report(console: Console, row: Row) -> None:
    console.print(f"{row.peer}, {row.call} at {row.durability}: {spread(row.measured.value)}", highlight=False)
