"""The serialized messages that rowlock's client and server exchange for a get and a put of a 1 KiB row, and a counter.

The raw baselines send exactly these bytes, so that only rowlock's own work makes the difference.
"""

from __future__ import annotations

from dataclasses import dataclass

from rowlock_proto.v1 import region_pb2, types_pb2

VALUE_BYTES = 1024
FAMILY = b"f"
QUALIFIER = b"value"
_STAMP = 1_700_000_000_000
_REGION_ID = 1
_CLIENT_ID = bytes(range(16))


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer, serialized."""

    request: bytes
    answer: bytes


def row_key(number: int) -> bytes:
    """Returns the key of a row of the workloads. All keys have one length, and sort like the numbers."""
    return b"row-%010d" % number


def get_exchange(value: bytes) -> Exchange:
    """Returns a get of all columns of one row, and the answer with its cell."""
    get = region_pb2.Get(rows=[row_key(1)])
    request = region_pb2.PointRequest(id=1, region_id=_REGION_ID, timeout_ms=10_000, get=get)
    cell = types_pb2.Cell(family=FAMILY, qualifier=QUALIFIER, timestamp=_STAMP, value=value)
    answer = region_pb2.PointAnswer(id=1, get=region_pb2.GetAnswer(rows=[region_pb2.RowCells(cells=[cell])]))
    return _exchange(request, answer)


def put_exchange(value: bytes) -> Exchange:
    """Returns a put of one column with a request id, and the answer with its stamp."""
    put = types_pb2.Put(family=FAMILY, qualifier=QUALIFIER, value=value)
    mutation = region_pb2.RowMutation(row=row_key(1), changes=[types_pb2.Change(put=put)], sequence=1)
    mutate = region_pb2.Mutate(mutations=[mutation])
    request = region_pb2.PointRequest(id=1, region_id=_REGION_ID, timeout_ms=10_000, mutate=mutate)
    result = region_pb2.MutationResult(condition_met=True, timestamp=_STAMP)
    answer = region_pb2.PointAnswer(id=1, mutate=region_pb2.MutateAnswer(results=[result]))
    return _exchange(request, answer)


def increment_exchange() -> Exchange:
    """Returns an increment of one counter with a request id, and the answer with its new value."""
    increment = types_pb2.Increment(family=FAMILY, qualifier=QUALIFIER, amount=1)
    mutation = region_pb2.RowMutation(row=row_key(1), changes=[types_pb2.Change(increment=increment)], sequence=1)
    mutate = region_pb2.Mutate(mutations=[mutation])
    request = region_pb2.PointRequest(id=1, region_id=_REGION_ID, timeout_ms=10_000, mutate=mutate)
    cell = types_pb2.Cell(family=FAMILY, qualifier=QUALIFIER, timestamp=_STAMP, value=(1).to_bytes(8, "big"))
    result = region_pb2.MutationResult(condition_met=True, timestamp=_STAMP, results=[cell])
    answer = region_pb2.PointAnswer(id=1, mutate=region_pb2.MutateAnswer(results=[result]))
    return _exchange(request, answer)


def _exchange(request: region_pb2.PointRequest, answer: region_pb2.PointAnswer) -> Exchange:
    requests = region_pb2.PointRequests(client_id=_CLIENT_ID, sequence_floor=1, requests=[request])
    answers = region_pb2.PointAnswers(answers=[answer])
    return Exchange(requests.SerializeToString(), answers.SerializeToString())
