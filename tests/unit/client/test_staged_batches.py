"""The numbers of staged batches: what a commit names, so that the server notices a batch that it has lost."""

from __future__ import annotations

import pytest
from rowlock._core.bulk_parts import Stage
from rowlock._core.bulk_send import BulkSend
from rowlock._core.bulk_write_requests import write_options
from rowlock.errors import BulkError, ServerUnavailableError
from rowlock_proto.v1 import region_pb2, types_pb2

from tests.unit.client.fake_errors import error
from tests.unit.client.test_bulk import LEFT, RIGHT, applied, put_on_stream, send_of

SESSION = types_pb2.SessionRef(session_id="job", number=5)


def staging(*keys: list[str]) -> tuple[BulkSend, Stage]:
    send, _ = send_of(*keys)
    send.stage = Stage(SESSION)
    return send, send.stage


def staged(number: int) -> region_pb2.BulkAnswer:
    return region_pb2.BulkAnswer(cell_count=1, row_count=1, staged_batch=number)


def test_the_numbers_of_all_answered_batches_are_collected() -> None:
    send, stage = staging(["a"], ["b"], ["c"])
    assert [message.stage for message in put_on_stream(send)] == [SESSION] * 3
    for number in (7, 3, 7):  # A repeated batch gets the number of its first copy.
        send.answered(staged(number), 1.0)
    assert stage.numbers == {3, 7}
    request = write_options("t", False, None, None, None, None, None).commit_request(SESSION, 9, stage.numbers)
    assert (request.number, list(request.staged_batches)) == (9, [3, 7])


def test_parts_of_a_batch_have_a_number_each() -> None:
    send, stage = staging(["a", "z"])
    for number, region in ((1, LEFT), (2, RIGHT)):
        bulk = send.next(0.0)
        assert bulk is not None
        send.message(bulk, region, takes_rows=False)
        send.answered(staged(number), 1.0)
    assert stage.numbers == {1, 2}


def test_batches_that_were_answered_before_a_failure_are_named_too() -> None:
    """The caller may commit nevertheless, and a repeated batch has the number of its answer."""
    send, stage = staging(["a"], ["b"], ["c"])
    put_on_stream(send)
    send.answered(staged(1), 1.0)
    send.lost(ServerUnavailableError("gone"), 2.0)
    put_on_stream(send)
    send.answered(staged(2), 3.0)
    send.answered(region_pb2.BulkAnswer(error=error(types_pb2.Error.FAMILY_NOT_FOUND)), 3.0)
    with pytest.raises(BulkError):
        send.finish()
    assert stage.numbers == {1, 2}


def test_an_earlier_server_answers_without_numbers_and_is_sent_none() -> None:
    send, stage = staging(["a"])
    put_on_stream(send)
    send.answered(applied(), 1.0)
    assert stage.numbers == set()
    request = write_options("t", False, None, None, None, None, None).commit_request(SESSION, 9, stage.numbers)
    assert list(request.staged_batches) == []
