"""A random life of a small store, which crosses every edge at which a crash could fall, and a judge of what is left.

`small_life(seed)` is a list of steps: rows changed over two families, counters, conditions that hold or not, bulk
batches in the log and in files of their own, flushes, compactions, log rolls, tables created, altered, truncated and
dropped, and restarts. The steps are done one after the other, and `progress` has a byte for each: NOT_SENT, SENT or
DONE.

The judge's rule: a table operation must have happened if it is DONE, may have happened if it is SENT, and must not have
happened otherwise. Each table's rows are as some prefix of its writes left them: no row is incomplete, and nothing is
missing before a write that is there. The prefix includes at least the last write that was acknowledged at a durability
that survives the crash, and all writes that a flush or an orderly stop has put into store files.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.operations import Change, Delete, DeleteKind, Increment, Put

from tests.crash.steps import (
    AlterTable,
    BulkCommit,
    BulkWrite,
    Cells,
    Compact,
    CreateSnapshot,
    CreateTable,
    DataStep,
    DropSnapshot,
    DropTable,
    Flush,
    Merge,
    Restart,
    RestoreSnapshot,
    Rows,
    RowWrite,
    Split,
    StageBulk,
    Step,
    Store,
    TruncateTable,
    snapshot_key,
)

NOT_SENT, SENT, DONE = range(3)

_CATALOG_STEPS = (CreateTable, AlterTable, TruncateTable, DropTable, CreateSnapshot, RestoreSnapshot, DropSnapshot)


def small_life(seed: int, *, rounds: int = 3) -> list[Step]:
    """Returns about thirty steps a round; the first create the tables `flights` and `counters`."""
    chance = random.Random(seed)
    steps: list[Step] = [CreateTable("flights", (b"info", b"stats")), CreateTable("counters", (b"n",))]
    for number in range(rounds):
        steps += _row_writes(chance, len(steps), 8)
        steps.append(_bulk(len(steps), row_count=3, value_bytes=20, durability=chance.choice(_LOGGED)))
        steps += _row_writes(chance, len(steps), 4)
        steps.append(_bulk(len(steps), row_count=5, value_bytes=300, durability=chance.choice(_LOGGED), as_rows=True))
        steps.append(Flush("flights"))
        steps += _row_writes(chance, len(steps), 4)
        steps += _catalog_work(chance, len(steps), number)
        steps.append(_bulk(len(steps), row_count=4, value_bytes=250, durability=chance.choice(_LOGGED)))
        steps.append(_bulk(len(steps), row_count=9, value_bytes=20, durability=chance.choice(_LOGGED), as_rows=True))
        steps += [Flush("flights"), Compact("flights", is_major=number % 2 == 1)]
        steps.append(_bulk(len(steps), row_count=6, value_bytes=30, durability=chance.choice(_LOGGED), as_puts=True))
        steps += _row_writes(chance, len(steps), 3)
        steps.append(Restart() if number % 2 == 0 else Flush("counters"))
    return steps


def compacting_life(seed: int, *, rounds: int = 3) -> list[Step]:
    """Returns a life of many store files: rows are overwritten and deleted, and compacted while newer files come."""
    chance = random.Random(seed)
    steps: list[Step] = [CreateTable("flights", (b"info", b"stats")), CreateTable("counters", (b"n",))]
    for number in range(rounds):
        for _ in range(3):
            steps += _row_writes(chance, len(steps), 5)
            if chance.random() < 0.5:
                steps.append(_bulk(len(steps), row_count=3, value_bytes=20, durability=Durability.OS, as_rows=True))
            steps.append(Flush("flights"))
        steps += [Compact("flights", is_major=number % 2 == 1), Flush("counters")]
    return [*steps, Compact("counters", is_major=True), *_row_writes(chance, len(steps) + 1, 2)]


def splitting_life(seed: int, *, rounds: int = 1) -> list[Step]:
    """Returns a life whose table `flights` is split and merged after writes that are flushed, compacted or only logged.

    All its writes are synced: of others a flush may make those of one region durable before earlier ones of another.
    """
    chance = random.Random(seed)
    steps: list[Step] = [CreateTable("flights", (b"info", b"stats")), CreateTable("counters", (b"n",))]

    def write(count: int) -> None:
        steps.extend(_row_writes(chance, len(steps), count, (Durability.FSYNC,)))
        if chance.random() < 0.3:
            as_puts = chance.random() < 0.5
            size = chance.choice((20, 300))
            steps.append(
                _bulk(
                    len(steps),
                    row_count=4,
                    value_bytes=size,
                    durability=Durability.FSYNC,
                    as_rows=not as_puts,
                    as_puts=as_puts,
                )
            )

    for number in range(rounds):
        write(3)
        if chance.random() < 0.5:
            steps.append(Flush("flights"))
            write(2)
        steps.append(Split("flights", _SPLIT_ROWS[number % len(_SPLIT_ROWS)]))
        write(3)
        if chance.random() < 0.5:
            steps.append(Compact("flights", is_major=chance.random() < 0.5))
        steps.append(Split("flights", chance.choice(_SPLIT_ROWS)))
        write(2)
        steps.append(Merge("flights", b"zzz" if number % 2 else b"row-2"))
        write(1)
    return [*steps, Restart(), Merge("flights", b"zzz"), Compact("flights", is_major=True), Split("flights", b"row-2")]


def snapshotting_life(seed: int) -> list[Step]:
    """Returns a life of named snapshots: tables are restored from them after the first table has changed.

    All its writes are synced, for the reason that splitting_life has.
    """
    chance = random.Random(seed)
    steps: list[Step] = [CreateTable("flights", (b"info", b"stats")), CreateTable("counters", (b"n",))]

    def write(count: int) -> None:
        steps.extend(_row_writes(chance, len(steps), count, (Durability.FSYNC,)))

    def write_to(table: str) -> None:
        put_and_count = (Put(b"info", b"delay", b"%06d" % len(steps)), Increment(b"stats", b"changes", 1))
        steps.append(RowWrite(table, b"row-%d" % chance.randrange(6), put_and_count, Durability.FSYNC))

    write(3)
    if chance.random() < 0.5:
        steps.append(Flush("flights"))
    steps.append(Split("flights", chance.choice(_SPLIT_ROWS)))
    write(2)
    steps.append(CreateSnapshot("first", "flights"))
    write(2)
    changes: list[Step] = [TruncateTable("flights"), Compact("flights", is_major=True), Merge("flights", b"zzz")]
    steps.append(chance.choice(changes))
    write(2)
    steps += [CreateSnapshot("second", "flights"), RestoreSnapshot("first", "copy")]
    write_to("copy")
    if chance.random() < 0.5:
        steps += [Flush("copy"), Compact("copy", is_major=True)]
    write_to("copy")
    steps += [DropSnapshot("first"), DropTable("copy"), RestoreSnapshot("second", "copy")]
    write_to("copy")
    steps += [Restart(), DropSnapshot("second")]
    write_to("copy")
    return steps


def committing_life(seed: int) -> list[Step]:
    """Returns a life of bulk writes that are committed over the four regions of a table, each in one of four ways.

    They are small or large, and replace the table's rows or not. Some are staged before a split, a restart or other
    work. One is staged and never committed. All writes are synced, for the reason that splitting_life has.
    """
    chance = random.Random(seed)
    ways = [(replaces, is_large) for replaces in (False, True) for is_large in (False, True)]
    chance.shuffle(ways)
    steps: list[Step] = [CreateTable("flights", (b"info", b"stats"), (b"g", b"m", b"t"))]

    def write(count: int) -> None:
        for _ in range(count):
            put_and_count = (Put(b"info", b"delay", b"%06d" % len(steps)), Increment(b"stats", b"changes", 1))
            steps.append(RowWrite("flights", chance.choice(_COMMIT_ROWS), put_and_count, Durability.FSYNC))

    never_committed = _commit(len(steps), replaces=True, is_large=chance.random() < 0.5)
    steps.append(StageBulk(replace(never_committed, batches=never_committed.batches[1:])))
    between: list[list[Step]] = [[Split("flights", b"c")], [Restart()], [Flush("flights")], []]
    chance.shuffle(between)
    for (replaces, is_large), works in zip(ways, between, strict=True):
        write(2)
        commit = _commit(len(steps), replaces=replaces, is_large=is_large)
        if works or chance.random() < 0.5:
            steps += [StageBulk(commit), *works]
            write(1)
        steps.append(commit)
    write(1)
    return [*steps, Compact("flights", is_major=chance.random() < 0.5), Restart()]


# Two rows of each region; the split of a life divides none of these pairs.
_COMMIT_ROWS = (b"a", b"b", b"h", b"k", b"n", b"p", b"x", b"z")


def _commit(number: int, *, replaces: bool, is_large: bool) -> BulkCommit:
    """Returns a commit of two batches, one of rows of each region, and one that changes a row of the first again."""

    def cells(rows: Sequence[bytes], value: bytes) -> Cells:
        names = ((b"info", b"delay"), (b"stats", b"seen"))
        return tuple((row, family, qualifier, value) for row in rows for family, qualifier in names)

    value = b"commit %06d" % number
    batches = (cells(_COMMIT_ROWS, value), cells(_COMMIT_ROWS[:1], value + b" again"))
    return BulkCommit(f"job-{number}", "flights", batches, replaces, is_large)


# No two rows of a bulk batch are in different regions: it would be two batches, each atomic by itself.
_SPLIT_ROWS = (b"row-2", b"checked", b"row-4", b"d")
_LOGGED = (Durability.FSYNC, Durability.FSYNC, Durability.OS, Durability.ASYNC)


def _row_writes(
    chance: random.Random, first: int, count: int, durabilities: Sequence[Durability] = _LOGGED
) -> list[Step]:
    """Generates steps. Writes store their own number, so that no two states of a row are equal."""
    return [_row_write(chance, number, durabilities) for number in range(first, first + count)]


def _row_write(chance: random.Random, number: int, durabilities: Sequence[Durability]) -> Step:
    durability = chance.choice(durabilities)
    row = b"row-%d" % chance.randrange(6)
    value = b"%06d" % number
    puts: tuple[Change, ...] = (
        Put(b"info", b"delay", value),
        Put(b"info", b"text", value * chance.choice((1, 8, 40))),
        Put(b"stats", b"seen", value),
    )
    match chance.randrange(8):
        case 0 | 1:
            return RowWrite("counters", b"all", (Increment(b"n", b"total", 1 + number),), durability)
        case 2:
            return RowWrite("flights", row, (*puts, Increment(b"stats", b"changes", 1)), durability)
        case 3:
            return RowWrite("flights", row, (Delete(DeleteKind.ROW), Put(b"info", b"again", value)), durability)
        case 4:
            return RowWrite("flights", row, (Delete(DeleteKind.ROW),), durability)
        case 5:
            # The value may or may not be there, so conditions hold or fail.
            return RowWrite("flights", b"checked", (Put(b"info", b"a", b"%d" % (number % 2)), *puts), durability)
        case 6:
            return RowWrite("flights", b"checked", puts, durability, expected=(b"info", b"a", b"%d" % (number % 2)))
        case _:
            return RowWrite("flights", row, puts, durability)


def _bulk(
    number: int,
    *,
    row_count: int,
    value_bytes: int,
    durability: Durability,
    as_rows: bool = False,
    as_puts: bool = False,
) -> Step:
    value = (b"bulk %06d " % number).ljust(value_bytes, b".")
    cells = [
        (b"bulk-%d" % row, family, qualifier, value)
        for row in range(row_count)
        for family, qualifier in ((b"info", b"delay"), (b"stats", b"seen"))
    ]
    return BulkWrite("flights", tuple(cells), durability, as_rows, as_puts)


def _catalog_work(chance: random.Random, first: int, number: int) -> list[Step]:
    """Returns steps that create, fill, alter, truncate, drop and re-create a table, with and without a flush between.

    Each put has another value, and the new table has fewer columns, so the old table's content would show in it.
    """
    extra = f"extra-{number}"

    def put(family: bytes) -> Step:
        return RowWrite(extra, b"r", (Put(family, b"q", b"%06d" % (first + len(steps))),), chance.choice(_LOGGED))

    steps: list[Step] = [CreateTable(extra, (b"f", b"g"))]
    steps += [put(b"f"), put(b"g"), AlterTable(extra, added=b"h"), put(b"h")]
    if chance.random() < 0.6:
        steps.append(Flush(extra))
    steps += [put(b"g"), AlterTable(extra, dropped=b"h"), put(b"f")]
    if chance.random() < 0.6:
        steps += [TruncateTable(extra), put(b"g")]
    if number == 0 or chance.random() < 0.7:
        steps += [DropTable(extra), CreateTable(extra, (b"f", b"g")), put(b"f")]
        if chance.random() < 0.3:
            steps.append(DropTable(extra))
    return steps


@dataclass(frozen=True, slots=True)
class Judge:
    """Decides whether the contents after a restart are allowed. Writes at durability `survives` must be there."""

    steps: Sequence[Step]
    progress: Sequence[int]
    survives: Durability

    def problem(self, found: Store) -> str | None:
        """Returns why these contents are not allowed, or None when they are."""
        problems = [self._problem(found, catalog) for catalog in self._catalogs()]
        return None if None in problems else problems[0]

    def in_flight(self) -> int | None:
        """Returns the step that was sent and not answered."""
        return next((number for number, state in enumerate(self.progress) if state == SENT), None)

    def _catalogs(self) -> list[set[int]]:
        """Returns the allowed sets of table operations."""
        done = {
            number
            for number, step in enumerate(self.steps)
            if isinstance(step, _CATALOG_STEPS) and self.progress[number] == DONE
        }
        in_flight = self.in_flight()
        if in_flight is None or not isinstance(self.steps[in_flight], _CATALOG_STEPS):
            return [done]
        return [done, done | {in_flight}]

    def _problem(self, found: Store, catalog: set[int]) -> str | None:
        expected = self._state(catalog, None, -1)
        if {name: table.families for name, table in found.items()} != {
            name: table.families for name, table in expected.items()
        }:
            return f"tables {sorted(found)} and their families were found, expected {sorted(expected)}"
        for name in sorted(found):
            allowed = [self._state(catalog, name, last)[name].rows for last in self._ends(name)]
            if found[name].rows not in allowed:
                return f"table {name}: {difference(found[name].rows, allowed[0])}"
        return None

    def _ends(self, table: str) -> list[int]:
        """Yields the last write of each allowed prefix, the shortest first; -1 for the empty prefix."""
        ends = [-1]
        for number, step in enumerate(self.steps):
            state = self.progress[number]
            if isinstance(step, DataStep) and step.table == table and state in (SENT, DONE):
                if state == DONE and step.durability >= self.survives and self.is_written(number):
                    ends.clear()
                ends.append(number)
            elif state == DONE and (
                isinstance(step, Restart) or (isinstance(step, Flush | CreateSnapshot) and step.table == table)
            ):
                del ends[:-1]
        return ends

    def is_written(self, number: int) -> bool:
        """Returns whether the step's condition held; a failed one proves nothing about the writes before it."""
        step = self.steps[number]
        if not isinstance(step, RowWrite) or step.expected is None:
            return True
        return step.is_met(self._state(self._catalogs()[0], step.table, number - 1, number)[step.table].rows)

    def _state(self, catalog: set[int], table: str | None, last: int, stop: int | None = None) -> Store:
        """Returns the store after the table operations in `catalog` and the table's writes up to `last`.

        A named snapshot has all writes before it, because they were answered. `stop`: the first step that is left out.
        """
        store: Store = {}
        for number, step in enumerate(self.steps[:stop]):
            if isinstance(step, CreateSnapshot) and number in catalog:
                source = self._state(catalog, step.table, number, number)
                step.apply(source)
                store[snapshot_key(step.name)] = source[snapshot_key(step.name)]
            elif isinstance(step, _CATALOG_STEPS):
                if number in catalog:
                    step.apply(store)
            elif isinstance(step, DataStep):
                may_apply = step.table == table and number <= last and self.progress[number] in (SENT, DONE)
                if may_apply and step.table in store:
                    step.apply(store[step.table].rows)
        return store


def difference(found: Rows, expected: Rows) -> str:
    """Formats the first few rows that differ, as found and as the shortest prefix expects."""
    rows = [row for row in sorted({*found, *expected}) if found.get(row) != expected.get(row)]
    parts = []
    for row in rows[:3]:
        was, should = found.get(row, {}), expected.get(row, {})
        names = [name for name in sorted({*was, *should}) if was.get(name) != should.get(name)]
        parts += [f"{row!r} {name!r} is {was.get(name)!r:.60}, expected {should.get(name)!r:.60}" for name in names[:2]]
    return f"{len(rows)} rows differ: " + "; ".join(parts)
