"""The get that is encoded by hand, beside the one that protobuf encodes, and the answers to it."""

from __future__ import annotations

from random import Random

import pytest
import rowlock
from rowlock._core import point
from rowlock._core.values_get import ValuesGet
from rowlock_proto.v1 import region_pb2, types_pb2

from tests.seeds import drawn_seed

_ROW = region_pb2.RowValues(
    columns=region_pb2.ColumnSet(columns=[b"f:q"]).SerializeToString(), lengths=b"\1\0\0\0", data=b"1"
)
_CELLS = region_pb2.RowCells(cells=[types_pb2.Cell(family=b"f", qualifier=b"q", value=b"1")])


def answered(answer: region_pb2.PointAnswer) -> ValuesGet:
    """Returns a get that has this answer."""
    request = ValuesGet("t", b"row")
    request.prepare(1, 1000, lambda: None)
    request.answer = answer
    return request


def test_it_is_encoded_as_protobuf_would() -> None:
    random = Random(drawn_seed())
    for row_bytes in (1, 100, 110, 127, 128, 20_000, 32_767, *random.sample(range(1, 400), 20)):
        row, region_id, timeout_ms = random.randbytes(row_bytes), random.getrandbits(60), random.getrandbits(32)
        request_id = 1 << random.randrange(40)
        request = ValuesGet("t", row)
        request.prepare(region_id, timeout_ms, lambda: None)
        request.encode(request_id)
        get = region_pb2.Get(rows=[row], values_only=True)
        message = region_pb2.PointRequest(id=request_id, region_id=region_id, timeout_ms=timeout_ms, get=get)
        assert request.payload == region_pb2.PointRequests(requests=[message]).SerializeToString()
        assert request.id == request_id


@pytest.mark.parametrize("get", [region_pb2.GetAnswer(values=[_ROW]), region_pb2.GetAnswer(rows=[_CELLS])])
def test_the_row_may_be_answered_in_either_form(get: region_pb2.GetAnswer) -> None:
    answer = region_pb2.PointAnswer(get=get)
    assert point.failure_of(answered(answer)) is None
    assert point.values(answer, bytes) == {b"f:q": b"1"}


@pytest.mark.parametrize(
    ("get", "count"),
    [
        (region_pb2.GetAnswer(), 0),
        (region_pb2.GetAnswer(values=[_ROW, _ROW]), 2),
        (region_pb2.GetAnswer(rows=[_CELLS, _CELLS]), 2),
    ],
)
def test_another_number_of_rows_is_an_error(get: region_pb2.GetAnswer, count: int) -> None:
    with pytest.raises(rowlock.ServerError, match=f"answered {count} of 1 rows"):
        point.values(region_pb2.PointAnswer(get=get), bytes)


def test_an_error_is_its_failure_and_so_is_another_answer() -> None:
    error = types_pb2.Error(code=types_pb2.Error.REGION_TOO_BUSY, message="later")
    assert isinstance(point.failure_of(answered(region_pb2.PointAnswer(error=error))), rowlock.RegionTooBusyError)
    for other in (region_pb2.PointAnswer(), region_pb2.PointAnswer(mutate=region_pb2.MutateAnswer())):
        assert isinstance(point.failure_of(answered(other)), rowlock.ServerError)
