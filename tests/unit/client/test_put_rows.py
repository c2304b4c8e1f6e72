"""Rows of a batch in columns: which rows are sent so, and that they say what the mutations say."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
import rowlock
from rowlock._codec.columns import Value
from rowlock._core import put_rows
from rowlock._core.batch_lines import BatchLines
from rowlock._core.batch_send import BatchSend
from rowlock._core.conversation import Request
from rowlock._core.put_rows import ROWS_MIN, VALUES_MIN, PutRow, are_faster_as_columns, chosen_rows
from rowlock.errors import InvalidArgumentError, RegionTooBusyError, RowlockError, ServerUnavailableError
from rowlock.schema import Region
from rowlock_proto.v1 import region_pb2, types_pb2

from tests.seeds import drawn_seed
from tests.unit.client.fake_errors import error
from tests.unit.client.plain_put_rows import mutations_of

WHOLE = Region(1, "t", b"", b"", "127.0.0.1:1")


def key(number: int) -> bytes:
    return b"%04d" % number


def lines_of(*rows: tuple[bytes, Mapping[str, bytes], int | None]) -> BatchLines:
    lines = BatchLines(1_000_000, 1 << 40)
    for row, data, timestamp in rows:
        lines.put(row, data, timestamp)
    return lines


def send_of(lines: BatchLines, sequence: int = 1) -> BatchSend:
    return BatchSend("t", lines.take(), sequence, types_pb2.DURABILITY_FSYNC, 0.0, 10.0)


def many(count: int = 2 * ROWS_MIN) -> BatchLines:
    return lines_of(*[(key(number), {"f:a": b"1", "f:b": b"%d" % number}, None) for number in range(count)])


def mutations_sent(request: Request) -> list[region_pb2.RowMutation]:
    point = request.point
    return mutations_of(point.put_rows) if point.HasField("put_rows") else list(point.mutate.mutations)


def rows_sent(request: Request) -> list[bytes]:
    return [mutation.row for mutation in mutations_sent(request)]


def answered(request: Request, *results: types_pb2.Error | None) -> Request:
    """The answer to a request in columns; without results, all rows were changed."""
    request.sent = True
    request.answer = region_pb2.PointAnswer(
        put_rows=region_pb2.PutRowsAnswer(
            results=[region_pb2.MutationResult(condition_met=met is None, error=met) for met in results], timestamp=5
        )
    )
    return request


@pytest.mark.parametrize(
    ("rows", "columns", "values", "expected"),
    [
        (ROWS_MIN, 10, 10 * ROWS_MIN, True),
        (ROWS_MIN - 1, 10, 10 * ROWS_MIN, False),
        (1000, 1, 1000, True),
        (VALUES_MIN, 1, VALUES_MIN, True),
        (VALUES_MIN - 1, 1, VALUES_MIN - 1, False),
        (1000, 400, 100_000, True),
        (1000, 400, 99_999, False),
        (1000, put_rows.COLUMNS_MAX, 1000 * put_rows.COLUMNS_MAX, True),
        (900, put_rows.COLUMNS_MAX + 1, 900 * put_rows.COLUMNS_MAX, False),
        (10_000, 51, 510_000, False),
        (0, 0, 0, False),
    ],
)
def test_many_rows_of_mostly_the_same_columns_are_faster(rows: int, columns: int, values: int, expected: bool) -> None:
    assert are_faster_as_columns(rows, columns, values) == expected


def test_rows_in_columns_say_what_the_mutations_say() -> None:
    generator = random.Random(drawn_seed())
    columns = [f"{family}:{qualifier}" for family in "fg" for qualifier in ("", "a", "b", "\u00e9")]
    for _ in range(30):
        rows = [
            (
                key(number),
                {
                    name: generator.randbytes(generator.choice([0, 1, 30]))
                    for name in generator.sample(columns, generator.randint(4, 8))
                },
                generator.choice([None, 0, 7]),
            )
            for number in range(generator.randint(ROWS_MIN, 80))
        ]
        plain, in_columns = send_of(lines_of(*rows), 9), send_of(lines_of(*rows), 9)
        expected = plain.request_for(WHOLE)
        found = in_columns.request_for(WHOLE, takes_columns=True)
        assert found.point.HasField("put_rows")
        assert found.point.put_rows.durability == expected.point.mutate.durability
        for mutation, other in zip(mutations_sent(found), mutations_sent(expected), strict=True):
            assert (mutation.row, mutation.sequence) == (other.row, other.sequence)
            assert sorted(map(str, mutation.changes)) == sorted(map(str, other.changes))


def test_a_server_that_does_not_know_columns_gets_mutations() -> None:
    assert send_of(many()).request_for(WHOLE).point.HasField("mutate")


def test_rows_with_other_changes_are_left_to_the_next_request() -> None:
    lines = many()
    lines.put(key(3), {"f:a": "again"}, 5)
    lines.delete(key(4), ["f:a"], None, False)
    lines.increment("counter", "f:n", 1)
    lines.mutate(key(100), [rowlock.Put("f:a", b"1"), rowlock.Put("f:b", b"2", 5)])
    lines.mutate(key(101), [rowlock.Put("f:a", b"1"), rowlock.Put("f:a", b"2")])
    lines.put(key(102), {"f:a": b"x" * (put_rows.ROW_BYTES_MAX + 1)}, None)
    lines.mutate(key(103), [rowlock.Put("f:a", b"1"), rowlock.Put("f:b", b"2")])
    send = send_of(lines)
    first = send.request_for(WHOLE, takes_columns=True)
    left_out = [key(3), key(4), b"counter", key(100), key(101), key(102)]
    assert rows_sent(first) == [*[key(number) for number in range(2 * ROWS_MIN) if number not in (3, 4)], key(103)]
    send.absorb(answered(first), None, 1.0)
    second = send.request_for(WHOLE, takes_columns=True)
    assert second.point.HasField("mutate")
    assert rows_sent(second) == left_out
    assert [change.WhichOneof("change") for change in second.point.mutate.mutations[1].changes] == [
        "put",
        "put",
        "delete",
    ]
    assert [change.put.value for change in second.point.mutate.mutations[0].changes] == [b"1", b"3", b"again"]
    assert [mutation.sequence for mutation in mutations_sent(second)] == [
        4,
        5,
        2 * ROWS_MIN + 1,
        *range(2 * ROWS_MIN + 2, 2 * ROWS_MIN + 5),
    ]


def test_several_puts_of_a_row_give_what_their_mutations_give() -> None:
    """A change of a row has one timestamp for all puts without one, and the last of equal cells counts."""

    def cells(mutation: region_pb2.RowMutation) -> dict[tuple[bytes, bytes, int], bytes]:
        puts = [change.put for change in mutation.changes]
        return {
            (put.family, put.qualifier, put.timestamp if put.HasField("timestamp") else -1): put.value for put in puts
        }

    generator = random.Random(drawn_seed())
    for _ in range(200):
        lines, expected = BatchLines(1_000_000, 1 << 40), region_pb2.RowMutation(row=b"r")
        for _ in range(generator.randint(2, 4)):
            names = generator.sample(["f:a", "f:b", "g:a"], generator.randint(1, 3))
            data = {name: generator.randbytes(generator.choice([0, 3])) for name in names}
            timestamp = generator.choice([None, None, 0, 7])
            lines.put(b"r", data, timestamp)
            [alone] = lines_of((b"r", data, timestamp)).take().values()
            assert isinstance(alone, PutRow)
            expected.changes.extend(alone.mutation().changes)
        [line] = lines.take().values()
        found = line.mutation() if isinstance(line, PutRow) else line
        assert cells(found) == cells(expected)
        assert isinstance(line, PutRow) == (len({timestamp for *_, timestamp in cells(expected)}) == 1)


def test_several_puts_of_a_row_are_sent_in_columns() -> None:
    lines = many()
    lines.put(key(3), {"f:b": b"last", "f:a": b"new"}, None)
    lines.put(key(4), {"f:c": b"more"}, None)
    sent = mutations_sent(send_of(lines).request_for(WHOLE, takes_columns=True))
    assert [mutation.row for mutation in sent] == [key(number) for number in range(2 * ROWS_MIN)]
    values = [[change.put.value for change in mutation.changes] for mutation in sent[3:5]]
    assert values == [[b"new", b"last"], [b"1", b"4", b"more"]]


def test_rows_of_the_same_puts_share_their_columns() -> None:
    rows = [(key(number), {name: b"v"}, None) for number in range(40) for name in ("f:a", "f:b")]
    taken = lines_of(*rows, (b"at once", {"f:a": b"1", "f:b": b"2"}, None)).take().values()
    assert len({id(line.columns) for line in taken if isinstance(line, PutRow)}) == 1


def test_a_row_of_very_many_puts_is_a_mutation() -> None:
    """Else each put would copy all before it."""
    [line] = lines_of(*[(b"r", {f"f:{number}": b"v"}, None) for number in range(300)]).take().values()
    assert isinstance(line, region_pb2.RowMutation)
    assert len(line.changes) == 300


def test_a_large_value_that_a_later_put_hides_is_sent_and_refused() -> None:
    lines = lines_of((b"r", {"f:a": b"x" * put_rows.ROW_BYTES_MAX}, None), (b"r", {"f:a": b"small"}, None))
    [line] = lines.take().values()
    assert isinstance(line, region_pb2.RowMutation)
    assert [len(change.put.value) for change in line.changes] == [put_rows.ROW_BYTES_MAX, 5]


def test_rows_in_doubt_are_repeated_as_mutations_with_their_age_and_number() -> None:
    send = send_of(many(), 7)
    request = send.request_for(WHOLE, takes_columns=True)
    request.sent = True
    send.absorb(request, ServerUnavailableError("cut"), 1.0)
    send.prepare(1.0)
    again = send.request_for(WHOLE, takes_columns=True)
    assert again.point.HasField("mutate")
    assert [mutation.sequence for mutation in again.point.mutate.mutations] == [*range(7, 7 + 2 * ROWS_MIN)]
    assert all(mutation.age_ms for mutation in again.point.mutate.mutations)


def test_rows_that_were_refused_for_a_moment_are_sent_in_columns_again() -> None:
    send = send_of(many())
    request = send.request_for(WHOLE, takes_columns=True)
    request.sent, request.answer = True, region_pb2.PointAnswer()
    send.absorb(request, RegionTooBusyError("busy"), 1.0)
    send.prepare(1.0)
    assert send.pause_s > 0
    assert send.request_for(WHOLE, takes_columns=True).point.HasField("put_rows")


def test_the_errors_of_rows_are_in_the_order_of_the_batch() -> None:
    lines = BatchLines(1000, 1 << 20)
    lines.increment("first", "f:n", 1)
    for number in range(ROWS_MIN):
        lines.put(key(number), {"f:a": "1", "f:b": "2"}, None)
    send = send_of(lines)
    refused = error(types_pb2.Error.FAMILY_NOT_FOUND)
    in_columns = send.request_for(WHOLE, takes_columns=True)
    send.absorb(answered(in_columns, None, refused, *[None] * (ROWS_MIN - 2)), None, 1.0)
    rest = send.request_for(WHOLE, takes_columns=True)
    rest.sent = True
    rest.answer = region_pb2.PointAnswer(
        mutate=region_pb2.MutateAnswer(results=[region_pb2.MutationResult(error=refused)])
    )
    send.absorb(rest, None, 1.0)
    assert send.is_done
    with pytest.raises(rowlock.BatchError) as caught:
        send.finish()
    assert [row for row, _ in caught.value.failed] == [b"first", key(1)]
    assert caught.value.applied == [key(number) for number in range(ROWS_MIN) if number != 1]


@pytest.mark.parametrize("refusal", [InvalidArgumentError("no operation"), rowlock.LimitExceededError("too many")])
def test_a_server_that_refuses_columns_as_a_whole_gets_mutations(refusal: RowlockError) -> None:
    send = send_of(many())
    request = send.request_for(WHOLE, takes_columns=True)
    request.sent, request.answer = True, region_pb2.PointAnswer()
    send.absorb(request, refusal, 1.0)
    assert send.pause_s == 0
    again = send.request_for(WHOLE, takes_columns=True)
    assert again.point.HasField("mutate")
    assert rows_sent(again) == rows_sent(request)


def test_a_request_in_columns_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(put_rows, "ROWS_MAX", 40)
    send = send_of(many(100))
    sizes = []
    while not send.is_done:
        request = send.request_for(WHOLE, takes_columns=True)
        sizes.append(len(rows_sent(request)))
        if request.point.HasField("put_rows"):
            send.absorb(answered(request), None, 1.0)
        else:
            break
    assert sizes == [40, 40, 20]
    monkeypatch.setattr(put_rows, "ROWS_MAX", 10_000)
    monkeypatch.setattr(put_rows, "REQUEST_BYTES_MAX", 3000)
    (*_, last) = chosen_rows(many(200).take().values())
    assert last.row < key(199)


def test_names_of_one_column_in_two_types_are_one_column() -> None:
    lines = BatchLines(1000, 1 << 20)
    lines.put("a", {"f:a": "1", b"f:a": "2"}, None)  # type: ignore[type-var]  # a caller may do it all the same
    (line,) = lines.take().values()
    assert isinstance(line, region_pb2.RowMutation)
    assert [change.put.value for change in line.changes] == [b"1", b"2"]


@pytest.mark.parametrize("value", ["text", bytearray(b"text"), memoryview(b"text"), b"text"])
def test_values_of_all_types_are_bytes_in_the_end(value: Value) -> None:
    lines = BatchLines(1000, 1 << 20)
    lines.put("a", {"f:a": value}, None)
    (line,) = lines.take().values()
    assert isinstance(line, PutRow)
    assert line.values == (b"text",)
    assert type(line.values[0]) is bytes


def test_the_size_of_a_row_is_about_that_of_its_mutation() -> None:
    for line in many(5).take().values():
        assert isinstance(line, PutRow)
        assert abs(line.byte_count - line.mutation().ByteSize()) <= 10


def test_a_timestamp_that_no_cell_can_have_is_refused_by_itself() -> None:
    lines = lines_of((b"good", {"f:a": b"1"}, None))
    with pytest.raises(InvalidArgumentError, match="timestamp"):
        lines.mutate(b"bad", [rowlock.Put("f:a", b"1", 2**63 - 1)])
    assert list(lines.take()) == [b"good"]


def test_names_of_rows_with_many_columns_are_not_remembered() -> None:
    before = put_rows._shape.cache_info().currsize
    many = lines_of((b"wide", {f"f:{number}": b"1" for number in range(put_rows._NAMES_CACHED_MAX + 1)}, None))
    assert put_rows._shape.cache_info().currsize == before
    assert len(many.take()) == 1
