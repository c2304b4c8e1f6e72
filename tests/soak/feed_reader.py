"""Readers of the change feed that die at random, and what they have made of it, compared with the models.

A reader applies each batch to a copy of the table and stores the offset with it; the next one continues from there. So
a change that is lost, comes twice or comes in a wrong order leaves a copy that differs, or a write number that is not
greater than the one before it in its row.
"""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any

import pyarrow as pa
import rowlock

from tests.soak.model import STABLE_FAMILIES, UNKNOWN, VERSIONS, Read, Row, SliceModel, differences, family_of
from tests.soak.turnstile import Turnstile

_BATCHES_MAX = 6  # of one reader, unless it reads all
_COMPARED_SHARE = 0.1
_PAUSE_S_MAX = 1.0
# What no two changes have in common.
_IDENTITY = ("row", "family", "qualifier", "timestamp", "kind", "write_number")
_ALWAYS = Read(0, 0, 1)  # The copy has expired cells, as the models have.


class FeedReader:
    """Used by one thread.

    connect: returns a new connection. models: the slices of all writers, which stand still in `turnstile.alone()`.
    """

    def __init__(
        self,
        connect: Callable[[], AbstractContextManager[rowlock.Client]],
        table: str,
        models: Sequence[SliceModel],
        turnstile: Turnstile,
        generator: random.Random,
    ) -> None:
        self._connect = connect
        self._table = table
        self._models = models
        self._turnstile = turnstile
        self._random = generator
        self._copy = SliceModel()  # with all timestamps
        self._offset: dict[int, int] | None = None
        self._newest: dict[bytes, int] = {}  # the newest write number of each row
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []

    def turn(self) -> None:
        """Reads a little and dies, or reads all and compares. Then pauses."""
        if self._random.random() < _COMPARED_SHARE:
            with self._turnstile.alone():
                self.compare()
        else:
            self._read(self._random.randrange(_BATCHES_MAX))
            self.counts["readers of the change feed that died"] += 1
        time.sleep(self._random.uniform(0, _PAUSE_S_MAX))

    def compare(self) -> None:
        """Reads all that there is, and compares the copy with the models. No other thread may write meanwhile."""
        self._read(None)
        expected = dict(chain.from_iterable(model.rows.items() for model in self._models))
        found = sorted(_without_unknown(self._copy.rows).items())
        problems = differences(expected, found, _ALWAYS, families=STABLE_FAMILIES)
        self.problems += [f"the change feed: {problem}" for problem in problems]
        self.counts["times that the change feed was compared"] += 1

    def _read(self, batches_max: int | None) -> None:
        """Reads all, or so many batches and one more, of which nothing is stored."""
        unstored: list[pa.RecordBatch] = []
        with self._connect() as client:
            feed = client.changes(self._table, since=self._offset)
            for number, batch in enumerate(feed):
                if number == batches_max:
                    return
                unstored.append(batch)
                if not feed.is_partial:
                    self.take(unstored)
                    self._offset = feed.offset
                    unstored = []
            if unstored:
                self.problems.append("the change feed has ended within a write number")
            self._offset = feed.offset

    def take(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Applies the changes of batches that are stored with one offset: those of one number deletes first.

        Several are a number in parts. If their region is split or merged meanwhile, the next ones are of another one.
        """
        by_batch: list[list[dict[str, Any]]] = [batch.to_pylist() for batch in batches]
        changes = [change for of_batch in by_batch for change in of_batch]
        for of_one in (*by_batch, *_by_row(changes)):
            numbers = [change["write_number"] for change in of_one]
            if numbers != sorted(numbers):
                self.problems.append(f"changes of one batch or row are not in order of write number: {numbers}")
        before = {change["row"]: self._newest.get(change["row"], -1) for change in changes}
        for change in sorted(changes, key=lambda change: (change["write_number"], change["kind"] == "put")):
            row, number = change["row"], change["write_number"]
            if number <= before[row]:
                self.problems.append(f"the change feed has number {number} of {row!r} after {before[row]}: {change}")
            self._newest[row] = max(number, self._newest.get(row, -1))
            self._apply(row, change)
        cells = Counter(tuple(change[name] for name in _IDENTITY) for change in changes)
        self.problems += [f"the change feed has {cell} {count} times" for cell, count in cells.items() if count > 1]
        self.counts["changes that the feed had"] += len(changes)

    def _apply(self, row: bytes, change: Mapping[str, Any]) -> None:
        family, at, kind = change["family"], change["timestamp"], change["kind"]
        column = family + b":" + change["qualifier"]
        if kind == "put":
            self._copy.put(row, column, change["value"], at)
        elif kind == "delete_version":
            self._copy.delete_version(row, column, at)
        elif kind == "delete_column":
            self._copy.delete(row, column, at)
        else:
            self._copy.delete(row, family, at)


def _by_row(changes: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Returns the changes of each row, in their order."""
    of_rows: defaultdict[bytes, list[dict[str, Any]]] = defaultdict(list)
    for change in changes:
        of_rows[change["row"]].append(change)
    return list(of_rows.values())


def _without_unknown(rows: Mapping[bytes, Row]) -> dict[bytes, Row]:
    """Returns the rows as models have them: without the server's timestamps and the family that comes and goes."""
    stable = {name.encode() for name in STABLE_FAMILIES}
    shown = {
        row: {
            column: tuple((UNKNOWN if VERSIONS[family_of(column)] == 1 else at, value) for at, value in versions)
            for column, versions in columns.items()
            if family_of(column) in stable
        }
        for row, columns in rows.items()
    }
    return {row: columns for row, columns in shown.items() if columns}
