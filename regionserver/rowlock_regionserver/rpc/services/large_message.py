"""Large messages of point requests: their memory is taken before they are parsed; workers parse and execute them."""

from __future__ import annotations

import asyncio
from typing import Protocol, TypeVar

from google.protobuf.message import Message
from rowlock_proto.direct_frames import Body
from rowlock_proto.v1.region_pb2 import PointRequests

from rowlock_regionserver.config import KIB
from rowlock_regionserver.engine.interfaces import Responder
from rowlock_regionserver.engine.points import Points
from rowlock_regionserver.engine.workers import Workers
from rowlock_regionserver.errors import RegionServerError
from rowlock_regionserver.ledger import Account
from rowlock_regionserver.memory_plan import PARSED_REQUEST_BYTES, REQUEST_COST
from rowlock_regionserver.rpc.messages.answers import error_answer
from rowlock_regionserver.rpc.messages.failures import parsed
from rowlock_regionserver.rpc.messages.request_ids import request_ids
from rowlock_regionserver.rpc.services.message_run import check_request_count

M = TypeVar("M", bound=Message)

# A larger message is parsed, converted and executed by workers, and the memory for that is counted.
INLINE_MESSAGE_BYTES_MAX = 256 * KIB


class Opener(Responder, Protocol):
    """The responder of a stream, which counts the requests that it has to answer."""

    def opened(self, count: int) -> None:
        """Counts this many requests, each of which `send` will answer."""


async def parsed_by_size(kind: type[M], data: bytes, workers: Workers) -> M:
    """Returns the parsed message of a call, which a worker parses if it is large. Raises InvalidRequestError."""
    if len(data) <= INLINE_MESSAGE_BYTES_MAX:
        return parsed(kind, data)
    return await asyncio.get_running_loop().run_in_executor(workers.points, parsed, kind, data)


async def parse_large(
    points: Points, data: Body, responder: Opener
) -> tuple[PointRequests, LargeMessageResponder] | None:
    """Parses a large message in a worker. Returns it with the responder for its requests, which are counted.

    Returns None if there is no memory for it: then each request was answered with the refusal. Raises
    InvalidRequestError for bytes that are not such a message.
    """
    loop = asyncio.get_running_loop()
    byte_count = REQUEST_COST * len(data)
    try:
        points.requests.take(byte_count)
    except RegionServerError as refusal:
        # Only the ids of its requests are read, to answer each with the refusal.
        ids = await loop.run_in_executor(points.workers.points, request_ids, data)
        responder.opened(len(ids))
        for request_id in ids:
            responder.send(error_answer(request_id, refusal, "accepting a request"))
        return None
    large = LargeMessageResponder(responder, points.requests, byte_count)
    try:
        message = await loop.run_in_executor(points.workers.points, parsed, PointRequests, data)
        check_request_count(len(message.requests), len(data))
    except BaseException:
        large.set_request_count(0)
        raise
    large.set_request_count(len(message.requests))
    responder.opened(len(message.requests))
    return message, large


class LargeMessageResponder:
    """The responder of a large message's requests. It releases the message's bytes when all are answered."""

    def __init__(self, responder: Responder, account: Account, byte_count: int) -> None:
        """`byte_count` was reserved in the account. `set_request_count` must follow."""
        self._responder = responder
        self._account = account
        self._byte_count = byte_count
        self._unanswered_count = 0

    def set_request_count(self, request_count: int) -> None:
        """Sets how many requests the message has, and counts their memory."""
        self._unanswered_count = request_count
        if request_count:
            self._account.add(PARSED_REQUEST_BYTES * request_count)
            self._byte_count += PARSED_REQUEST_BYTES * request_count
        else:
            self._account.give(self._byte_count)

    @property
    def is_gone(self) -> bool:
        return self._responder.is_gone

    @property
    def unread_bytes(self) -> int:
        return self._responder.unread_bytes

    def reserve(self, byte_count: int, *, must_fit: bool) -> bool:
        return self._responder.reserve(byte_count, must_fit=must_fit)

    def release(self, byte_count: int) -> None:
        self._responder.release(byte_count)

    def send(self, answer: bytes, count: int = 1) -> None:
        self._unanswered_count -= count
        if not self._unanswered_count:
            self._account.give(self._byte_count)
        self._responder.send(answer, count)
