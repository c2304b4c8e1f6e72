"""Random single-bit flips in the log, store files, manifests, the catalog and bulk files never give a wrong answer.

A store is left as after a kill: some data is flushed, some in the log, proven by the marker of an idle log, and some in
bulk files that the log names. One bit is flipped in a copy, spread evenly over every structure of the files. Then a
child opens the copy and reads each row, absent rows, and everything by scans in both directions. Every answer must be
right, or a CorruptionError that names the flipped file; the child must not die by a signal. No bit is flipped twice, so
a thousand flips are a thousand different damages.
"""

from __future__ import annotations

import itertools
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.files import Files
from rowlock_regionserver.operations import Delete, DeleteKind, Increment, Put

from tests.crash.account import Account, Settings
from tests.crash.children import ChildFailedError, in_child, spread
from tests.crash.driver import Driver, got, scanned, small_config
from tests.crash.folders import copied, folder
from tests.crash.life import DONE, Judge
from tests.crash.simulated_files import UnsyncedFiles
from tests.crash.steps import BulkWrite, CreateTable, Flush, Rows, RowWrite, Step, Store
from tests.crash.structures import MARKER, Structure, log_records, structures

PROMISE = "single-bit flips in every structure: the right answer, or an error that names the file"
FILE_KINDS = ("log", "store file", "manifest", "catalog", "bulk file")
FLIPS_A_KIND = 1000
FLIPS_A_KIND_SHORT = 12
ABSENT_ROWS = (b"a", b"row", b"row-0000", b"row-9999", b"zzz")
WAIT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Flip:
    """One bit of a structure's file."""

    structure: Structure
    offset: int
    bit: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """A child's result: how many answers were right, how many raised a named CorruptionError, and what was wrong."""

    right: int
    refused: int
    problem: str | None


def run(settings: Settings) -> Account:
    """Runs the campaign, with equally many flips in each kind of file."""
    account = Account("bit_flips", PROMISE)
    with folder() as root:
        base = root / "base"
        expected = in_child(lambda: _live(base))
        flips_a_kind = FLIPS_A_KIND_SHORT if settings.is_short else FLIPS_A_KIND
        flips = drawn(structures(base), random.Random(settings.seed), flips_a_kind)
        seen: Counter[str] = Counter()
        noticed: Counter[str] = Counter()
        for flip, outcome in spread(lambda flip: flipped(base, root, flip, expected), flips):
            where = f"{flip.structure.file_kind}: {flip.structure.name}"
            seen[where] += 1
            noticed[where] += outcome.refused > 0
            account.counts[f"flips in {flip.structure.file_kind}"] += 1
            account.counts["right answers"] += outcome.right
            account.counts["refused, and the file named"] += outcome.refused
            if outcome.problem is not None:
                account.problems.append(f"{where}, byte {flip.offset}, bit {flip.bit}: {outcome.problem}")
        account.notes += [f"{where}: {count}, {noticed[where]} noticed" for where, count in sorted(seen.items())]
        for file_kind in FILE_KINDS:
            if account.counts[f"flips in {file_kind}"] < flips_a_kind:
                account.problems.append(f"fewer than {flips_a_kind} flips in {file_kind}: it has too few bits")
    return account


def flipped(base: Path, root: Path, flip: Flip, expected: Store) -> Outcome:
    """Flips the bit in a copy, which a child reads."""
    where = flip.structure.path.relative_to(base)
    target = copied(base, root / f"{where.name}-{flip.offset}-{flip.bit}")
    with (target / where).open("r+b") as file:
        file.seek(flip.offset)
        byte = file.read(1)[0]
        file.seek(flip.offset)
        file.write(bytes([byte ^ 1 << flip.bit]))
    try:
        return in_child(lambda: Reader(target, where.name).read(expected))
    except ChildFailedError as error:
        return Outcome(0, 0, str(error))
    finally:
        shutil.rmtree(target)


class Reader:
    """Reads a store that may be damaged in one file, and checks each answer."""

    def __init__(self, root: Path, damaged_name: str) -> None:
        self._root = root
        self._damaged_name = damaged_name
        self._right = 0
        self._refused = 0
        self._problem: str | None = None

    def read(self, expected: Store) -> Outcome:
        driver: list[Driver] = []
        self._ask("opening", lambda: driver.append(Driver(self._root, UnsyncedFiles(), small_config())), None)
        if driver:
            server = driver[0].server
            self._ask("tables", lambda: [table.name for table in server.tables()], sorted(expected))
            for name, table in expected.items():
                self._read_table(driver[0], name, table.rows)
        return Outcome(self._right, self._refused, self._problem)

    def _read_table(self, driver: Driver, name: str, rows: Rows) -> None:
        for row in (*rows, *ABSENT_ROWS):
            right = {row: rows[row]} if row in rows else {}
            self._ask(f"get {row!r}", lambda row=row: got(driver.region(name, row), [row]), right)  # type: ignore[misc]
        for reverse in (False, True):
            self._ask("scan", lambda reverse=reverse: scanned(driver.region(name, b"a"), reverse=reverse), rows)  # type: ignore[misc]

    def _ask(self, what: str, ask: Callable[[], object], right: object) -> None:
        try:
            answer = ask()
        except CorruptionError as error:
            if error.path.name == self._damaged_name:
                self._refused += 1
            else:
                self._problem = f"{what}: the error names another file: {error}"
            return
        if answer == right:
            self._right += 1
        else:
            self._problem = f"{what}: wrong answer {answer!r:.200}, expected {right!r:.200}"


