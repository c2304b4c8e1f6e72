"""RowPuts: the puts of a row that came as values are checked and made as if each were a put of its own."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from rowlock_proto.v1.region_pb2 import ColumnSet, RowValues
from rowlock_regionserver.cells import PUT, Durability, Family
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import LimitExceededError, RegionServerError
from rowlock_regionserver.operations import Put, RowMutation
from rowlock_regionserver.region.check import check_mutation
from rowlock_regionserver.region.mutate.conditional import families_read
from rowlock_regionserver.region.mutate.row_changer import are_puts, only_puts
from rowlock_regionserver.row_puts import PutColumns, RowPuts
from rowlock_regionserver.rpc.messages.row_values import puts_of
from rowlock_regionserver.table import Table

from tests.seeds import drawn_seed

TABLE = Table("t", 1, (Family(3, b"f"), Family(5, b"g")), Durability.FSYNC)
STAMP = 50


def message(columns: list[bytes], values: list[bytes]) -> RowValues:
    lengths = b"".join([len(value).to_bytes(4, "little") for value in values])
    return RowValues(columns=ColumnSet(columns=columns).SerializeToString(), lengths=lengths, data=b"".join(values))


def outcome(mutation: RowMutation, config: Config) -> object:
    """Returns the bytes that CHECK counts, or its error."""
    try:
        return check_mutation(mutation, TABLE, config, 0)
    except LimitExceededError as error:
        return error.limit, error.message
    except RegionServerError as error:
        return type(error).__name__, error.message


def test_they_are_checked_and_made_as_single_puts_are() -> None:
    drawn = random.Random(drawn_seed())
    config = Config(qualifier_bytes_max=3, cell_bytes_max=6)
    outcomes: Counter[str] = Counter()
    for _ in range(400):
        count = drawn.randint(1, 7)
        family = drawn.choice([b"f", b"g", b"f", b"g", b"f", b"g", b"no"])
        names = drawn.sample([b"", b"a", b"b", b"aa", b"ab", b"b\x00", b"abc", b"z"], count)
        values = [drawn.randbytes(drawn.randint(0, 6)) for _ in range(count)]
        if drawn.random() < 0.2:
            names[drawn.randrange(count)] = b"abcd"
        if drawn.random() < 0.2:
            values[drawn.randrange(count)] = bytes(7)
        puts = puts_of(message([family + b":" + name for name in names], values))
        assert type(puts) is RowPuts
        singles = tuple([Put(family, name, value) for name, value in zip(names, values, strict=True)])
        assert puts == singles
        assert singles == puts
        assert hash(puts) == hash(singles)
        found = outcome(RowMutation(b"row", puts), config)
        assert found == outcome(RowMutation(b"row", singles), config)
        if isinstance(found, int):
            assert only_puts(puts, TABLE.by_name, STAMP) == only_puts(singles, TABLE.by_name, STAMP)
            outcomes["made"] += 1
        else:
            assert isinstance(found, tuple)
            outcomes[found[0]] += 1
    assert set(outcomes) == {"made", "FamilyNotFoundError", "qualifier_bytes_max", "cell_bytes_max"}


def test_they_are_in_the_order_of_their_columns() -> None:
    puts = puts_of(message([b"g:c", b"g:a", b"g:b"], [b"1", b"", b"333"]))
    assert only_puts(puts, TABLE.by_name, STAMP) == [
        (5, [(b"a", -STAMP, PUT, b""), (b"b", -STAMP, PUT, b"333"), (b"c", -STAMP, PUT, b"1")])
    ]


@pytest.mark.parametrize(
    ("columns", "cells"),
    [
        pytest.param([b"f:a", b"g:b"], [(3, [b"1"]), (5, [b"2"])], id="two families"),
        pytest.param([b"f:a", b"f:a"], [(3, [b"2"])], id="one column twice"),
    ],
)
def test_others_are_single_puts(columns: list[bytes], cells: list[tuple[int, list[bytes]]]) -> None:
    puts = puts_of(message(columns, [b"1", b"2"]))
    assert puts == (Put(columns[0][:1], columns[0][2:], b"1"), Put(columns[1][:1], columns[1][2:], b"2"))
    made = only_puts(puts, TABLE.by_name, STAMP)
    assert [(number, [cell[3] for cell in of_family]) for number, of_family in made] == cells


def test_they_are_a_sequence_of_puts_that_read_nothing() -> None:
    columns = PutColumns(b"f", [b"a", b"b", b"c"])
    puts = RowPuts(columns, [b"1", b"2", b"3"], 3, 1)
    singles = (Put(b"f", b"a", b"1"), Put(b"f", b"b", b"2"), Put(b"f", b"c", b"3"))
    assert len(puts) == 3
    assert [*puts] == [*singles]
    assert puts[1] == singles[1]
    assert puts[-1] == singles[-1]
    assert puts[1:] == singles[1:]
    assert puts != singles[1:]
    assert puts != 3
    assert repr(puts) == repr(singles)
    assert are_puts(puts)
    assert not families_read(RowMutation(b"row", puts))
