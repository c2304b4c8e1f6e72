"""Commits of bulk writes: converts messages to values, and values to messages."""

from __future__ import annotations

from rowlock_proto.v1 import sessions_pb2

from rowlock_regionserver.catalog.commits import Identity
from rowlock_regionserver.errors import InvalidRequestError
from rowlock_regionserver.host.bulk_commit import CommitRequest, CommitResult
from rowlock_regionserver.rpc.messages.sessions import session_ref

_TEXT_CHARACTERS_MAX = 256


def commit_request(message: sessions_pb2.CommitBulkWriteRequest) -> CommitRequest:
    """Returns what the call is to do. Raises InvalidRequestError for an empty range and a malformed identity."""
    if message.stop and message.start >= message.stop:
        raise InvalidRequestError("the range of a bulk write is empty: its start must sort before its stop")
    identity = None
    if message.HasField("identity"):
        identity = Identity(message.identity.text, message.identity.number)
        if not 1 <= len(identity.text) <= _TEXT_CHARACTERS_MAX:
            raise InvalidRequestError(f"the text of an identity must have 1 to {_TEXT_CHARACTERS_MAX} characters")
    return CommitRequest(
        session_ref(message.session),
        message.table,
        ((message.start, message.stop),),
        message.replace,
        message.snapshot_id,
        identity,
        message.number,
        tuple(message.staged_batches),
    )


def commit_message(result: CommitResult) -> sessions_pb2.CommitBulkWriteResponse:
    return sessions_pb2.CommitBulkWriteResponse(
        row_count=result.row_count,
        cell_count=result.cell_count,
        timestamp=result.timestamp,
        is_repeated=result.is_repeated,
    )
