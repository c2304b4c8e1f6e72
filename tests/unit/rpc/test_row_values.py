"""RowValues in requests: puts before other changes, coalesced or not, and gets that may be answered so."""

from __future__ import annotations

import tracemalloc

import pytest
from rowlock_proto.v1 import region_pb2, types_pb2
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import InvalidRequestError
from rowlock_regionserver.operations import Increment, Put, RequestId, RowMutation
from rowlock_regionserver.row_line import RowLine
from rowlock_regionserver.rpc.messages.mutations import (
    PLAIN_CHANGES_MAX,
    TooLongError,
    plain_change,
    row_mutations,
)
from rowlock_regionserver.rpc.messages.point_requests import PointChange, PointGet
from rowlock_regionserver.rpc.messages.row_values import values_answer

CLIENT = b"c" * 16
CONFIG = Config()
INCREMENT = types_pb2.Change(increment=types_pb2.Increment(family=b"f", qualifier=b"n", amount=2))


def values(count: int) -> region_pb2.RowValues:
    columns = region_pb2.ColumnSet(columns=[b"f:%d" % number for number in range(count)]).SerializeToString()
    return region_pb2.RowValues(columns=columns, lengths=b"\1\0\0\0" * count, data=b"v" * count)


def mutate(puts: region_pb2.RowValues, *changes: types_pb2.Change) -> region_pb2.Mutate:
    mutation = region_pb2.RowMutation(row=b"r", puts=puts, changes=changes, sequence=9)
    return region_pb2.Mutate(mutations=[mutation])


def test_values_are_put_before_the_changes() -> None:
    expected = RowMutation(
        b"r", (Put(b"f", b"0", b"v"), Put(b"f", b"1", b"v"), Increment(b"f", b"n", 2)), request=RequestId(CLIENT, 9, 3)
    )
    assert row_mutations(mutate(values(2), INCREMENT), CLIENT, 3, CONFIG).read == (expected,)
    assert plain_change(mutate(values(2), INCREMENT), CLIENT, 3) == expected


def test_a_change_of_many_values_is_no_plain_one_and_too_long_for_the_event_loop() -> None:
    assert plain_change(mutate(values(PLAIN_CHANGES_MAX)), CLIENT, 3) is not None
    assert plain_change(mutate(values(PLAIN_CHANGES_MAX), INCREMENT), CLIENT, 3) is None
    assert row_mutations(mutate(values(4), INCREMENT), CLIENT, 3, CONFIG, parts_max=5).read
    with pytest.raises(TooLongError):
        row_mutations(mutate(values(5), INCREMENT), CLIENT, 3, CONFIG, parts_max=5)


def test_contradictory_values_are_refused_and_no_plain_change() -> None:
    broken = values(2)
    broken.data = b"v"
    assert plain_change(mutate(broken), CLIENT, 3) is None
    mutations = row_mutations(mutate(broken), CLIENT, 3, CONFIG)
    assert not mutations.read
    assert isinstance(mutations.refused[0], InvalidRequestError)


def test_columns_without_lengths_are_refused_before_they_are_split() -> None:
    many = values(0)
    many.columns = region_pb2.ColumnSet(columns=[b"no colon"] * 50_000).SerializeToString()
    many.lengths, many.data = b"\1\0\0\0", b"v"
    assert plain_change(mutate(many), CLIENT, 3) is None
    mutations = row_mutations(mutate(many), CLIENT, 3, CONFIG, parts_max=5)
    assert "50000 columns, and lengths of 1 values" in str(mutations.refused[0])


def test_a_large_answer_is_not_encoded_as_values() -> None:
    """It would be copied, only to be found too large."""
    cells = [(b"f", b"q%d" % number, 1, bytes(1 << 20)) for number in range(4)]
    tracemalloc.start()
    try:
        assert values_answer(1, [cells]) is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 19
    small = [(b"f", b"q", 1, bytes(40 << 10))]
    assert values_answer(1, [small]) is not None
    assert values_answer(1, [small] * 2) is None


def test_a_line_is_encoded_as_its_cells_are() -> None:
    line = RowLine(b"f", (b"", b"a", b"b"), 5, [b"1", b"", b"333"])
    assert values_answer(7, [line, [], line]) == values_answer(7, [list(line), [], list(line)])
    for columns, value in ((65, b"v"), (1, bytes(70 << 10)), (3, b"v")):
        qualifiers = tuple(b"%03d" % number + bytes(800 if columns == 3 else 0) for number in range(columns))
        refused = RowLine(b"f", qualifiers, 5, [value] * columns)
        assert values_answer(7, [list(refused)]) is None
        assert values_answer(7, [refused]) is None


def test_a_plain_change_is_not_converted_again() -> None:
    request = PointChange(region_pb2.PointRequest(id=1, mutate=mutate(values(2))), CLIENT, 3, CONFIG)
    plain = request.plain_change()
    read = request.read(1, 1)
    assert read is not None
    assert read[0] is plain


def answered(get: region_pb2.Get) -> region_pb2.GetAnswer:
    cells = [(b"f", b"q", 5, b"new"), (b"f", b"q", 4, b"old")][: get.versions or 1]
    request = PointGet(region_pb2.PointRequest(id=1, get=get), CONFIG)
    return region_pb2.PointAnswers.FromString(request.answer([cells])).answers[0].get


def test_only_a_get_of_the_newest_values_is_answered_without_cells() -> None:
    assert [row.data for row in answered(region_pb2.Get(values_only=True)).values] == [b"new"]
    assert [row.data for row in answered(region_pb2.Get(values_only=True, versions=1)).values] == [b"new"]
    for get in (region_pb2.Get(), region_pb2.Get(values_only=True, versions=2)):
        answer = answered(get)
        assert not answer.values
        assert [cell.value for cell in answer.rows[0].cells] == [b"new", b"old"][: get.versions or 1]
