"""How a client reads a change feed: its requests, and the offset after each batch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from rowlock import InvalidArgumentError, ServerError
from rowlock._core.change_progress import CHANGE_SCHEMA, ChangeProgress
from rowlock._core.change_requests import checked_offset
from rowlock._core.features import check_has_changes
from rowlock_proto.v1.region_pb2 import ChangesRead, ReadChangesRequest, ReadChangesResponse

SCHEMA = CHANGE_SCHEMA.set(5, pa.field("kind", pa.int8(), nullable=False))
OFFSET = {1: 5, 2: 7}


# (row, write number, kind), and family and qualifier.
Change = tuple[bytes, int, int] | tuple[bytes, int, int, bytes, bytes]


def ipc(*changes: Change) -> bytes:
    """Returns changes as an answer has them."""
    whole = [change if len(change) == 5 else (*change, b"f", b"q") for change in changes]
    rows, numbers, kinds, families, qualifiers = zip(*whole, strict=True)
    arrays: list[pa.Array[Any]] = [
        *[pa.array(column, pa.binary()) for column in (rows, families, qualifiers)],
        pa.array([0] * len(whole), pa.int64()),
        pa.array(numbers, pa.int64()),
        pa.array(kinds, pa.int8()),
        pa.array([b"v"] * len(whole), pa.binary()),
    ]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
    return sink.getvalue().to_pybytes()


def answer(
    *changes: Change,
    region_id: int = 1,
    offset: Mapping[int, int] = OFFSET,
    is_done: bool = True,
    stop: bytes = b"",
    position: bytes = b"",
) -> ReadChangesResponse:
    return ReadChangesResponse(
        arrow=ipc(*changes) if changes else b"",
        region_id=region_id,
        stop=stop,
        offset=[ChangesRead(region_id=each, write_number=number) for each, number in offset.items()],
        until=9,
        is_done=is_done,
        position=position,
    )


def numbers(batch: pa.RecordBatch | None) -> list[int]:
    assert batch is not None
    return [change["write_number"] for change in batch.to_pylist()]


def rows(batch: pa.RecordBatch | None) -> list[bytes]:
    assert batch is not None
    return [change["row"] for change in batch.to_pylist()]


def test_the_regions_are_read_one_after_the_other() -> None:
    progress = ChangeProgress("t", OFFSET)
    first = progress.request()
    assert (first.table, first.row, first.start) == ("t", b"", ReadChangesRequest.START_UNSPECIFIED)
    assert {entry.region_id: entry.write_number for entry in first.offset} == OFFSET
    progress.take(answer((b"a", 6, 0), offset={1: 6, 2: 7}, is_done=False, stop=b"m"))
    assert numbers(progress.next_batch()) == [6]
    second = progress.request()
    assert (second.row, second.region_id, second.until) == (b"", 1, 9)
    progress.take(answer(offset={1: 9, 2: 7}, stop=b"m"))
    third = progress.request()
    assert (third.row, third.region_id, third.until) == (b"m", 0, 0)
    progress.take(answer((b"z", 8, 0), region_id=2, offset={1: 9, 2: 8}))
    assert numbers(progress.next_batch()) == [8]
    assert progress.is_done
    assert progress.next_batch() is None
    assert progress.offset == {1: 9, 2: 8}


def test_a_feed_without_an_offset_begins_with_the_oldest_change() -> None:
    progress = ChangeProgress("t", None)
    assert progress.request().start == ReadChangesRequest.START_OLDEST
    with pytest.raises(InvalidArgumentError, match="changes_offset"):
        progress.offset  # noqa: B018
    progress.take(answer())
    assert progress.offset == OFFSET


def test_the_offset_moves_with_the_batches_that_were_returned() -> None:
    progress = ChangeProgress("t", {1: 1})
    progress.take(answer((b"a", 5, 0)))
    assert progress.offset == {1: 1}
    progress.next_batch()
    assert progress.offset == OFFSET


def test_parts_of_a_write_number_are_batches_that_do_not_move_the_offset() -> None:
    progress = ChangeProgress("t", {1: 4})
    progress.take(answer((b"a", 5, 0), offset={1: 4}, is_done=False, position=b"at b"))
    assert rows(progress.next_batch()) == [b"a"]
    assert (progress.offset, progress.is_partial) == ({1: 4}, True)
    again = progress.request()
    assert (again.position, again.region_id, again.until) == (b"at b", 1, 9)
    progress.take(answer((b"b", 5, 0)))
    assert rows(progress.next_batch()) == [b"b"]
    assert (progress.offset, progress.is_partial) == (OFFSET, False)


def test_a_first_part_knows_the_offset_before_it() -> None:
    progress = ChangeProgress("t", None)
    progress.take(answer((b"a", 5, 0), offset={1: 4}, is_done=False, position=b"at b"))
    progress.next_batch()
    assert (progress.offset, progress.is_partial) == ({1: 4}, True)


def test_the_end_of_the_parts_is_a_batch_even_if_nothing_is_left() -> None:
    progress = ChangeProgress("t", {1: 4})
    progress.take(answer((b"a", 5, 0), offset={1: 4}, is_done=False, position=b"at b"))
    progress.next_batch()
    progress.take(answer())
    batch = progress.next_batch()
    assert batch is not None
    assert (batch.num_rows, batch.schema) == (0, CHANGE_SCHEMA)
    assert (progress.offset, progress.is_partial) == (OFFSET, False)
    assert progress.next_batch() is None


def test_what_was_returned_of_a_region_that_was_split_does_not_come_again() -> None:
    progress = ChangeProgress("t", {1: 4})
    progress.take(answer((b"a", 5, 0), (b"b", 5, 0), offset={1: 4}, is_done=False, position=b"at c"))
    progress.next_batch()
    progress.take(answer((b"a", 5, 0), region_id=3, offset={3: 5, 1: 4}, stop=b"b"))
    assert progress.next_batch() is None
    assert progress.is_partial, "the other daughter has the rest"
    assert progress.request().row == b"b"
    progress.take(answer((b"b", 5, 0), (b"c", 5, 0), (b"c", 6, 0), region_id=4, offset={3: 5, 4: 6}))
    assert rows(progress.next_batch()) == [b"c", b"c"]
    assert (progress.offset, progress.is_partial) == ({3: 5, 4: 6}, False)


def test_what_was_returned_is_left_out_by_family_row_and_column() -> None:
    progress = ChangeProgress("t", {1: 4})
    first = [(b"a", 5, 0, b"f", b"q"), (b"m", 5, 0, b"f", b"q"), (b"a", 5, 0, b"g", b"q")]
    progress.take(answer(*first, offset={1: 4}, is_done=False, position=b"at a g:r"))
    progress.next_batch()
    all_cells = [*first, (b"a", 5, 0, b"g", b"r"), (b"b", 5, 0, b"g", b"a"), (b"a", 5, 0, b"h", b"a")]
    neighbours = [(b"a", 4, 0, b"f", b"q"), (b"a", 6, 0, b"f", b"q")]
    progress.take(answer(*all_cells, *neighbours, region_id=3, offset={3: 6}))
    batch = progress.next_batch()
    assert batch is not None
    found = [(cell["row"], cell["write_number"], cell["family"], cell["qualifier"]) for cell in batch.to_pylist()]
    assert found == [
        (b"a", 5, b"g", b"r"),
        (b"b", 5, b"g", b"a"),
        (b"a", 5, b"h", b"a"),
        (b"a", 4, b"f", b"q"),
        (b"a", 6, b"f", b"q"),
    ]


def test_a_neighbour_that_was_merged_has_the_number_for_changes_of_its_own() -> None:
    progress = ChangeProgress("t", {1: 9, 2: 4})
    progress.take(answer(stop=b"m", offset={1: 9, 2: 4}))
    progress.take(answer((b"n", 5, 0), region_id=2, offset={1: 9, 2: 4}, is_done=False, position=b"at o", stop=b"t"))
    progress.next_batch()
    progress.take(answer((b"a", 5, 0), (b"n", 5, 0), (b"u", 5, 0), region_id=3, offset={3: 9}))
    assert rows(progress.next_batch()) == [b"a", b"u"]


def test_parts_of_parts_are_left_out_too() -> None:
    progress = ChangeProgress("t", {1: 4})
    for region_id, row in ((1, b"a"), (3, b"b"), (4, b"c")):
        cells = [(each, 5, 0) for each in (b"a", b"b", b"c") if each <= row]
        progress.take(answer(*cells, region_id=region_id, offset={1: 4}, is_done=False, position=b"at " + row))
        assert rows(progress.next_batch()) == [row]
    progress.take(answer((b"d", 5, 0), region_id=4, offset={4: 5}))
    assert rows(progress.next_batch()) == [b"d"]
    assert not progress.is_partial


def test_later_parts_of_a_daughter_leave_out_what_its_parent_returned() -> None:
    progress = ChangeProgress("t", {1: 4})
    before = [(row, 5, 0) for row in (b"a", b"b", b"c")]
    progress.take(answer(*before, offset={1: 4}, is_done=False, position=b"at d"))
    progress.next_batch()
    progress.take(answer((b"a", 5, 0), region_id=3, offset={1: 4}, is_done=False, position=b"at b", stop=b"m"))
    assert progress.next_batch() is None
    again = [(row, 5, 0) for row in (b"b", b"c", b"d")]
    progress.take(answer(*again, region_id=3, offset={1: 4}, is_done=False, position=b"at e", stop=b"m"))
    assert rows(progress.next_batch()) == [b"d"]
    progress.take(answer((b"e", 5, 0), region_id=3, offset={1: 4, 3: 5}, stop=b"m"))
    assert rows(progress.next_batch()) == [b"e"]


def test_a_feed_begins_again_when_there_is_something_new() -> None:
    progress = ChangeProgress("t", OFFSET)
    progress.take(answer())
    assert progress.is_done
    assert not progress.begin_again(OFFSET)
    assert progress.begin_again({**OFFSET, 2: 8})
    assert not progress.is_done
    assert (progress.request().row, progress.request().region_id, progress.request().until) == (b"", 0, 0)


def test_a_feed_begins_again_when_a_region_is_new() -> None:
    progress = ChangeProgress("t", OFFSET)
    progress.take(answer())
    assert progress.begin_again({3: 0, 4: 0})


def test_kinds_have_names() -> None:
    progress = ChangeProgress("t", {1: 1})
    progress.take(answer(*[(b"a", 5, kind) for kind in range(4)]))
    batch = progress.next_batch()
    assert batch is not None
    assert batch.schema == CHANGE_SCHEMA
    names = [change["kind"] for change in batch.to_pylist()]
    assert names == ["put", "delete_version", "delete_column", "delete_family"]


def test_an_offset_survives_json() -> None:
    assert checked_offset(json.loads(json.dumps(OFFSET))) == OFFSET


@pytest.mark.parametrize("since", [{}, {1: -1}, {-1: 1}, {1: 1 << 63}])
def test_impossible_offsets_are_refused(since: dict[int, int]) -> None:
    with pytest.raises(InvalidArgumentError, match="since"):
        ChangeProgress("t", since)


@pytest.mark.parametrize("since", [5, [1], {"a": 1}, {1: "5"}, {1: True}, {None: 1}, {1.5: 1}])
def test_what_is_no_offset_is_a_type_error(since: object) -> None:
    with pytest.raises(TypeError, match="since must"):
        ChangeProgress("t", since)  # type: ignore[arg-type]


def test_damaged_changes_are_an_error() -> None:
    progress = ChangeProgress("t", {1: 1})
    with pytest.raises(ServerError, match="a batch of changes is damaged"):
        progress.take(ReadChangesResponse(arrow=b"nothing of Arrow", region_id=1))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("row", pa.int64())])):
        pass
    with pytest.raises(ServerError, match="wrong schema"):
        progress.take(ReadChangesResponse(arrow=sink.getvalue().to_pybytes(), region_id=1))


def test_servers_of_earlier_versions_have_no_feeds() -> None:
    check_has_changes(None, "h:1")
    check_has_changes(9, "h:1")
    with pytest.raises(InvalidArgumentError, match="earlier version"):
        check_has_changes(8, "h:1")
