"""Batches: the rows of each send, and the outcome of each row."""

from __future__ import annotations

import traceback
from collections.abc import Sequence

import pytest
import rowlock
from rowlock._core.batch_lines import BatchLines
from rowlock._core.batch_send import BatchSend, RowsRead
from rowlock._core.conversation import Request
from rowlock._core.put_rows import PutRow
from rowlock._transport.servers import Servers
from rowlock.errors import NotACounterError, NotServingRegionError, RegionTooBusyError, ServerUnavailableError
from rowlock.schema import Region
from rowlock_proto.v1 import region_pb2, types_pb2

from tests.unit.client.fake_errors import Mishap, error
from tests.unit.client.fake_server import FakeServer
from tests.unit.client.pauses import in_each_pause

WHOLE = Region(1, "t", b"", b"", "127.0.0.1:1")
Error = types_pb2.Error


def send_of(*rows: bytes, timeout_s: float = 10.0) -> BatchSend:
    lines = BatchLines(1000, 1 << 20)
    for row in rows:
        lines.put(row, {"f:q": "1"}, None)
    return BatchSend("t", lines.take(), 7, types_pb2.DURABILITY_UNSPECIFIED, 0.0, timeout_s)


def rows_of(request: Request) -> list[bytes]:
    return [mutation.row for mutation in request.point.mutate.mutations]


def answer(request: Request, *errors: types_pb2.Error | None) -> Request:
    request.sent = True
    request.answer = region_pb2.PointAnswer(
        mutate=region_pb2.MutateAnswer(
            results=[region_pb2.MutationResult(condition_met=met is None, error=met) for met in errors]
        )
    )
    return request


def test_changes_of_one_row_are_sent_as_one_mutation_in_order() -> None:
    lines = BatchLines(10, 1 << 20)
    lines.put("b", {"f:q": "1"}, None)
    lines.delete("a", None, None, False)
    lines.delete("b", ["f:q"], 5, False)
    lines.increment("b", "f:n", 2)
    taken = lines.take()
    assert list(taken) == [b"b", b"a"]
    line = taken[b"b"]
    assert isinstance(line, region_pb2.RowMutation)
    assert [change.WhichOneof("change") for change in line.changes] == ["put", "delete", "increment"]
    assert lines.take() == {}


def test_a_refused_change_leaves_the_batch_as_it_was() -> None:
    lines = BatchLines(10, 1 << 20)
    lines.put("a", {"f:q": "1"}, None)
    with pytest.raises(rowlock.InvalidArgumentError):
        lines.put("a", {"f:q": "2", "malformed": "3"}, None)
    line = lines.take()[b"a"]
    assert isinstance(line, PutRow)
    assert line.values == (b"1",)


def test_a_batch_is_full_by_count_or_bytes() -> None:
    by_count, by_bytes = BatchLines(2, 1 << 20), BatchLines(100, 50)
    by_count.put("a", {"f:q": "1"}, None)
    by_bytes.put("a", {"f:q": "1"}, None)
    assert not by_count.is_full
    assert not by_bytes.is_full
    by_count.put("a", {"f:q": "1"}, None)
    by_bytes.put("b", {"f:q": "x" * 50}, None)
    assert by_count.is_full
    assert by_bytes.is_full


def test_only_transient_failures_are_repeated_with_the_same_number() -> None:
    send = send_of(b"a", b"b", b"c")
    request = answer(send.request_for(WHOLE), None, error(Error.REGION_TOO_BUSY), error(Error.NOT_A_COUNTER))
    assert [mutation.sequence for mutation in request.point.mutate.mutations] == [7, 8, 9]
    send.absorb(request, None, 1.0)
    assert send.pause_s > 0
    again = send.request_for(WHOLE)
    assert rows_of(again) == [b"b"]
    assert again.point.mutate.mutations[0].sequence == 8
    send.absorb(answer(again, None), None, 2.0)
    assert send.is_done
    with pytest.raises(rowlock.BatchError) as caught:
        send.finish()
    assert caught.value.applied == [b"a", b"b"]
    assert [(row, type(met)) for row, met in caught.value.failed] == [(b"c", NotACounterError)]
    assert caught.value.unknown == []


def test_one_refusal_of_many_rows_has_a_short_traceback() -> None:
    send = send_of(*[b"%d" % number for number in range(50)])
    request = send.request_for(WHOLE)
    send.absorb(request, rowlock.InvalidArgumentError("durability os is less than the table guarantees"), 1.0)
    with pytest.raises(rowlock.BatchError) as caught:
        send.finish()
    assert len(caught.value.failed) == 50
    assert len(traceback.format_exception(caught.value)) < 20


def test_a_lost_batch_is_in_doubt_row_by_row_until_answered() -> None:
    send = send_of(b"a", b"b")
    request = send.request_for(WHOLE)
    request.sent = True
    send.absorb(request, ServerUnavailableError("cut"), 1.0)
    again = answer(send.request_for(WHOLE), None, error(Error.TABLE_NOT_FOUND))
    send.absorb(again, None, 2.0)
    with pytest.raises(rowlock.BatchError) as caught:
        send.finish()
    assert caught.value.applied == [b"a"]
    assert [row for row, _ in caught.value.unknown] == [b"b"]


