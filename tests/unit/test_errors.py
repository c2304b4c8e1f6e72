"""The length of an error's message is bounded: a request can fail in each of 100,000 rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    MESSAGE_CHARACTERS_MAX,
    CorruptionError,
    FamilyNotFoundError,
    InvalidRequestError,
    listed,
)
from rowlock_regionserver.operations import Increment, Put, RowMutation
from rowlock_regionserver.region.check import check_mutation
from rowlock_regionserver.scan.filters import check_family
from rowlock_regionserver.table import Table


def table_of(family_count: int) -> Table:
    families = tuple(Family(number, b"%s%03d" % (b"f" * 120, number)) for number in range(family_count))
    return Table("t", 1, families, Durability.FSYNC)


def test_a_long_list_is_cut_and_the_rest_counted() -> None:
    assert listed([b"a", b"b"]) == "a, b"
    assert listed([]) == ""
    assert listed([b"%03d" % number for number in range(1000)]).endswith(", 039 and 960 more")
    assert listed([b"x" * 500, b"y"]) == "x" * 500 + " and 1 more"


def test_the_error_for_an_unknown_family_among_a_thousand_is_short() -> None:
    table = table_of(1000)
    with pytest.raises(FamilyNotFoundError) as refused:
        check_mutation(RowMutation(b"r", (Put(b"no", b"q", b"v"),)), table, Config(), 0)
    assert len(refused.value.message) < 500
    assert "and 999 more" in refused.value.message
    with pytest.raises(FamilyNotFoundError) as refused:
        check_family(b"no", table.by_name)
    assert len(refused.value.message) < 500


def test_a_message_that_quotes_a_long_row_keeps_its_beginning_and_its_advice() -> None:
    row = b"\x00" * 30_000
    with pytest.raises(InvalidRequestError) as refused:
        check_mutation(RowMutation(row, (Increment(b"f" * 120 + b"000", b"q", 1 << 70),)), table_of(1), Config(), 0)
    message = refused.value.message
    assert len(message) <= MESSAGE_CHARACTERS_MAX
    assert message.startswith("increment of row '")
    assert message.endswith("the amount must fit 64 signed bits")
    assert refused.value.row is row
    assert len(str(CorruptionError(Path("p"), 0, "e" * 5000, "f"))) <= MESSAGE_CHARACTERS_MAX
