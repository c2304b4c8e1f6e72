"""The RegionService service: reads and changes rows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rowlock_proto.v1 import region_pb2

from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.encoded_message import joined
from rowlock_regionserver.engine.engine import Engine
from rowlock_regionserver.engine.scan_openings import NamedRegion
from rowlock_regionserver.errors import StoppingError
from rowlock_regionserver.ledger import Account
from rowlock_regionserver.memory_plan import ANSWER_COST
from rowlock_regionserver.operations import ScanPlan
from rowlock_regionserver.rpc.grpc.calls import Calls, Context, Method
from rowlock_regionserver.rpc.messages.failures import end_call, parsed
from rowlock_regionserver.rpc.messages.point_requests import PointChange, PointGet
from rowlock_regionserver.rpc.messages.scan_parts import parts_message, plan_to_cut
from rowlock_regionserver.rpc.services.bulk_calls import BulkCalls
from rowlock_regionserver.rpc.services.conversation import Conversation
from rowlock_regionserver.rpc.services.large_message import INLINE_MESSAGE_BYTES_MAX, parsed_by_size
from rowlock_regionserver.rpc.services.scan_calls import ScanCalls
from rowlock_regionserver.scan.split_points import Part

# The greatest number that PointRequest.timeout_ms can hold: seven weeks.
_TIMEOUT_MS_MAX = (1 << 32) - 1


class ServedRegion(NamedRegion, Protocol):
    """A region as this service sees it. The engine sees more of it."""

    def parts(self, plan: ScanPlan, part_bytes: int) -> Sequence[Part]:
        """Returns the parts into which a scan may be split."""


class RegionHost(Protocol):
    """The region server as this service sees it. Thread-safe."""

    def region(self, region_id: int) -> ServedRegion:
        """Returns a region of this server. Raises NotServingRegionError if it is not here."""


@dataclass(frozen=True, slots=True)
class RegionServiceStatistics:
    """How many conversations are open. Requests and scans are in EngineStatistics."""

    conversations_open: int


class RegionService:
    """The methods of rowlock.v1.RegionService. Used on the event loop."""

    def __init__(self, host: RegionHost, engine: Engine, calls: Calls, config: Config) -> None:
        self._host = host
        self._engine = engine
        self._points = engine.points
        self._workers = engine.workers
        self._calls = calls
        self._config = config
        self.serve_scan = ScanCalls(engine, config).serve
        self.bulk = BulkCalls(engine.bulk, config)
        self._loop = asyncio.get_running_loop()
        self._stopping: asyncio.Future[None] = self._loop.create_future()
        self._conversations_open = 0

    def methods(self) -> dict[str, Method]:
        """Returns the methods by their names in region.proto."""
        return {
            "Converse": self._converse,
            "Get": self._get,
            "Mutate": self._mutate,
            "Scan": self._scan,
            "PlanScan": self._plan_scan,
            "BulkPut": self._bulk_put,
            "Flush": self._flush,
        }

    def statistics(self) -> RegionServiceStatistics:
        """From any thread."""
        return RegionServiceStatistics(self._conversations_open)

    def stop(self) -> None:
        """Ends the conversations with SERVER_STOPPING, after the requests that they have read are answered."""
        if not self._stopping.done():
            self._stopping.set_result(None)

    async def _converse(self, _: bytes, context: Context) -> None:
        conversation = Conversation(self._points, context.write)
        reader = self._loop.create_task(self._read_all(conversation, context))
        self._conversations_open += 1
        try:
            waited: tuple[asyncio.Future[None], ...] = (reader, self._stopping)
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if conversation.is_reading:
                reader.cancel()
            await asyncio.wait((reader,))
            await conversation.all_answered()
            if not reader.cancelled():
                reader.result()
            if self._stopping.done():
                raise StoppingError("the server is stopping; every request that it read was answered")
        finally:
            self._conversations_open -= 1
            reader.cancel()
            conversation.leave()

    async def _read_all(self, conversation: Conversation, context: Context) -> None:
        read = self._calls.reader(context)
        while not self._stopping.done():
            conversation.is_reading = True
            data = await read()
            conversation.is_reading = False
            if data is None:
                return
            taking = conversation.take(data)
            del data  # Otherwise this message would be held until the next one arrives.
            await taking

    async def _get(self, data: bytes, context: Context) -> bytes:
        call = await parsed_by_size(region_pb2.GetCall, data, self._workers)
        message = region_pb2.PointRequest(region_id=call.region_id, timeout_ms=_timeout_ms(context), get=call.get)
        is_large = len(data) > INLINE_MESSAGE_BYTES_MAX
        with self._unary_responder() as responder:
            self._points.get(PointGet(message, self._config), responder, is_large=is_large)
            answer = await responder.received(context)
        return answer.get.SerializeToString()

    async def _mutate(self, data: bytes, context: Context) -> bytes:
        call = await parsed_by_size(region_pb2.MutateCall, data, self._workers)
        message = region_pb2.PointRequest(region_id=call.region_id, timeout_ms=_timeout_ms(context), mutate=call.mutate)
        change = PointChange(message, call.client_id, call.sequence_floor, self._config)
        is_large = len(data) > INLINE_MESSAGE_BYTES_MAX
        with self._unary_responder() as responder:
            self._points.change(change, responder, is_large=is_large)
            answer = await responder.received(context)
        return answer.mutate.SerializeToString()

    def _unary_responder(self) -> UnaryResponder:
        return UnaryResponder(self._loop.create_future(), self._points.answers)

    async def _scan(self, data: bytes, context: Context) -> None:
        # Sent first: if the first batch's write is cancelled, it is unknown whether the metadata was sent with it.
        await context.send_initial_metadata(())
        await self.serve_scan(data, context.peer(), lambda message: context.write(joined(message)))

    async def _plan_scan(self, data: bytes, _: Context) -> bytes:
        return await self._loop.run_in_executor(self._workers.quick, self._parts, data)

    def _parts(self, data: bytes) -> bytes:
        message = parsed(region_pb2.PlanScanRequest, data)
        region = self._host.region(message.region_id)
        return parts_message(region.parts(*plan_to_cut(message, self._config))).SerializeToString()

    async def _bulk_put(self, _: bytes, context: Context) -> None:
        await self.bulk.serve(self._calls.reader(context), context.write)

    async def _flush(self, data: bytes, _: Context) -> bytes:
        message = parsed(region_pb2.FlushRequest, data)
        result = await self._engine.flushes.flush(message.table)
        answer = region_pb2.FlushResponse(store_file_count=result.store_file_count, cell_count=result.cell_count)
        return answer.SerializeToString()


def _timeout_ms(context: Context) -> int:
    """Returns the milliseconds until the call's deadline; 0 if it has none."""
    remaining = context.time_remaining()
    return 0 if remaining is None else max(1, min(int(remaining * 1000), _TIMEOUT_MS_MAX))


class UnaryResponder:
    """The responder of a unary call. A context manager: at its end the caller is gone."""

    def __init__(self, future: asyncio.Future[bytes], account: Account) -> None:
        self._future = future
        self._account = account
        self.is_gone = False
        self.unread_bytes = 0  # always 0: a single answer needs no bound here

    def __enter__(self) -> UnaryResponder:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_gone = True

    async def received(self, context: Context) -> region_pb2.PointAnswer:
        """Waits for the answer. Ends the call if the answer is an error."""
        (answer,) = region_pb2.PointAnswers.FromString(await self._future).answers
        if answer.HasField("error"):
            await end_call(context, answer.error)
        return answer

    def reserve(self, byte_count: int, *, must_fit: bool) -> bool:
        if must_fit:
            return self._account.try_take(ANSWER_COST * byte_count)
        self._account.add(ANSWER_COST * byte_count)
        return True

    def release(self, byte_count: int) -> None:
        self._account.give(ANSWER_COST * byte_count)

    def send(self, answer: bytes, count: int = 1) -> None:
        if not self._future.done():
            self._future.set_result(answer)