@pytest.mark.parametrize("was_sent", [False, True])
def test_rows_out_of_time_are_unknown_only_if_they_were_sent(was_sent: bool) -> None:
    send = send_of(b"a", timeout_s=1.0)
    request = send.request_for(WHOLE)
    request.sent = was_sent
    send.absorb(request, None, 1.0)
    with pytest.raises(rowlock.BatchError) as caught:
        send.finish()
    assert len(caught.value.unknown) == was_sent
    assert len(caught.value.failed) == (not was_sent)


@pytest.mark.parametrize("takes_columns", [False, True])
def test_a_batch_is_divided_into_requests_that_the_server_takes(takes_columns: bool) -> None:
    lines = BatchLines(1000, 1 << 20)
    for number in range(200):
        lines.put(b"%03d" % number, {"f:q": bytes(1000)}, None)
    lines.put(b"large", {"f:q": bytes(70_000)}, None)
    lines.increment(b"last", "f:n", 1)
    send = BatchSend("t", lines.take(), 7, types_pb2.DURABILITY_FSYNC, 0.0, 10.0, request_bytes_max=100_000)
    sizes, count = [], 0
    while not send.is_done:
        request = send.request_for(WHOLE, takes_columns=takes_columns)
        sizes.append(request.point.ByteSize())
        if request.point.HasField("put_rows"):
            request.sent, request.answer = True, region_pb2.PointAnswer()
        else:
            answer(request, *[None] * len(request.point.mutate.mutations))
        send.absorb(request, None, 1.0)
        count += 1
    assert send.finish() == 202
    assert max(sizes) <= 100_000
    assert count <= 5


def test_rows_of_a_second_region_are_not_sent_after_the_deadline() -> None:
    left = Region(1, "t", b"", b"m", "s")
    send = send_of(b"a", b"y", b"z", timeout_s=1.0)
    request = send.request_for(left)
    request.sent = True
    send.absorb(request, None, 1.0)
    assert not send.is_done
    send.prepare(1.0)
    assert send.is_done
    with pytest.raises(rowlock.BatchError) as caught:
        send.finish()
    assert [row for row, _ in caught.value.unknown] == [b"a"]
    assert [(row, type(error)) for row, error in caught.value.failed] == [
        (b"y", rowlock.DeadlineError),
        (b"z", rowlock.DeadlineError),
    ]


def test_a_batch_is_divided_by_region() -> None:
    left, right = Region(1, "t", b"", b"m", "s"), Region(2, "t", b"m", b"", "s")
    send = send_of(b"z", b"a", b"b")
    assert send.first_row == b"z"
    first = send.request_for(right)
    assert rows_of(first) == [b"z"]
    send.absorb(answer(first, None), None, 1.0)
    assert rows_of(send.request_for(left)) == [b"a", b"b"]
    send.not_located(RegionTooBusyError("busy"), 2.0)
    assert not send.is_done


def test_many_rows_are_read_in_parts_and_returned_in_the_requested_order() -> None:
    read = RowsRead("t", [b"c", b"a", b"c", b"b"], rows_per_request=2)
    parts: list[Sequence[bytes]] = []
    while not read.is_done:
        rows = read.rows_for(WHOLE)
        parts.append(rows)
        cells = [region_pb2.RowCells(cells=[types_pb2.Cell(value=row)]) for row in rows]
        read.absorb(rows, region_pb2.PointAnswer(get=region_pb2.GetAnswer(rows=cells)))
    assert parts == [[b"c", b"a"], [b"b"]]
    assert read.cells_of(b"c")[0].value == b"c"


@pytest.mark.parametrize("is_region_known", [True, False])
def test_a_batch_in_doubt_is_reported_row_by_row_when_the_client_is_closed_before_a_repetition(
    servers: Servers,
    db: rowlock.Client,
    fake_server: FakeServer,
    monkeypatch: pytest.MonkeyPatch,
    is_region_known: bool,
) -> None:
    def close() -> None:
        db.close()
        if not is_region_known:
            servers.regions.forget_table("t")

    in_each_pause(monkeypatch, close)
    fake_server.script.append(Mishap.ANSWER_IS_LOST)
    batch = db.table("t").batch()
    batch.increment("a", "f:n")
    batch.increment("b", "f:n")
    with pytest.raises(rowlock.BatchError) as caught:
        batch.send()
    assert [row for row, _ in caught.value.unknown] == [b"a", b"b"]
    assert {type(unknown.__cause__) for _, unknown in caught.value.unknown} == {rowlock.ClosedError}
    assert set(fake_server.rows) == {b"a", b"b"}


def test_rows_that_their_region_no_longer_has_are_repeated_where_they_are_now() -> None:
    send = send_of(b"a", b"b", b"n")
    request = answer(send.request_for(WHOLE), None, error(Error.NOT_SERVING_REGION), error(Error.NOT_SERVING_REGION))
    send.absorb(request, None, 1.0)
    assert send.has_moved
    lower, upper = Region(2, "t", b"", b"m", "s"), Region(3, "t", b"m", b"", "s")
    again = send.request_for(lower)
    assert [(each.row, each.sequence, each.age_ms) for each in again.point.mutate.mutations] == [(b"b", 8, 0)]
    send.absorb(answer(again, None), None, 2.0)
    assert not send.has_moved
    last = send.request_for(upper)
    assert [(each.row, each.sequence) for each in last.point.mutate.mutations] == [(b"n", 9)]
    send.absorb(last, NotServingRegionError("gone"), 3.0)
    assert send.has_moved
    send.absorb(answer(send.request_for(upper), None), None, 4.0)
    assert send.finish() == 3