def life(chance: random.Random) -> list[Step]:
    """Returns a life with data flushed twice, only in the log, and in bulk files, with tombstones and old versions."""
    steps: list[Step] = [CreateTable("flights", (b"info", b"stats")), CreateTable("other", (b"info",))]

    def writes(count: int) -> list[Step]:
        return [_write(chance, len(steps) + place) for place in range(count)]

    for _ in range(2):
        steps += writes(60)
        steps += [_bulk(chance, 40), _bulk(chance, 40, as_rows=True), Flush("flights"), *writes(5), Flush("other")]
    steps += writes(20)
    steps += [_bulk(chance, 5), *writes(10), _bulk(chance, 40), *writes(5), _bulk(chance, 30, as_puts=True), *writes(5)]
    steps += [_bulk(chance, 5, as_rows=True), *writes(5), _bulk(chance, 40, as_rows=True), *writes(5)]
    return steps


def _write(chance: random.Random, number: int) -> Step:
    row = b"row-%04d" % chance.randrange(40)
    value = b"%06d" % number
    puts = (Put(b"info", b"a", value), Put(b"stats", b"a", value), Put(b"stats", b"text", chance.randbytes(150)))
    match chance.randrange(6):
        case 0:
            return RowWrite("flights", row, (Delete(DeleteKind.ROW), *puts[:1]), Durability.OS)
        case 1:
            return RowWrite("flights", b"count", (Increment(b"stats", b"n", 1),), Durability.OS)
        case 2:
            return RowWrite("other", row, puts[:1], Durability.OS)
        case _:
            return RowWrite("flights", row, puts, Durability.OS)


def _bulk(chance: random.Random, row_count: int, *, as_rows: bool = False, as_puts: bool = False) -> Step:
    cells = [(b"row-%04d" % (40 + place), b"info", b"b", chance.randbytes(60)) for place in range(row_count)]
    return BulkWrite("flights", tuple(cells), Durability.OS, as_rows, as_puts)


def _live(base: Path) -> Store:
    """Runs the life, waits for the idle marker that proves the log's tail, and ends as by a kill; returns the rows."""
    base.mkdir(mode=0o700)
    driver = Driver(base, Files(), small_config(log_segment_bytes=16 * 1024, log_segment_count_max=100))
    steps = life(random.Random(7))
    progress = bytearray(len(steps))
    driver.live(steps, progress)
    _wait_for_marker(base)
    store = driver.read_all()
    assert Judge(steps, progress, Durability.ASYNC).problem(store) is None
    assert set(progress) == {DONE}
    return store


def _wait_for_marker(base: Path) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    newest = max(path for path in (base / "log").iterdir() if path.stem.isdigit())
    while [record.kind for record in log_records(newest.read_bytes())][-1] != MARKER:
        assert time.monotonic() < deadline, "the log did not become idle"


def drawn(found: Sequence[Structure], chance: random.Random, flips_a_kind: int) -> list[Flip]:
    """The same number in each kind of file, and in it evenly over the kinds of structures; none is drawn twice.

    What is too small for its share has each of its bits flipped, and the others take the rest.
    """
    flips: list[Flip] = []
    for file_kind in FILE_KINDS:
        by_name: dict[str, list[Structure]] = {}
        for structure in found:
            if structure.file_kind == file_kind:
                by_name.setdefault(structure.name, []).append(structure)
        kinds = [
            _in_turn([_bits(structure, chance) for structure in by_name[name]], chance) for name in sorted(by_name)
        ]
        flips += itertools.islice(_in_turn(kinds, chance), flips_a_kind)
    return flips


def _bits(structure: Structure, chance: random.Random) -> Iterator[Flip]:
    """Yields each bit of the structure, in random order."""
    bit_count = 8 * (structure.stop - structure.start)
    for number in chance.sample(range(bit_count), min(bit_count, FLIPS_A_KIND)):
        yield Flip(structure, structure.start + number // 8, number % 8)


def _in_turn(sources: Sequence[Iterator[Flip]], chance: random.Random) -> Iterator[Flip]:
    """Yields items of the sources in turn, in one random order, until all are exhausted."""
    left = chance.sample(sources, len(sources))
    while left:
        for source in tuple(left):
            flip = next(source, None)
            if flip is None:
                left.remove(source)
            else:
                yield flip
