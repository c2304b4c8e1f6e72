"""The numbers of staged batches in messages: an answer has one, and a commit names those that it must have."""

from __future__ import annotations

from rowlock_proto.v1 import region_pb2, sessions_pb2
from rowlock_regionserver.errors import CorruptionError
from rowlock_regionserver.region.bulk.bulk_load import BulkResult
from rowlock_regionserver.rpc.messages.bulk_batches import BulkMessages
from rowlock_regionserver.rpc.messages.commits import commit_request
from rowlock_regionserver.rpc.messages.failures import error_message


def test_the_answer_to_a_staged_batch_has_its_number() -> None:
    messages = BulkMessages(1 << 20)
    answer = region_pb2.BulkAnswer.FromString(messages.answer(BulkResult(2, 1, 0, staged_batch=100_001)))
    assert (answer.cell_count, answer.staged_batch) == (2, 100_001)
    assert not region_pb2.BulkAnswer.FromString(messages.answer(BulkResult(2, 1, 5))).staged_batch


def test_a_commit_has_the_numbers_that_its_client_names() -> None:
    message = sessions_pb2.CommitBulkWriteRequest(table="t", number=7, staged_batches=[3, 100_001, 1])
    message.session.session_id, message.session.number = "job", 1
    request = commit_request(message)
    assert (request.number, tuple(request.staged_batches)) == (7, (3, 100_001, 1))
    message.ClearField("staged_batches")
    assert not commit_request(message).staged_batches


def test_a_lost_batch_is_reported_as_damage() -> None:
    message = error_message(CorruptionError("staging/7/batch-00000003", 0, "a batch", "no file"), "a commit")
    assert message.code == message.CORRUPTION
    assert "staging/7/batch-00000003" in message.message
