"""What all direct connections of a server share."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Protocol

from rowlock_proto.direct_frames import HELLO, VERSION, VersionError, frame
from rowlock_proto.v1.direct_pb2 import DirectHello, DirectWelcome

from rowlock_regionserver.config import KIB
from rowlock_regionserver.engine.interfaces import BatchBytes
from rowlock_regionserver.engine.points import Points
from rowlock_regionserver.engine.scans import BatchSender
from rowlock_regionserver.errors import InvalidRequestError, RegionServerError
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.memory_plan import PARSED_COST
from rowlock_regionserver.rpc.direct.clients import DirectClients
from rowlock_regionserver.rpc.direct.drop_log import DropLog
from rowlock_regionserver.rpc.direct.turn import Turn
from rowlock_regionserver.rpc.messages.failures import error_message

# 2: connections for scans. 3: connections for bulk batches.
PROTOCOL = 3
_SCRATCH_BYTES = 64 * KIB
# A message of at most this many bytes is parsed without a look at the memory.
SMALL_MESSAGE_BYTES_MAX = 16 * KIB

# The request, the client's address, and what sends the batches.
ServeScan = Callable[[bytes, str, BatchSender], Coroutine[None, None, None]]


class BulkService(Protocol):
    """Serves streams of bulk batches: BulkCalls."""

    def may_receive(self, byte_count: int) -> bool:
        """Whether a batch of this size may be received now, by a caller that counts it; else later."""

    def serve(
        self,
        read: Callable[[], Coroutine[None, None, BatchBytes | None]],
        write: Callable[[bytes], Coroutine[None, None, None]],
        release: Callable[[], None],
    ) -> Coroutine[None, None, None]:
        """Serves one stream."""


@dataclass(frozen=True, slots=True)
class DirectService:
    """Shared by the connections of one server. Used on the event loop.

    serve_scan: serves the scan of an encoded ScanRequest; see ScanCalls. bulk: serves bulk batches.
    scratch: receives the bytes of all connections, one after the other.
    parsed: the connections that keep a parsed message, because not all of its requests have begun.
    """

    points: Points
    turn: Turn
    ledger: Ledger
    clients: DirectClients
    log: DropLog
    data_folder_id: str
    incarnation_id: str
    serve_scan: ServeScan
    bulk: BulkService
    scratch: memoryview = field(default_factory=lambda: memoryview(bytearray(_SCRATCH_BYTES)))
    parsed: set[object] = field(default_factory=set)

    def welcome(self, error: RegionServerError | None = None) -> bytes:
        """Returns the server's first frame."""
        message = DirectWelcome(
            data_folder_id=self.data_folder_id,
            incarnation_id=self.incarnation_id,
            body_bytes_max=self.points.config.request_bytes_max,
            protocol=PROTOCOL,
        )
        if error is not None:
            message.error.CopyFrom(error_message(error, "welcoming a client"))
        return frame(HELLO, message.SerializeToString())

    def may_parse(self, byte_count: int) -> bool:
        """Whether there is memory to parse a message of this many bytes.

        There always is while nobody keeps a parsed message. So connections whose messages together fill the account
        don't wait for each other.
        """
        if byte_count <= SMALL_MESSAGE_BYTES_MAX or not self.parsed:
            return True
        return self.points.requests.has_room(PARSED_COST * byte_count)

    def when_memory_is_given(self, callback: Callable[[], None]) -> None:
        """Calls the callback once on the loop, soon after memory was released."""
        loop = asyncio.get_running_loop()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # The loop is closed.
                loop.call_soon_threadsafe(callback)

        self.ledger.when_given(wake)

    def refusal_of_hello(self, hello: DirectHello) -> RegionServerError | None:
        """Returns the error for a client that greets with this, if it can't be served."""
        if hello.mechanism:
            return InvalidRequestError(
                f"this server has no authentication, and the client wants {hello.mechanism!r}; send no mechanism"
            )
        if hello.scans and hello.bulk:
            return InvalidRequestError("a connection is for scans or for bulk batches, not for both")
        return self.clients.refusal()


def version_refusal(error: VersionError) -> InvalidRequestError:
    """Returns the error for a client that speaks another version of the framing."""
    return InvalidRequestError(f"{error}; this server speaks version {VERSION}: use gRPC, or another client")
