"""A client for attacks: messages are bytes, connections are not shared, and answers are read only on request."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import grpc
import pyarrow as pa
from rowlock_proto.v1 import catalog_pb2, catalog_pb2_grpc, region_pb2, types_pb2

from bench.targets.cell_tables import PUT_SCHEMA, to_stream
from bench.targets.messages import FAMILY

_SECONDS_MAX = 120.0
_SERVICE = "/rowlock.v1.RegionService/"


class Stream(Protocol):
    """A call with a stream of answers. Nothing is read before it is iterated."""

    def __iter__(self) -> Iterator[bytes]: ...


def received(stream: Stream) -> list[bytes]:
    """Returns the messages that the server sent until the call ended, with or without an error."""
    messages: list[bytes] = []
    with contextlib.suppress(grpc.RpcError):
        messages.extend(stream)
    return messages


@dataclass(frozen=True, slots=True)
class RawConnection:
    """Calls on one connection."""

    channel: grpc.Channel

    def mutate(self, call: bytes) -> bytes:
        """Sends a MutateCall and returns its MutateAnswer, both serialized."""
        method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self.channel.unary_unary(_SERVICE + "Mutate")
        return method(call, timeout=_SECONDS_MAX)

    def stream(self, method: str, messages: Iterable[bytes]) -> Stream:
        """Starts a call of RegionService that takes a stream of messages, or one message."""
        call: grpc.StreamStreamMultiCallable[bytes, bytes] = self.channel.stream_stream(_SERVICE + method)
        return call(iter(messages), timeout=_SECONDS_MAX)

    def region_id(self, table: str) -> int:
        """Returns the id of the table's only region."""
        stub = catalog_pb2_grpc.CatalogStub(self.channel)  # type: ignore[no-untyped-call]
        located: catalog_pb2.LocateRegionsResponse = stub.LocateRegions(catalog_pb2.LocateRegionsRequest(table=table))
        (region,) = located.regions
        return region.region_id


@contextmanager
def raw_connection(address: str) -> Iterator[RawConnection]:
    """Opens a new connection; exit closes it with all its calls."""
    options = [
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    with grpc.insecure_channel(address, options=options) as channel:
        yield RawConnection(channel)


def put(row: bytes, value: bytes, family: bytes = FAMILY, sequence: int = 0) -> region_pb2.RowMutation:
    """Returns a put of one cell."""
    change = types_pb2.Change(put=types_pb2.Put(family=family, qualifier=b"q", value=value))
    return region_pb2.RowMutation(row=row, changes=[change], sequence=sequence)


def increment(row: bytes) -> region_pb2.RowMutation:
    """Returns an increment by one."""
    change = types_pb2.Change(increment=types_pb2.Increment(family=FAMILY, qualifier=b"n", amount=1))
    return region_pb2.RowMutation(row=row, changes=[change])


def bulk_batch(region_id: int, rows: Sequence[bytes], value: bytes) -> bytes:
    """Returns a serialized BulkBatch that puts one cell into each row."""
    count = len(rows)
    binary = pa.binary()
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(rows, binary),
            pa.array([FAMILY] * count, binary),
            pa.array([b""] * count, binary),
            pa.nulls(count, pa.int64()),
            pa.array([value] * count, binary),
        ],
        schema=PUT_SCHEMA,
    )
    message = region_pb2.BulkBatch(region_id=region_id, arrow=to_stream(batch), uncompressed_bytes=batch.nbytes)
    return message.SerializeToString()
