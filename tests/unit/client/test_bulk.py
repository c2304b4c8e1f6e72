"""put_arrow: batches in flight, their order, and the outcome of each row."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa
import pytest
import rowlock
from rowlock._codec.bulk_rows import BULK_SCHEMA, BulkCells
from rowlock._core.bulk_input import ArrowInput, Piece, Sizes, bulk_pieces
from rowlock._core.bulk_parts import Bulk
from rowlock._core.bulk_send import WINDOW, BulkSend
from rowlock._core.sequences import Sequences
from rowlock.errors import ServerUnavailableError
from rowlock.schema import Region
from rowlock_proto.v1 import region_pb2, types_pb2

from tests.unit.client.fake_errors import Mishap, error
from tests.unit.client.fake_server import FakeServer
from tests.unit.client.pauses import in_each_pause

WHOLE = Region(1, "t", b"", b"", "127.0.0.1:1")
LEFT, RIGHT = Region(1, "t", b"", b"m", "s"), Region(2, "t", b"m", b"", "s")
MAPPING = rowlock.Mapping("k STRING :key, v STRING f:v")
Error = types_pb2.Error


def rows(*keys: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"k": list(keys), "v": [f"value of {key}" for key in keys]})


def pieces(
    data: ArrowInput, mapping: rowlock.Mapping | None, timestamp: int | None = None, batch_bytes: int = 1 << 20
) -> Iterator[Piece]:
    return bulk_pieces(data, mapping, timestamp, Sizes(batch_bytes, batch_bytes))


def batches(*keys: list[str]) -> Iterator[Piece]:
    """Returns one batch per list of keys."""
    position = 0
    for named in keys:
        for made in pieces(rows(*named), MAPPING):
            yield Piece(range(position, position + len(named)), made.data)
        position += len(named)


def send_of(*keys: list[str]) -> tuple[BulkSend, Sequences]:
    sequences = Sequences()
    return BulkSend("t", batches(*keys), sequences, types_pb2.DURABILITY_UNSPECIFIED, 10.0, 3600.0), sequences


def message_of(send: BulkSend, bulk: Bulk, region: Region, *, takes_rows: bool) -> region_pb2.BulkBatch:
    """Returns the message of a batch, which is in flight now, as the server reads it."""
    return region_pb2.BulkBatch.FromString(b"".join(send.message(bulk, region, takes_rows=takes_rows)))


def put_on_stream(send: BulkSend, region: Region = WHOLE) -> list[region_pb2.BulkBatch]:
    """Returns all batches that may be sent now, after the pause if there is one."""
    sent = []
    send.pause_s = 0.0
    while (bulk := send.next(0.0)) is not None:
        sent.append(message_of(send, bulk, region, takes_rows=False))
    return sent


def keys_of(message: region_pb2.BulkBatch) -> list[bytes | None]:
    return read(message).column("row").to_pylist()


def read(message: region_pb2.BulkBatch) -> pa.Table:
    with pa.ipc.open_stream(message.arrow) as reader:
        table = reader.read_all()
    assert table.schema == BULK_SCHEMA
    return table


def applied(cells: int = 1) -> region_pb2.BulkAnswer:
    return region_pb2.BulkAnswer(cell_count=cells, row_count=cells)


def test_a_window_of_batches_is_in_flight_and_answers_move_it() -> None:
    send, sequences = send_of(*[[str(number)] for number in range(WINDOW + 2)])
    sent = put_on_stream(send)
    assert [message.sequence for message in sent] == list(range(1, WINDOW + 1))
    assert put_on_stream(send) == []
    send.answered(applied(), 1.0)
    assert [message.sequence_floor for message in put_on_stream(send)] == [2]
    while send.is_waiting:
        send.answered(applied(), 1.0)
        put_on_stream(send)
    assert send.is_done
    assert send.finish() == rowlock.BulkResult(row_count=WINDOW + 2, cell_count=WINDOW + 2)
    assert sequences.floor() == WINDOW + 3


def test_messages_declare_their_bytes() -> None:
    send, _ = send_of(["a", "b"])
    (message,) = put_on_stream(send)
    table = read(message)
    assert 0 < table.get_total_buffer_size() <= message.uncompressed_bytes + 64 * 15
    assert table.column("timestamp").null_count == 2


def test_a_batch_waits_for_a_batch_in_flight_with_the_same_row() -> None:
    send, _ = send_of(["a", "z"], ["b"], ["m", "z"], ["c"])
    assert [keys_of(message) for message in put_on_stream(send)] == [[b"a", b"z"], [b"b"]]
    send.answered(applied(), 1.0)
    assert [keys_of(message) for message in put_on_stream(send)] == [[b"m", b"z"], [b"c"]]


def test_a_lost_stream_repeats_all_batches_in_flight_in_order_and_with_their_numbers() -> None:
    send, _ = send_of(["a"], ["b"], ["c"])
    assert [message.sequence for message in put_on_stream(send)] == [1, 2, 3]
    send.answered(applied(), 1.0)
    send.lost(ServerUnavailableError("cut"), 1.0)
    assert send.pause_s > 0
    assert [message.sequence for message in put_on_stream(send)] == [2, 3]


def test_a_busy_server_gets_the_batch_again_after_the_others_were_answered() -> None:
    send, _ = send_of(["a"], ["b"], ["c"], ["d"])
    put_on_stream(send)
    send.answered(region_pb2.BulkAnswer(error=error(Error.REGION_TOO_BUSY)), 1.0)
    assert put_on_stream(send) == []
    send.answered(applied(), 1.0)
    send.answered(applied(), 1.0)
    assert [message.sequence for message in put_on_stream(send)] == [1, 4]


def test_a_batch_is_repeated_after_the_pause_that_the_server_requested() -> None:
    send, _ = send_of(["a"], ["b"])
    put_on_stream(send)
    busy = error(Error.REGION_TOO_BUSY)
    busy.retry_after_ms = 5000
    send.answered(region_pb2.BulkAnswer(error=busy), 1.0)
    send.answered(applied(), 1.0)
    assert send.pause_s == 5.0
    assert send.next(1.0) is None
    assert [message.sequence for message in put_on_stream(send)] == [1]


@pytest.mark.parametrize("code", [Error.REGION_TOO_BUSY, Error.DEADLINE_EXCEEDED])
def test_a_batch_that_a_busy_server_refuses_is_repeated_long_after_the_timeout(
    code: Error.Code, caplog: pytest.LogCaptureFixture
) -> None:
    """Both are answers of a server whose flush takes long: it refuses the batch, or its own wait times out."""
    send, _ = send_of(["a"])
    for now in range(0, 3600, 9):
        [message] = put_on_stream(send)
        assert message.sequence == 1
        send.answered(region_pb2.BulkAnswer(error=error(code, "a flush is under way")), float(now))
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 199
    start = (
        "put_arrow into 't' has waited 18 s for the server at 127.0.0.1:1 and will wait at most 3582 s more: a flush"
    )
    assert lines[0].startswith(start)
    put_on_stream(send)
    send.answered(region_pb2.BulkAnswer(error=error(code, "a flush is under way")), 3601.0)
    with pytest.raises(rowlock.BulkError, match="stayed busy for 3600 s: a flush is under way"):
        send.finish()


def test_progress_ends_a_wait_and_the_next_one_begins_at_zero(caplog: pytest.LogCaptureFixture) -> None:
    send, _ = send_of(["a"], ["b"])
    for now in (0.0, 8.0):
        put_on_stream(send)
        send.answered(region_pb2.BulkAnswer(error=error(Error.REGION_TOO_BUSY)), now)
        send.answered(region_pb2.BulkAnswer(error=error(Error.REGION_TOO_BUSY)), now)
    put_on_stream(send)
    send.answered(applied(), 9.0)
    send.answered(region_pb2.BulkAnswer(error=error(Error.REGION_TOO_BUSY)), 12.0)
    assert caplog.records == []


def test_a_refused_batch_ends_put_arrow_and_every_row_is_reported() -> None:
    send, _ = send_of(["a"], ["b"], ["c"], ["d"])
    put_on_stream(send)
    send.answered(applied(), 1.0)
    send.answered(region_pb2.BulkAnswer(error=error(Error.FAMILY_NOT_FOUND, "no such family")), 1.0)
    send.answered(applied(), 1.0)
    assert put_on_stream(send) == []
    assert send.is_done
    with pytest.raises(rowlock.BulkError, match="no such family") as caught:
        send.finish()
    assert caught.value.applied == [range(1), range(2, 3)]
    assert [span for span, _ in caught.value.failed] == [range(1, 2)]
    assert caught.value.unknown == []


def test_a_batch_in_doubt_at_the_end_is_unknown() -> None:
    send, _ = send_of(["a"], ["b"])
    put_on_stream(send)
    send.lost(ServerUnavailableError("cut"), 100.0)
    with pytest.raises(rowlock.BulkError) as caught:
        send.finish()
    assert [span for span, _ in caught.value.unknown] == [range(1, 2), range(1)]


def test_a_batch_over_two_regions_becomes_two() -> None:
    send, _ = send_of(["a", "n", "b"])
    bulk = send.next(0.0)
    assert bulk is not None
    left = message_of(send, bulk, LEFT, takes_rows=False)
    rest = send.next(0.0)
    assert rest is not None
    right = message_of(send, rest, RIGHT, takes_rows=False)
    assert (keys_of(left), keys_of(right)) == ([b"a", b"b"], [b"n"])
    assert left.sequence != right.sequence


def sent_to_two_regions(send: BulkSend) -> None:
    """The next batch, cut at b"m"."""
    for region in (LEFT, RIGHT):
        bulk = send.next(0.0)
        assert bulk is not None
        message_of(send, bulk, region, takes_rows=False)


def test_rows_of_a_batch_over_two_regions_count_once_all_of_it_was_applied() -> None:
    send, _ = send_of(["a", "n", "b"])
    sent_to_two_regions(send)
    send.answered(applied(2), 1.0)
    assert send.written_count == 0
    send.answered(applied(1), 1.0)
    assert send.finish() == rowlock.BulkResult(row_count=3, cell_count=3)


@pytest.mark.parametrize("is_left_refused", [True, False])
def test_a_batch_that_only_one_region_wrote_is_neither_applied_nor_failed(is_left_refused: bool) -> None:
    send, _ = send_of(["a", "n", "b"])
    sent_to_two_regions(send)
    refused = region_pb2.BulkAnswer(error=error(Error.FAMILY_NOT_FOUND, "no such family"))
    for answer in (refused, applied()) if is_left_refused else (applied(), refused):
        send.answered(answer, 1.0)
    with pytest.raises(rowlock.BulkError, match="no such family") as caught:
        send.finish()
    assert (caught.value.applied, caught.value.failed) == ([], [])
    assert [span for span, _ in caught.value.unknown] == [range(3)]


def test_a_batch_that_both_regions_refuse_has_failed_once() -> None:
    send, _ = send_of(["a", "n", "b"])
    sent_to_two_regions(send)
    for _ in range(2):
        send.answered(region_pb2.BulkAnswer(error=error(Error.FAMILY_NOT_FOUND)), 1.0)
    with pytest.raises(rowlock.BulkError) as caught:
        send.finish()
    assert [span for span, _ in caught.value.failed] == [range(3)]
    assert (caught.value.applied, caught.value.unknown) == ([], [])


def test_a_part_for_another_region_is_repeated_before_later_batches() -> None:
    send, _ = send_of(["a", "n"], ["o"])
    put_on_stream(send)
    send.lost(ServerUnavailableError("the region was split"), 1.0)
    send.pause_s = 0.0
    bulk = send.next(1.0)
    assert bulk is not None
    message_of(send, bulk, LEFT, takes_rows=False)
    assert [keys_of(message) for message in put_on_stream(send, RIGHT)] == [[b"n"], [b"o"]]
    send.lost(ServerUnavailableError("cut"), 1.0)
    assert [keys_of(message) for message in put_on_stream(send, WHOLE)] == [[b"a"], [b"n"], [b"o"]]


def test_an_answer_gives_the_region_of_its_batch() -> None:
    send, _ = send_of(["a", "n"])
    sent_to_two_regions(send)
    moved = region_pb2.BulkAnswer(error=error(Error.NOT_SERVING_REGION))
    assert [send.answered(moved, 1.0), send.answered(applied(), 1.0)] == [LEFT, RIGHT]


def test_only_the_batch_that_ended_the_stream_by_its_size_has_failed() -> None:
    send, _ = send_of(["a"], ["b" * 5000], ["c"], ["d"])
    sent = put_on_stream(send)
    send.lost(rowlock.LimitExceededError("too large", limit_value=4096, found=sent[1].ByteSize()), 1.0)
    # The others are repeated with their numbers.
    assert [message.sequence for message in put_on_stream(send)] == [1, 3]
    send.answered(applied(), 1.0)
    send.answered(applied(), 1.0)
    assert send.is_done
    message = r"row 'bbb*'... takes \d+ bytes as one message, more than request_bytes_max = 4096 of .*: its cells in"
    with pytest.raises(rowlock.BulkError, match=message) as caught:
        send.finish()
    assert isinstance(caught.value.__cause__, rowlock.LimitExceededError)
    assert caught.value.__cause__.row == b"b" * 5000
    assert caught.value.applied == [range(1), range(2, 3)]
    assert [span for span, _ in caught.value.failed] == [range(1, 2)]
    assert caught.value.unknown == []


def test_a_batch_of_several_rows_that_is_too_large_names_the_first() -> None:
    send, _ = send_of(["a", "b" * 5000])
    [sent] = put_on_stream(send)
    send.lost(rowlock.LimitExceededError("too large", limit_value=4096, found=sent.ByteSize()), 1.0)
    message = (
        r"the batch that begins with row 'a' takes \d+ bytes .* at 127.0.0.1:1; send less at once: smaller batches"
    )
    with pytest.raises(rowlock.LimitExceededError, match=message):
        send.finish()


def test_batches_are_in_doubt_when_none_of_them_was_too_large() -> None:
    send, _ = send_of(["a"], ["b"])
    put_on_stream(send)
    send.lost(rowlock.LimitExceededError("too large", limit_value=1 << 20, found=2 << 20), 100.0)
    with pytest.raises(rowlock.BulkError) as caught:
        send.finish()
    assert (caught.value.applied, caught.value.failed) == ([], [])
    assert [span for span, _ in caught.value.unknown] == [range(1, 2), range(1)]


def test_rows_are_shared_only_if_they_are() -> None:
    first, second, third = (Bulk(made, 1) for made in batches(["a", "c"], ["b"], ["b", "x"]))
    assert not first.shares_row_with(second)
    assert second.shares_row_with(third)


@pytest.mark.parametrize(
    "data",
    [
        rows("a", "b"),
        pa.Table.from_batches([rows("a"), rows("b")]),
        [rows("a"), pa.Table.from_batches([rows("b")])],
        pa.RecordBatchReader.from_batches(rows().schema, [rows("a"), rows("b")]),
        pa.Table.from_arrays([pa.chunked_array([["a"], ["b"]]), pa.chunked_array([["1", "2"]])], ["k", "v"]),
        rows("a", "b").to_pandas(),
    ],
    ids=["batch", "table", "iterable", "reader", "chunked", "pandas"],
)
def test_arrow_data_of_every_kind_is_taken(data: ArrowInput) -> None:
    made = list(pieces(data, MAPPING))
    assert [row for item in made for row in item.data.cells().column("row").to_pylist()] == [b"a", b"b"]
    assert [item.rows.start for item in made] == [0, 1][: len(made)]


def test_batches_have_about_the_requested_size_and_rows_are_numbered_consecutively() -> None:
    data = pa.RecordBatch.from_pydict({"k": [f"{n:04}" for n in range(100)], "v": ["x" * 100] * 99 + ["x" * 50_000]})
    made = list(pieces(data, MAPPING, None, 4096))
    assert max(item.byte_count for item in made[:-1]) <= 2 * 4096
    assert [item.rows.start for item in made[1:]] == [item.rows.stop for item in made[:-1]]
    assert made[-1].rows.stop == 100
    assert sum(item.data.cells().num_rows for item in made) == 100


def test_cells_are_taken_as_they_are() -> None:
    columns: dict[str, list[object]] = {
        "row": ["x", "a"],
        "family": ["f"] * 2,
        "qualifier": ["q"] * 2,
        "value": ["v", None],
    }
    (stamped,) = pieces(pa.RecordBatch.from_pydict(columns), None, 7, 1 << 20)
    assert stamped.data.cells().column("timestamp").to_pylist() == [7, 7]
    columns["timestamp"] = [None, 5]
    (sliced,) = pieces(pa.RecordBatch.from_pydict(columns).slice(1), None, None, 1 << 20)
    assert sliced.data.cells().schema == BULK_SCHEMA
    assert sliced.data.cells().to_pylist() == [
        {"row": b"a", "family": b"f", "qualifier": b"q", "timestamp": 5, "value": None}
    ]


def test_batches_of_cells_have_the_requested_size_and_declare_their_bytes() -> None:
    count = 1000
    cells = pa.table(
        {
            "row": [f"{number:04}".encode() for number in range(count)],
            "family": [b"f"] * count,
            "qualifier": [b"q"] * count,
            "value": [b"x" * 100] * count,
            "timestamp": pa.array([5] * count, pa.int64()),
        }
    )
    made = list(pieces(cells, None, None, cells.nbytes // 4))
    assert 4 <= len(made) <= 6
    assert sum(item.byte_count for item in made) <= cells.nbytes + len(made) * 64
    send = BulkSend("t", iter(made), Sequences(), types_pb2.DURABILITY_UNSPECIFIED, 10.0, 3600.0)
    for message in put_on_stream(send):
        assert len(message.arrow) < cells.nbytes // 2
        assert message.uncompressed_bytes < cells.nbytes // 2
        assert read(message).get_total_buffer_size() <= message.uncompressed_bytes + 64 * 15


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"k": ["a"], "v": ["b"]}, "Without a mapping the data is cells"),
        ({"row": [None], "family": ["f"], "qualifier": ["q"], "value": ["v"]}, "'row' of cells has nulls"),
        ({"row": [1.5], "family": ["f"], "qualifier": ["q"], "value": ["v"]}, "'row' of cells is not binary"),
        (
            {"row": ["a"], "family": ["f"], "qualifier": ["q"], "value": ["v"], "timestamp": [1]},
            "leave out the argument timestamp",
        ),
    ],
)
def test_data_that_is_no_cells_is_refused(columns: dict[str, list[object]], words: str) -> None:
    with pytest.raises(rowlock.InvalidArgumentError) as caught:
        list(pieces(pa.RecordBatch.from_pydict(columns), None, 5, 1 << 20))
    assert words in str(caught.value)


def test_put_arrow_pauses_before_it_repeats_a_batch_that_a_busy_server_refused(
    db: rowlock.Client, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[tuple[float, int]] = []
    monkeypatch.setattr(time, "sleep", lambda pause: pauses.append((pause, len(fake_server.bulks))))
    busy = error(Error.REGION_TOO_BUSY)
    busy.retry_after_ms = 5000
    fake_server.bulk_script.append(busy)
    assert db.table("t").put_arrow(rows("a"), MAPPING).row_count == 1
    assert pauses == [(5.0, 1), (0.0, 2)]


def test_put_arrow_reports_what_it_wrote_when_the_client_is_closed(
    db: rowlock.Client, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_each_pause(monkeypatch, db.close)
    fake_server.bulk_script.extend([Mishap.NONE, Mishap.ANSWER_IS_LOST])
    with pytest.raises(rowlock.BulkError) as caught:
        db.table("t").put_arrow([rows("a"), rows("b"), rows("c"), rows("d"), rows("e")], MAPPING)
    assert caught.value.applied == [range(1)]
    assert caught.value.unknown[0][0] == range(1, 2)


def test_the_rows_that_are_written_are_counted_up_to_the_first_gap() -> None:
    """Callers leave these rows out when they go on, so rows behind a gap are not counted, though they are written."""
    busy = region_pb2.BulkAnswer(error=error(Error.REGION_TOO_BUSY))
    refused = region_pb2.BulkAnswer(error=error(Error.FAMILY_NOT_FOUND))
    send, _ = send_of(["a", "b"], ["c"], ["d", "e"], ["f"])
    assert send.written_count == 0
    put_on_stream(send)
    assert send.written_count == 0
    send.answered(applied(), 0.0)
    assert send.written_count == 2
    send.answered(busy, 0.0)
    send.answered(applied(), 0.0)
    assert send.written_count == 2
    put_on_stream(send)
    send.answered(applied(), 0.0)
    assert send.written_count == 5
    send.answered(refused, 0.0)
    assert send.is_done
    assert send.written_count == 5


A_TO_F, G_TO_L = Region(4, "t", b"", b"g", "s"), Region(5, "t", b"g", b"m", "s")


def test_a_batch_in_doubt_whose_region_was_split_becomes_parts_of_itself() -> None:
    """Its number stays in use until both parts are answered: under it the daughters have the parent's answer."""
    send, sequences = send_of(["a", "n"], ["b"])
    assert [message.sequence for message in put_on_stream(send)] == [1, 2]
    send.lost(ServerUnavailableError("cut"), 1.0)
    send.pause_s = 0.0
    first = send.next(2.0)
    assert first is not None
    lower = message_of(send, first, LEFT, takes_rows=False)
    second = send.next(2.0)
    assert second is not None
    upper = message_of(send, second, RIGHT, takes_rows=False)
    assert [(keys_of(each), list(each.parts_of)) for each in (lower, upper)] == [([b"a"], [1]), ([b"n"], [1])]
    assert len({1, 2, lower.sequence, upper.sequence}) == 4
    assert 1 <= lower.age_ms <= upper.age_ms
    assert [each.sequence_floor for each in (lower, upper)] == [1, 1]
    whole = send.next(2.0)
    assert whole is not None
    other = message_of(send, whole, LEFT, takes_rows=False)
    assert (other.sequence, list(other.parts_of), keys_of(other)) == (2, [], [b"b"])
    send.answered(applied(), 3.0)
    assert sequences.floor() == 1
    send.answered(applied(), 3.0)
    assert sequences.floor() == 2
    send.answered(applied(), 3.0)
    assert put_on_stream(send) == []
    assert send.finish() == rowlock.BulkResult(row_count=3, cell_count=3)
    assert sequences.floor() == 5


