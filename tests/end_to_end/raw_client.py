"""A client made from the .proto files alone: generated stubs, without the client package."""

from __future__ import annotations

import queue
from collections.abc import Iterable, Iterator
from types import TracebackType

import grpc
import pyarrow as pa
from google.rpc.status_pb2 import Status
from rowlock_proto.v1 import catalog_pb2, catalog_pb2_grpc, region_pb2, region_pb2_grpc, types_pb2

Answer = region_pb2.PointAnswer


class RawClient:
    """Stubs of both services on one channel."""

    def __init__(self, address: str) -> None:
        self.channel = grpc.insecure_channel(
            address,
            options=[
                ("grpc.max_receive_message_length", -1),
                ("grpc.max_send_message_length", -1),
                ("grpc.use_local_subchannel_pool", 1),
            ],
        )
        self.catalog = catalog_pb2_grpc.CatalogStub(self.channel)  # type: ignore[no-untyped-call]
        self.regions = region_pb2_grpc.RegionServiceStub(self.channel)  # type: ignore[no-untyped-call]

    def __enter__(self) -> RawClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.channel.close()

    def create_table(
        self, name: str, *families: bytes, durability: types_pb2.Durability = types_pb2.DURABILITY_OS
    ) -> int:
        """Creates a table and returns its region's id."""
        descriptor = types_pb2.TableDescriptor(
            name=name, families=[types_pb2.Family(name=family) for family in families], durability=durability
        )
        self.catalog.CreateTable(catalog_pb2.CreateTableRequest(table=descriptor))
        return self.region_id(name)

    def region_id(self, name: str) -> int:
        answer: catalog_pb2.LocateRegionsResponse = self.catalog.LocateRegions(
            catalog_pb2.LocateRegionsRequest(table=name)
        )
        return answer.regions[0].region_id

    def scan(self, region_id: int, **fields: object) -> pa.Table:
        """Returns all batches of a scan as one table."""
        request = region_pb2.ScanRequest(region_id=region_id, **fields)  # type: ignore[arg-type]
        tables = [read_batch(batch) for batch in self.regions.Scan(request)]
        return pa.concat_tables(tables) if tables else pa.table({})

    def rows(self, region_id: int, **fields: object) -> list[bytes]:
        """Returns the distinct rows of a scan, in its order."""
        table = self.scan(region_id, **fields)
        rows: list[bytes] = [cell["row"] for cell in table.to_pylist()]
        return list(dict.fromkeys(rows))


class RawConversation:
    """A point stream. Answers are requested by id; those that arrive earlier are stored."""

    def __init__(self, client: RawClient) -> None:
        self._sent: queue.SimpleQueue[region_pb2.PointRequests | None] = queue.SimpleQueue()
        self._call = client.regions.Converse(iter(self._sent.get, None))
        self._answers: dict[int, Answer] = {}
        self.message_count = 0

    def send(self, *requests: region_pb2.PointRequest, client_id: bytes = b"", floor: int = 0) -> None:
        self._sent.put(region_pb2.PointRequests(client_id=client_id, sequence_floor=floor, requests=requests))

    def answer(self, request_id: int) -> Answer:
        while request_id not in self._answers:
            message = next(self._call)
            self.message_count += 1
            self._answers.update((answer.id, answer) for answer in message.answers)
        return self._answers.pop(request_id)

    def ask(self, request: region_pb2.PointRequest, client_id: bytes = b"", floor: int = 0) -> Answer:
        self.send(request, client_id=client_id, floor=floor)
        return self.answer(request.id)

    def end(self) -> None:
        """Closes the client's side of the stream."""
        self._sent.put(None)

    def rest(self) -> Iterator[Answer]:
        """Returns the remaining answers until the server ends the stream."""
        for message in self._call:
            yield from message.answers

    def cancel(self) -> None:
        self._sent.put(None)
        self._call.cancel()


def put(row: bytes, value: bytes, qualifier: bytes = b"q", family: bytes = b"f") -> region_pb2.RowMutation:
    change = types_pb2.Change(put=types_pb2.Put(family=family, qualifier=qualifier, value=value))
    return region_pb2.RowMutation(row=row, changes=[change])


def increment(row: bytes, amount: int = 1, sequence: int = 0) -> region_pb2.RowMutation:
    change = types_pb2.Change(increment=types_pb2.Increment(family=b"f", qualifier=b"n", amount=amount))
    return region_pb2.RowMutation(row=row, changes=[change], sequence=sequence)


def mutate(request_id: int, region_id: int, *mutations: region_pb2.RowMutation) -> region_pb2.PointRequest:
    mutate = region_pb2.Mutate(mutations=mutations)
    return region_pb2.PointRequest(id=request_id, region_id=region_id, mutate=mutate)


def get(request_id: int, region_id: int, *rows: bytes) -> region_pb2.PointRequest:
    return region_pb2.PointRequest(id=request_id, region_id=region_id, get=region_pb2.Get(rows=rows))


def read_batch(batch: region_pb2.ScanBatch) -> pa.Table:
    with pa.ipc.open_stream(batch.arrow) as reader:
        return reader.read_all()


def bulk_batch(cells: Iterable[tuple[bytes, bytes, bytes, int | None, bytes | None]]) -> pa.RecordBatch:
    """Returns tuples (row, family, qualifier, timestamp, value) in the schema of BulkBatch.arrow."""
    rows, families, qualifiers, timestamps, values = zip(*cells, strict=True)
    schema = pa.schema(
        (
            pa.field("row", pa.binary(), nullable=False),
            pa.field("family", pa.binary(), nullable=False),
            pa.field("qualifier", pa.binary(), nullable=False),
            pa.field("timestamp", pa.int64()),
            pa.field("value", pa.binary()),
        )
    )
    return pa.RecordBatch.from_arrays(
        [
            pa.array(rows, pa.binary()),
            pa.array(families, pa.binary()),
            pa.array(qualifiers, pa.binary()),
            pa.array(timestamps, pa.int64()),
            pa.array(values, pa.binary()),
        ],
        schema=schema,
    )


def bulk_message(region_id: int, batch: pa.RecordBatch, **fields: object) -> region_pb2.BulkBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    arrow = sink.getvalue().to_pybytes()
    return region_pb2.BulkBatch(
        region_id=region_id,
        arrow=arrow,
        uncompressed_bytes=batch.nbytes,
        **fields,  # type: ignore[arg-type]
    )


def bulk_put(client: RawClient, region_id: int, batch: pa.RecordBatch) -> region_pb2.BulkAnswer:
    """Puts one batch, which must not be refused."""
    answer: region_pb2.BulkAnswer
    [answer] = client.regions.BulkPut(iter([bulk_message(region_id, batch)]))
    assert not answer.HasField("error"), answer.error
    return answer


def evidence(error: grpc.RpcError) -> types_pb2.Error:
    """Returns the rowlock.v1.Error in a failed call's trailing metadata."""
    assert isinstance(error, grpc.Call)
    metadata = dict(error.trailing_metadata() or ())
    status = Status.FromString(metadata["grpc-status-details-bin"])
    message = types_pb2.Error()
    assert status.details[0].Unpack(message)
    return message
