"""Bulk writes beside the model: some replace a range, some are aborted, some are made again with the same identity.

What is staged, aborted or repeated must change no answer, and a commit all of them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

import rowlock

from tests.soak.drawn_cells import CellDraw, CellsModel, DrawnCell, apply, arrow_of

Bounds = tuple[bytes, bytes]
_REPLACED_SHARE, _ABORTED_SHARE, _IDENTIFIED_SHARE, _REPEATED_SHARE = 0.3, 0.25, 0.6, 0.5
_BATCHES_MAX = 3
_ROWS_MAX = 150


class BulkWrites:
    """Bulk writes to some rows of a table, which nobody else changes meanwhile. Used by one thread.

    rows: in their order. judge: compares the rows of a range with the model; it takes the name of the step.
    """

    def __init__(
        self,
        name: str,
        table: str,
        rows: Sequence[bytes],
        model: CellsModel,
        judge: Callable[[str, Bounds], None],
        draw: CellDraw,
        generator: random.Random,
        *,
        replaced_rows_max: int,
    ) -> None:
        self._name = name
        self._table = table
        self._rows = rows
        self._model = model
        self._judge = judge
        self._draw = draw
        self._random = generator
        self._replaced_rows_max = replaced_rows_max
        self._number = 0  # of the last identity
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []

    def write(self, client: rowlock.Client) -> None:
        """Makes one, and judges the rows that it concerns."""
        is_replacing = self._random.random() < _REPLACED_SHARE
        rows = self._drawn_rows(is_replacing=is_replacing)
        bounds = (rows[0], rows[-1] + b"\x00")
        identity = self._drawn_identity()
        with client.bulk_write(
            self._table, replace=is_replacing, start=bounds[0], stop=bounds[1], identity=identity, purpose=self._name
        ) as write:
            batches = self._stage(write, rows)
            if self._random.random() < _ABORTED_SHARE:
                self._judge("staged rows", bounds)
                write.abort()
                self._judge("an aborted bulk write", bounds)
                self.counts["bulk writes aborted"] += 1
                return
            self._commit(write, is_expected_repeated=False)
        self._apply(batches, bounds if is_replacing else None)
        self._judge(f"a bulk write{' that replaces' if is_replacing else ''}", bounds)
        self.counts["bulk writes committed"] += 1
        self.counts["bulk writes that replace a range"] += is_replacing
        self.counts["bulk writes over several regions"] += (
            len(client.regions(self._table, start=rows[0], stop=bounds[1])) > 1
        )
        if identity is not None and self._random.random() < _REPEATED_SHARE:
            self._repeat(client, identity, is_replacing=is_replacing)

    def _drawn_rows(self, *, is_replacing: bool) -> Sequence[bytes]:
        """Returns a few rows next to each other, to be replaced, or any."""
        if not is_replacing:
            return sorted(self._random.sample(self._rows, min(len(self._rows), self._random.randint(2, _ROWS_MAX))))
        count = min(len(self._rows), self._random.randint(2, self._replaced_rows_max))
        first = self._random.randrange(len(self._rows) - count + 1)
        return self._rows[first : first + count]

    def _drawn_identity(self) -> tuple[str, int] | None:
        if self._random.random() >= _IDENTIFIED_SHARE:
            return None
        self._number += 1
        return self._name, self._number

    def _stage(self, write: rowlock.BulkWrite, rows: Sequence[bytes]) -> list[list[DrawnCell]]:
        """Stages some batches, of which a later one changes what an earlier one has changed."""
        batches = []
        for _ in range(self._random.randint(1, _BATCHES_MAX)):
            family = self._random.choice([b"f", b"f", b"g", b"e"])
            chosen = [row for row in rows if self._random.random() < 0.8] or rows[:1]
            batch = [self._draw.cell(row, self._draw.column(family), 0.15) for row in chosen]
            write.write(arrow_of(batch))
            batches.append(batch)
        return batches

    def _commit(self, write: rowlock.BulkWrite, *, is_expected_repeated: bool) -> None:
        is_repeated = write.commit().is_repeated
        if is_repeated != is_expected_repeated:
            self.problems.append(f"a commit answered is_repeated={is_repeated}, expected {is_expected_repeated}")

    def _apply(self, batches: Sequence[Sequence[DrawnCell]], replaced: Bounds | None) -> None:
        if replaced is not None:
            self._model.delete_rows(*replaced)
        for batch in batches:
            apply(batch, self._model)

    def _repeat(self, client: rowlock.Client, identity: tuple[str, int], *, is_replacing: bool) -> None:
        """Commits other rows with an identity that was committed before: nothing may change."""
        rows = self._drawn_rows(is_replacing=is_replacing)
        bounds = (rows[0], rows[-1] + b"\x00")
        with client.bulk_write(
            self._table, replace=is_replacing, start=bounds[0], stop=bounds[1], identity=identity, purpose=self._name
        ) as write:
            self._stage(write, rows)
            self._commit(write, is_expected_repeated=True)
        self._judge("a repeated identity", bounds)
        self.counts["bulk writes with a repeated identity"] += 1