def test_a_part_in_doubt_whose_region_was_split_again_names_all_that_it_is_a_part_of() -> None:
    send, sequences = send_of(["a", "h", "n"])
    put_on_stream(send)
    send.lost(ServerUnavailableError("cut"), 1.0)
    send.pause_s = 0.0
    bulk = send.next(2.0)
    assert bulk is not None
    lower = message_of(send, bulk, LEFT, takes_rows=False)
    send.lost(ServerUnavailableError("cut"), 3.0)
    send.pause_s = 0.0
    sent = []
    for region in (A_TO_F, G_TO_L, RIGHT):
        bulk = send.next(4.0)
        assert bulk is not None
        sent.append(message_of(send, bulk, region, takes_rows=False))
    assert [(keys_of(each), list(each.parts_of)) for each in sent] == [
        ([b"a"], [1, lower.sequence]),
        ([b"h"], [1, lower.sequence]),
        ([b"n"], [1]),
    ]
    assert min(each.age_ms for each in sent) >= 1
    for _ in sent:
        assert sequences.floor() == 1
        send.answered(applied(), 5.0)
    assert put_on_stream(send) == []
    assert sequences.floor() == 6


def test_a_part_of_a_batch_in_doubt_that_is_refused_is_unknown() -> None:
    send, sequences = send_of(["a", "n"])
    put_on_stream(send)
    send.lost(ServerUnavailableError("cut"), 1.0)
    send.pause_s = 0.0
    for region in (LEFT, RIGHT):
        bulk = send.next(2.0)
        assert bulk is not None
        message_of(send, bulk, region, takes_rows=False)
    send.answered(applied(), 3.0)
    send.answered(region_pb2.BulkAnswer(error=error(Error.TABLE_NOT_FOUND)), 3.0)
    assert put_on_stream(send) == []
    with pytest.raises(rowlock.BulkError) as caught:
        send.finish()
    assert [rows for rows, _ in caught.value.unknown] == [range(2)]
    assert sequences.floor() == 4


