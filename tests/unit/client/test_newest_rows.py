"""Rows with their newest values, as a server sends them: read as they are, and refused where they make no sense."""

from __future__ import annotations

import random

import pytest
from rowlock import ServerError
from rowlock._codec.newest_rows import read_newest_rows
from rowlock_proto.v1.region_pb2 import ColumnSet, NewestRows

Rows = list[tuple[bytes, dict[bytes, bytes]]]


def message_of(rows: Rows) -> NewestRows:
    sets = sorted({tuple(columns) for _, columns in rows})
    pieces = [piece for row, columns in rows for piece in (row, *columns.values())]
    return NewestRows(
        column_sets=[ColumnSet(columns=names) for names in sets],
        sets_of_rows=[sets.index(tuple(columns)) for _, columns in rows] if len(sets) > 1 else [],
        lengths=map(len, pieces),
        data=b"".join(pieces),
    )


def test_rows_are_read_as_they_were_sent() -> None:
    chance = random.Random(5)
    for _ in range(100):
        rows: Rows = []
        for number in range(chance.randrange(1, 9)):
            names = sorted(
                chance.sample([b"f:a", b"f:b", b"g:", b"g:\xff"], chance.choice([2, 2, chance.randrange(1, 5)]))
            )
            rows.append((b"%d" % number, {name: chance.randbytes(chance.choice([0, 1, 300])) for name in names}))
        found = read_newest_rows(message_of(rows))
        assert list(found.expanded(bytes)) == rows


def test_values_and_names_are_decoded() -> None:
    found = read_newest_rows(message_of([(b"r", {b"f:a": b"x"})]))
    assert list(found.expanded(bytes.decode)) == [("r", {"f:a": "x"})]


GOOD = [(b"r1", {b"f:a": b"1"}), (b"r2", {b"f:a": b"2", b"f:b": b"3"})]


@pytest.mark.parametrize(
    "change",
    [
        lambda message: message.ClearField("column_sets"),
        lambda message: message.ClearField("lengths"),
        lambda message: message.ClearField("data"),
        lambda message: message.ClearField("sets_of_rows"),
        lambda message: message.column_sets.add(),
        lambda message: message.lengths.append(0),
        lambda message: message.lengths.append(1 << 31),
        lambda message: message.lengths.pop(),
        lambda message: message.sets_of_rows.append(0),
        lambda message: message.sets_of_rows.append(7),
        lambda message: message.Clear(),
    ],
)
def test_a_message_that_contradicts_itself_is_refused(change: object) -> None:
    message = message_of(GOOD)
    assert callable(change)
    change(message)
    with pytest.raises(ServerError, match="damaged"):
        read_newest_rows(message)
