"""exists, count and delete_range against a real server; and a regular expression in a filter."""

from __future__ import annotations

from typing import Any

import pytest
import rowlock
from rowlock import column, row_key
from rowlock._core.batch_send import BatchSend
from rowlock.errors import InvalidArgumentError

FLIGHTS = "carrier STRING :key ordered, number INT :key ordered, delay INT info:delay, fare DECIMAL(9,2) info:fare"


@pytest.fixture
def table(rowlock_client: rowlock.Client) -> rowlock.Table[bytes]:
    """Rows r0000 to r2499; f:odd is 0 or 1."""
    table = rowlock_client.create_table("t", ["f", "g"])
    with table.batch() as batch:
        for number in range(2500):
            batch.put(f"r{number:04d}", {"f:odd": str(number % 2), "g:x": "y"})
    return table


def test_what_exists_is_counted(table: rowlock.Table[bytes], rowlock_client: rowlock.Client) -> None:
    assert table.exists("r0000")
    assert not table.exists("r")
    assert table.count() == 2500
    assert table.count("r0100", "r0200") == 100
    assert table.count(prefix="r00", where=column("f:odd") == "1") == 50
    assert table.count(ranges=[("r0000", "r0010"), ("r2490", None)]) == 20
    assert table.count(columns=["g:none"]) == 0
    with rowlock_client.snapshot("t") as snapshot:
        table.delete("r0000")
        assert (table.count(), table.count(snapshot=snapshot)) == (2499, 2500)
    assert not table.exists("r0000")
    assert table.scan(prefix="r1").count() == 1000


def test_ranges_are_deleted(table: rowlock.Table[bytes]) -> None:
    seen: list[int] = []
    assert table.delete_range("r0100", "r0200", where=column("f:odd") == "1", on_progress=seen.append) == 50
    assert seen == [50]
    assert (table.count(), table.exists("r0101"), table.exists("r0102")) == (2450, False, True)
    assert table.delete_range(prefix="r1") == 1000
    assert table.delete_range(prefix="r1") == 0
    assert table.delete_range(ranges=[(None, "r0010"), ("r2490", None)]) == 20
    assert table.delete_range("\0") == 1430
    assert table.count() == 0


def test_a_row_that_changed_after_it_was_found_stays(
    table: rowlock.Table[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = BatchSend.__init__

    def change_first(*arguments: Any, **named: Any) -> None:
        """Rows are found; one of them changes before the deletions are sent."""
        monkeypatch.setattr(BatchSend, "__init__", made)
        table.put("r0007", {"f:odd": "2"})
        made(*arguments, **named)

    monkeypatch.setattr(BatchSend, "__init__", change_first)
    assert table.delete_range(prefix="r000", where=column("f:odd") == "1") == 4
    assert table.row("r0007", ["f:odd"]) == {b"f:odd": b"2"}
    assert not table.exists("r0005")


def test_part_of_a_composite_key_deletes_a_range(rowlock_client: rowlock.Client) -> None:
    flights = rowlock_client.create_table("flights", mapping=FLIGHTS)
    for carrier in ("UA", "UAL", "DL"):
        for number in (-1, 9, 10):
            flights.put((carrier, number), {"delay": number, "fare": 1})
    assert flights.exists(("UA", -1))
    assert not flights.exists(("UA", 0))
    assert flights.count(prefix="UA") == 3
    assert flights.count(("UA", 0), "UAL", where=flights.column("delay") > 9) == 1
    assert flights.delete_range(prefix=("UA",), where=flights.column("delay") > 0) == 2
    assert [key for key, _ in flights.scan(prefix="UA")] == [("UA", -1)]
    with pytest.raises(rowlock.MappingError, match="the key has 2 parts"):
        flights.exists("UA")


def test_names_and_values_match_regular_expressions(table: rowlock.Table[bytes]) -> None:
    assert table.count(where=row_key().matches(r"^r\d*[05]0$")) == 50
    assert table.count(where=column("f:odd").matches("^[1-9]$") & row_key().starts_with("r00")) == 50
    assert table.count(where=~column("f:odd").matches("1")) == 1250
    # Bytes, and characters of UTF-8 text.
    table.put("bytes", {"f:v": b"\xff\x00\xc3\xa4"})
    assert table.count(where=column("f:v").matches(rb"^\xff\x00..$")) == 1
    assert table.count(where=column("f:v").matches(b"^.{3}$")) == 0
    table.put("text", {"f:v": "fünf"})
    assert table.count(where=column("f:v").matches("^f.nf$")) == 1
    # A missing column matches nothing.
    assert table.count(where=column("f:none").matches("")) == 0
    with pytest.raises(InvalidArgumentError, match=r"missing \)"):
        table.count(where=column("f:odd").matches("(a"))
    # RE2 has no look-ahead, so that no expression takes exponential time.
    with pytest.raises(InvalidArgumentError, match=r"invalid perl operator"):
        table.count(where=column("f:odd").matches("(?=a)"))


def test_a_failed_condition_lists_what_its_filters_read(table: rowlock.Table[bytes]) -> None:
    table.put("a", {"f:n": "5", "g:x": "1"})
    failed = table.check_and_mutate("a", [(column("f:n") == "6") | (column("f:none") == "1")], [rowlock.Delete()])
    assert (failed.applied, failed.seen) == (False, {b"f:n": b"5", b"f:none": None})
    both = table.check_and_mutate("a", [rowlock.Check("g:x", "1"), column("f:n").matches("5")], [rowlock.Delete()])
    assert (both.applied, both.seen) == (True, {b"f:n": b"5", b"g:x": b"1"})