def test_a_part_of_a_batch_in_doubt_that_a_busy_server_refuses_stays_in_doubt() -> None:
    """So the server can tell that it may have forgotten the answer to the whole."""
    send, _ = send_of(["a", "n"])
    put_on_stream(send)
    send.lost(ServerUnavailableError("cut"), 1.0)
    send.pause_s = 0.0
    for region in (LEFT, RIGHT):
        bulk = send.next(2.0)
        assert bulk is not None
        message_of(send, bulk, region, takes_rows=False)
    for _ in range(2):
        send.answered(region_pb2.BulkAnswer(error=error(Error.REGION_TOO_BUSY)), 3.0)
    send.pause_s = 0.0
    for _ in range(2):
        bulk = send.next(4.0)
        assert bulk is not None
        again = message_of(send, bulk, LEFT if LEFT.holds(bulk.first_row) else RIGHT, takes_rows=False)
        assert (list(again.parts_of), again.age_ms >= 1) == ([1], True)


def test_a_batch_that_was_refused_and_whose_region_was_split_is_no_part() -> None:
    send, sequences = send_of(["a", "n"])
    put_on_stream(send)
    send.answered(region_pb2.BulkAnswer(error=error(Error.NOT_SERVING_REGION)), 1.0)
    send.pause_s = 0.0
    sent = []
    for region in (LEFT, RIGHT):
        bulk = send.next(2.0)
        assert bulk is not None
        sent.append(message_of(send, bulk, region, takes_rows=False))
    assert [(each.sequence, list(each.parts_of), each.age_ms) for each in sent] == [(1, [], 0), (2, [], 0)]
    send.stop()
    assert sequences.floor() == 3


