"""Puts in columns as a stranger may send them: refused unless they make sense, and answered row by row."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from rowlock_proto.v1 import region_pb2
from rowlock_proto.v1.region_pb2 import BulkColumn, BulkRows, PointAnswers, PutRows
from rowlock_proto.v1.types_pb2 import DURABILITY_OS, Error
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import FamilyNotFoundError, InvalidRequestError, LimitExceededError, RegionServerError
from rowlock_regionserver.operations import Put, RequestId, RowMutation, RowOutcome, RowResult
from rowlock_regionserver.region.bulk.put_batch import PutBatch
from rowlock_regionserver.rpc.messages import put_rows
from rowlock_regionserver.rpc.messages.answers import put_rows_answer
from rowlock_regionserver.rpc.messages.put_rows import put_batch, rows_at_most
from rowlock_regionserver.rpc.services.large_message import INLINE_MESSAGE_BYTES_MAX

from tests.seeds import drawn_seed
from tests.unit.engine.fakes import REGION_ID, FakeRegion
from tests.unit.rpc.arrow_streams import damaged, encoded
from tests.unit.rpc.stream import Client, Run, get, put

CONFIG = Config(rows_per_request_max=1000)
CLIENT = b"0123456789abcdef"


def message(rows: Sequence[bytes], *columns: Sequence[bytes | None], sequences: Sequence[int] = ()) -> PutRows:
    columns = columns or ([b"v"] * len(rows),)
    arrays: list[pa.Array[Any]] = [pa.array(rows, pa.binary()), pa.nulls(len(rows), pa.int64())]
    arrays += [pa.array(values, pa.binary()) for values in columns]
    fields: list[pa.Field[Any]] = [pa.field("row", pa.binary(), nullable=False), pa.field("timestamp", pa.int64())]
    fields += [pa.field(str(place), pa.binary()) for place in range(len(columns))]
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
    return PutRows(
        rows=BulkRows(
            arrow=encoded(batch),
            uncompressed_bytes=batch.nbytes,
            columns=[BulkColumn(family=b"f", qualifier=b"%d" % place) for place in range(len(columns))],
        ),
        sequences=sequences,
    )


def read(found: PutRows, client: bytes = CLIENT) -> PutBatch:
    return put_batch(found, client, 7, CONFIG)


def test_rows_are_read_as_mutations_in_order() -> None:
    found = read(message([b"b", b"a"], [b"1", None], [b"2", b"3"], sequences=[5, 6]))
    assert found.mutations() == [
        RowMutation(b"b", (Put(b"f", b"0", b"1"), Put(b"f", b"1", b"2")), request=RequestId(CLIENT, 5, 7)),
        RowMutation(b"a", (Put(b"f", b"1", b"3"),), request=RequestId(CLIENT, 6, 7)),
    ]
    assert [mutation.request for mutation in read(message([b"a"])).mutations()] == [None]
    zeros = read(message([b"a", b"b"], sequences=[0, 9]))
    assert [mutation.request for mutation in zeros.mutations()] == [None, RequestId(CLIENT, 9, 7)]


def test_pieces_together_are_the_batch() -> None:
    rows = [b"%03d" % number for number in range(100)]
    whole = read(message(rows, sequences=range(1, 101)))
    assert list(whole.pieces(100, 1 << 20)) == [whole]
    for rows_max, bytes_max in [(1, 1 << 20), (7, 1 << 20), (1000, 200), (1000, 1)]:
        pieces = list(whole.pieces(rows_max, bytes_max))
        assert len(pieces) > 1
        assert max(map(len, pieces)) <= rows_max
        assert max(map(len, pieces)) - min(map(len, pieces)) <= 1, "a small last one would not be merged with others"
        mutations = [mutation for piece in pieces for mutation in piece.mutations()]
        assert mutations == whole.mutations()


@pytest.mark.parametrize(
    ("found", "client", "error"),
    [
        (message([]), CLIENT, InvalidRequestError),
        (message([b"a", b"b"], sequences=[1]), CLIENT, InvalidRequestError),
        (message([b"a"], sequences=[1]), b"", InvalidRequestError),
        (message([b"%d" % number for number in range(1001)]), CLIENT, LimitExceededError),
        (message([b"a"], *[[b"v"]] * 1001), CLIENT, LimitExceededError),
        (PutRows(), CLIENT, InvalidRequestError),
        (PutRows(rows=BulkRows(arrow=b"nonsense", columns=[BulkColumn(family=b"f")])), CLIENT, InvalidRequestError),
    ],
)
def test_what_makes_no_sense_is_refused(found: PutRows, client: bytes, error: type[RegionServerError]) -> None:
    with pytest.raises(error):
        read(found, client)


def test_puts_do_not_delete() -> None:
    found = message([b"a"])
    found.rows.nulls_delete = True
    with pytest.raises(InvalidRequestError, match="nulls_delete"):
        read(found)


def test_values_are_bounded_nulls_included(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(put_rows, "VALUES_MAX", 20)
    read(message([b"%d" % number for number in range(10)], [None] * 10, [b"v"] * 10))
    with pytest.raises(LimitExceededError):
        read(message([b"%d" % number for number in range(11)], [None] * 11, [b"v"] * 11))


def test_the_bound_of_rows_is_one() -> None:
    for count in (1, 10, 500):
        rows = [b"%d" % number for number in range(count)]
        assert rows_at_most(message(rows), CONFIG) >= count
        assert rows_at_most(message(rows, sequences=range(1, count + 1)), CONFIG) == count


def test_damaged_bytes_are_refused_or_read() -> None:
    whole = message([b"%03d" % number for number in range(20)], [b"v", None] * 10)
    for data in damaged(whole.rows.arrow, random.Random(drawn_seed()), 600):
        whole.rows.arrow = data
        try:
            read(whole).mutations()
        except (InvalidRequestError, LimitExceededError):
            continue


def answer_of(*outcomes: RowOutcome) -> region_pb2.PutRowsAnswer:
    (answer,) = PointAnswers.FromString(put_rows_answer(3, outcomes)).answers
    assert answer.id == 3
    return answer.put_rows


def test_rows_with_the_same_result_are_answered_by_its_timestamp() -> None:
    answer = answer_of(*[RowResult(timestamp=5)] * 100)
    assert (answer.timestamp, len(answer.results)) == (5, 0)


@pytest.mark.parametrize(
    "other",
    [
        RowResult(timestamp=6),
        RowResult(timestamp=5, repeated_request=True),
        FamilyNotFoundError("no such family"),
    ],
)
def test_other_rows_are_answered_one_by_one(other: RowOutcome) -> None:
    for outcomes in ([RowResult(timestamp=5), other], [other, RowResult(timestamp=5)], [other, other]):
        results = answer_of(*outcomes).results
        if outcomes == [RowResult(timestamp=6)] * 2:
            assert not results
            continue
        assert len(results) == 2
        for result, outcome in zip(results, outcomes, strict=True):
            assert result.HasField("error") == isinstance(outcome, RegionServerError)
            if isinstance(outcome, RowResult):
                assert (result.timestamp, result.repeated_request) == (outcome.timestamp, outcome.repeated_request)


def test_a_worker_makes_puts_in_columns_and_others_do_not_wait(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        found = message([b"slow", b"b"], sequences=[1, 2])
        found.durability = DURABILITY_OS
        puts = region_pb2.PointRequest(id=1, region_id=REGION_ID, put_rows=found)
        await client.send(put(2, b"a"), puts, get(3, b"c"), client_id=CLIENT, sequence_floor=1)
        assert client.answers.keys() == {2, 3}
        region.gate.set()
        await client.until(1)
        assert client.answers[1].put_rows.timestamp == 5
        (batch,) = region.put_batches
        assert (batch.client, list(batch.sequences), batch.floor) == (CLIENT, [1, 2], 1)
        assert client.points.statistics().in_flight == 0

    run(test)


def test_the_loop_makes_no_puts_in_columns_however_few(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        await client.send(region_pb2.PointRequest(id=1, region_id=REGION_ID, put_rows=message([b"a"])))
        await client.until(1)
        assert threading.get_ident() not in region.put_threads

    run(test)


def test_large_messages_alone_in_them_and_refused_ones_are_answered(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        large = message([b"a"], [b"v" * INLINE_MESSAGE_BYTES_MAX], sequences=[1])
        await client.send(region_pb2.PointRequest(id=1, region_id=REGION_ID, put_rows=large), client_id=CLIENT)
        await client.until(1)
        assert client.answers[1].put_rows.timestamp == 5
        await client.send(region_pb2.PointRequest(id=2, region_id=REGION_ID, put_rows=PutRows()))
        await client.send(region_pb2.PointRequest(id=3, region_id=99, put_rows=message([b"a"])))
        await client.send(region_pb2.PointRequest(id=4, region_id=REGION_ID, put_rows=message([b"full"])))
        await client.until(2, 3, 4)
        codes = [client.answers[number].error.code for number in (2, 3, 4)]
        assert codes == [Error.INVALID_ARGUMENT, Error.NOT_SERVING_REGION, Error.REGION_TOO_BUSY]
        await asyncio.sleep(0)
        assert client.points.statistics().in_flight == 0
        assert client.ledger.requests.bytes_held == 0

    run(test)


def test_too_many_requests_in_flight_are_refused(run: Run, region: FakeRegion) -> None:
    async def test(client: Client) -> None:
        count = client.points.config.requests_in_flight_max
        assert client.points.reserve(count)
        await client.send(region_pb2.PointRequest(id=1, region_id=REGION_ID, put_rows=message([b"a"])))
        assert client.answers[1].error.code == Error.REGION_TOO_BUSY
        assert region.put_batches == []
        client.points.finished(count)

    run(test)
