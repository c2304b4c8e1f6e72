"""What a direct connection has received: cuts it into frames, and begins their requests in slices.

It holds what one receive brought and is not taken yet, or one incomplete frame. The ledger counts both. A large frame
is received only when the ledger has memory for it, and a message of more than a few KiB is parsed only then. The ledger
counts a message whose requests have not all begun, too. Only its bytes are kept while its client reads no answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from google.protobuf.message import DecodeError
from rowlock_proto.direct_frames import (
    PING,
    PING_BODY_BYTES_MAX,
    REQUESTS,
    SHORT_BODY_BYTES_MAX,
    Body,
    Frame,
    FrameReader,
)
from rowlock_proto.v1.region_pb2 import PointRequests

from rowlock_regionserver.config import KIB
from rowlock_regionserver.errors import InvalidRequestError, LimitExceededError
from rowlock_regionserver.ledger import Holding
from rowlock_regionserver.rpc.direct.service import SMALL_MESSAGE_BYTES_MAX, DirectService
from rowlock_regionserver.rpc.direct.turn import Member
from rowlock_regionserver.rpc.services.large_message import INLINE_MESSAGE_BYTES_MAX, Opener, parse_large
from rowlock_regionserver.rpc.services.message_run import MessageRun, begin_single, check_request_count

# A frame must be complete after this long, plus its length at the lowest rate.
FRAME_SECONDS_MAX, _FRAME_BYTES_PER_SECOND = 30.0, 64 * KIB


class OpeningMember(Opener, Member, Protocol):
    """The connection as its requests see it."""


class Incoming:
    """The received bytes of one connection, and its message whose requests are begun. Used on the event loop."""

    __slots__ = (
        "_frame_since",
        "_has_more",
        "_holding",
        "_monotonic",
        "_on_ping",
        "_parsing",
        "_points",
        "_responder",
        "_run",
        "_service",
        "_when_parsed",
        "reader",
    )

    def __init__(
        self,
        service: DirectService,
        responder: OpeningMember,
        on_ping: Callable[[bytes], None],
        when_parsed: Callable[[Exception | None], None],
    ) -> None:
        """`when_parsed` is called when a large message was parsed; with the error, if it can't be."""
        self._service = service
        self._points = service.points
        self._monotonic = service.points.clock.monotonic
        self._responder = responder
        self._on_ping = on_ping
        self._when_parsed = when_parsed
        self.reader = FrameReader(SHORT_BODY_BYTES_MAX, service.scratch)
        self._run: MessageRun | None = None
        self._parsing: asyncio.Task[None] | None = None
        self._holding = Holding(service.points.requests)
        # Since when the first incomplete frame has been so.
        self._frame_since = 0.0
        # Whether there are bytes after the last frame that was taken.
        self._has_more = False

    @property
    def is_parsing(self) -> bool:
        """Whether a worker parses a large message; nothing else is begun meanwhile."""
        return self._parsing is not None

    @property
    def has_begun_message(self) -> bool:
        """Whether a message was taken, and not all of its requests have begun."""
        return self._run is not None or self._parsing is not None

    def received(self, byte_count: int) -> None:
        """Takes bytes that were put into the reader's room. `take` must follow, and then `hold`."""
        if not self.reader.has_bytes:
            self._frame_since = self._monotonic()
        self.reader.received(byte_count)

    def next_frame(self) -> Frame | None:
        """Returns the next frame of what was received; None if none is complete."""
        found = self.reader.next()
        self._has_more = self.reader.has_bytes
        if found is not None and self._has_more:
            self._frame_since = self._monotonic()
        return found

    def hold(self) -> None:
        """Keeps what is not taken, so that another connection may receive, and counts it."""
        reader = self.reader
        if reader.has_bytes or self._run is not None or self._holding.byte_count:
            reader.hold()
            self._count()

    def _count(self) -> None:
        """Counts the memory that is held in the ledger, and whether a parsed message is."""
        run, byte_count = self._run, 0 if self._run is None else self._run.byte_count
        if run is not None and byte_count and run.is_parsed:
            self._service.parsed.add(self)
        else:
            self._service.parsed.discard(self)
        self._holding.set(self.reader.bytes_held + byte_count)

    def set_aside(self) -> None:
        """Keeps only the bytes of a message whose requests have not all begun. The client reads no answers."""
        if self._run is not None:
            self._run.set_aside()
            self._count()

    @property
    def may_continue(self) -> bool:
        """Whether `take` begins anything. Else a message waits for memory to be parsed."""
        run = self._run
        return run is None or run.is_parsed or self._service.may_parse(run.data_bytes)

    def take(self, must_yield: Callable[[], bool]) -> bool:
        """Begins requests until `must_yield`, or until a message is parsed or may be. Returns whether all are begun.

        Raises InvalidRequestError for a frame that makes no sense.
        """
        if self._parsing is not None:
            return False
        while True:
            if self._run is not None:
                if not self._run.is_parsed and not self._parse():
                    return False
                if not self._run.advance(must_yield):
                    return False
                self._run = None
            found = self.next_frame()
            if found is None:
                return True
            kind, body = found
            if kind == REQUESTS:
                self._take_requests(body)
            else:
                self._take_other(kind, bytes(body))
            if self._parsing is not None or (self._has_more and must_yield()):
                return False
            if self._run is None and not self._has_more:
                return True

    def _take_requests(self, body: Body) -> None:
        if len(body) > INLINE_MESSAGE_BYTES_MAX:
            self._service.turn.end_for(self._responder)
            self._count()  # From here on parse_large counts it, several times.
            self._parsing = asyncio.get_running_loop().create_task(self._parse_large(body))
            return
        if len(body) > SMALL_MESSAGE_BYTES_MAX and not self._service.may_parse(len(body)):
            self._service.turn.end_for(self._responder)
            self._run = MessageRun(self._points, self._responder, body, None)
            return
        try:
            message = PointRequests.FromString(body)  # type: ignore[arg-type]  # it takes any memory
        except DecodeError:
            raise _not_requests(len(body)) from None
        count = len(message.requests)
        if count > 1:
            check_request_count(count, len(body))
        self._responder.opened(count)
        turn = self._service.turn
        if count == 1 and turn.join(message, self._responder, has_more=self._has_more):
            return
        turn.end_for(self._responder)
        if count == 1:
            begin_single(self._points, message, self._responder)
        else:
            self._run = MessageRun(self._points, self._responder, body, message)

    def _parse(self) -> bool:
        """Parses the message that is set aside. Returns False if there is no memory for it."""
        run = self._run
        if run is None or not self.may_continue:
            return False
        try:
            self._responder.opened(run.parse())
        except InvalidRequestError:
            self._run = None
            raise
        return True

    async def _parse_large(self, body: Body) -> None:
        failure: Exception | None = None
        try:
            large = await parse_large(self._points, body, self._responder)
            if large is not None:
                message, responder = large
                run = MessageRun(self._points, responder, b"", message, is_large=True)
                del large, message
                if self._responder.is_gone:
                    run.drop()
                else:
                    self._run = run
        except Exception as error:
            failure = error
        del body
        self._parsing = None
        self._when_parsed(failure)

    def _take_other(self, kind: int, body: bytes) -> None:
        if kind != PING:
            raise InvalidRequestError(f"a frame of kind {kind} is unknown here; send what this server's protocol has")
        if len(body) > PING_BODY_BYTES_MAX:
            raise InvalidRequestError(f"a PING has {len(body)} bytes, more than {PING_BODY_BYTES_MAX}")
        self._on_ping(body)

    def begin_large(self, allocate: Callable[[int], bytearray | memoryview] = bytearray) -> bool:
        """Counts the large frame that has begun, and makes its buffer. Returns False if there is no memory for it."""
        byte_count = self.reader.large_bytes
        if not self._points.requests.try_take(byte_count):
            return False
        self._holding.byte_count += byte_count
        self.reader.begin_large(allocate)
        self._frame_since = self._monotonic()
        self.hold()
        return True

    @property
    def has_error_or_large_frame(self) -> bool:
        """Whether what was received has an error, or a large frame that waits for memory: mostly not."""
        return self.reader.error is not None or self.reader.large_bytes > 0

    def error(self) -> InvalidRequestError | None:
        """Returns the error of received bytes that are not frames; None if they are."""
        found, limit = self.reader.error, self._points.config.request_bytes_max
        if found is None:
            return None
        if not found.length:
            return InvalidRequestError(f"{found}; docs/direct_protocol.md has the format")
        byte_count = found.length - 1
        return LimitExceededError(
            f"the message has {byte_count} bytes, more than request_bytes_max = {limit}; send several smaller ones",
            limit="request_bytes_max",
            limit_value=limit,
            found=byte_count,
        )

    def slowness(self, now: float) -> str:
        """Returns what is wrong when a frame comes too slowly; else an empty string."""
        reader = self.reader
        if reader.has_bytes and not reader.large_bytes:
            seconds = now - self._frame_since
            if seconds > FRAME_SECONDS_MAX + reader.bytes_received / _FRAME_BYTES_PER_SECOND:
                return f"only {reader.bytes_received} bytes of a frame came in {seconds:.0f} s"
        return ""

    def pass_on(self) -> int:
        """Returns how many bytes the ledger counts for what was received. From here on the caller counts them."""
        byte_count, self._holding.byte_count = self._holding.byte_count, 0
        return byte_count

    def read_on(self) -> None:
        """Restarts the time for a frame that has begun, because nothing was received meanwhile."""
        self._frame_since = self._monotonic()

    def drop_frames(self) -> None:
        """Drops what is not taken. A message that has begun goes on."""
        self.reader = FrameReader(0, self._service.scratch)
        self._count()

    def drop(self) -> None:
        """Drops everything, because the client is gone."""
        run, self._run = self._run, None
        self.drop_frames()
        if run is not None:
            run.drop()


def _not_requests(byte_count: int) -> InvalidRequestError:
    return InvalidRequestError(
        f"the {byte_count} bytes sent are not a {PointRequests.DESCRIPTOR.full_name} message; generate the client from "
        "the .proto files of rowlock.v1"
    )