def test_a_send_that_is_stopped_holds_no_number_of_a_batch_that_became_parts() -> None:
    send, sequences = send_of(["a", "n"])
    put_on_stream(send)
    send.lost(ServerUnavailableError("cut"), 1.0)
    send.pause_s = 0.0
    bulk = send.next(2.0)
    assert bulk is not None
    message_of(send, bulk, LEFT, takes_rows=False)
    assert sequences.floor() == 1
    send.stop()
    assert sequences.floor() == 4


CELLS = pa.RecordBatch.from_pydict({"row": [b"r"], "family": [b"f"], "qualifier": [b"q"], "value": [b"1"]})


def test_cells_beside_rows_are_told_by_their_columns_unless_the_mapping_has_these() -> None:
    sizes = Sizes(1 << 20, 1 << 20)
    found = list(bulk_pieces([rows("a"), CELLS], MAPPING, None, sizes, is_partial=True, or_cells=True))
    assert [isinstance(piece.data, BulkCells) for piece in found] == [False, True]
    mapping = rowlock.Mapping("row STRING :key, family STRING f:a, qualifier STRING f:b, value STRING f:c")
    (piece,) = bulk_pieces(CELLS, mapping, None, sizes, is_partial=True, or_cells=True)
    assert not isinstance(piece.data, BulkCells)
    with pytest.raises(rowlock.MappingError, match="which the mapping does not name"):
        list(bulk_pieces(CELLS, MAPPING, None, sizes, is_partial=True))
