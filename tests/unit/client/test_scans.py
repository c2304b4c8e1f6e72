"""Scans: ranges, complete rows from batches, and resuming after a loss."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import islice

import pyarrow as pa
import pytest
import rowlock
from rowlock._codec.arrow_buffers import Array
from rowlock._codec.columns import Name, decoder
from rowlock._codec.line_rows import LineRows
from rowlock._codec.newest_rows import NewestRows
from rowlock._codec.row_form import FormColumn, form_of
from rowlock._codec.scan_message import ScanMessage, parse_scan_message
from rowlock._core.scan_plan import ScanPlan, in_row_form, of_newest_rows, scan_plan
from rowlock._core.scan_progress import CELL_SCHEMA, Received, ScanProgress
from rowlock.rows import python_cells, python_rows
from rowlock.schema import Region
from rowlock.selection import Selection
from rowlock_proto.v1 import region_pb2

from tests.unit.client.fake_server import FakeServer
from tests.unit.client.plain_row_form import as_requested, laid_out, stream_of

WHOLE = Region(1, "t", b"", b"", "127.0.0.1:1")


def batch(
    *rows: bytes, row_continues: bool = False, qualifier: bytes = b"q", row_reached: bytes = b""
) -> region_pb2.ScanBatch:
    """Returns one cell per row."""
    count = len(rows)
    columns: list[Array] = [
        pa.array(rows, pa.binary()),
        pa.array([b"f"] * count, pa.binary()),
        pa.array([qualifier] * count, pa.binary()),
        pa.array([1] * count, pa.int64()),
        pa.array(rows, pa.binary()),
    ]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, CELL_SCHEMA) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=CELL_SCHEMA))
    return region_pb2.ScanBatch(
        arrow=sink.getvalue().to_pybytes(), row_continues=row_continues, row_count=count, row_reached=row_reached
    )


def came(*rows: bytes, row_continues: bool = False, row_reached: bytes = b"") -> ScanMessage:
    """Returns the batch as a client receives it."""
    return parse_scan_message(batch(*rows, row_continues=row_continues, row_reached=row_reached).SerializeToString())


def plan(
    start: Name | None = None,
    stop: Name | None = None,
    *,
    prefix: Name | None = None,
    ranges: Sequence[tuple[Name | None, Name | None]] | None = None,
    limit: int | None = None,
    reverse: bool = False,
    strict: bool = False,
    snapshot_id: bytes = b"",
) -> ScanPlan:
    return scan_plan(
        "t",
        start=start,
        stop=stop,
        prefix=prefix,
        ranges=ranges,
        selection=Selection(),
        limit=limit,
        reverse=reverse,
        strict=strict,
        batch_bytes=0,
        snapshot_id=snapshot_id,
    )


def requested_ranges(request: region_pb2.ScanRequest) -> list[tuple[bytes, bytes]]:
    return [(item.start, item.stop) for item in request.ranges]


def rows_of(found: Received | None) -> list[bytes | None]:
    if isinstance(found, NewestRows):
        return [*found.rows]
    if isinstance(found, LineRows):
        return found.keys.to_pylist()
    return [] if found is None else found.column("row").to_pylist()


def newest_rows(*rows: bytes) -> ScanMessage:
    """Returns rows of one column, each with an empty value."""
    found = region_pb2.NewestRows(
        column_sets=[region_pb2.ColumnSet(columns=[b"f:q"])],
        lengths=[length for row in rows for length in (len(row), 0)],
        data=b"".join(rows),
    )
    return parse_scan_message(region_pb2.ScanBatch(newest_rows=found, row_count=len(rows)).SerializeToString())


def test_ranges_are_put_in_order_and_joined_where_they_touch() -> None:
    assert plan(ranges=[("m", "p"), ("a", "c"), ("b", "d"), ("d", "e"), ("x", "x")]).ranges == (
        (b"a", b"e"),
        (b"m", b"p"),
    )
    assert plan(ranges=[("a", None), ("b", "c")]).ranges == ((b"a", b""),)
    assert plan(prefix="ab").ranges == ((b"ab", b"ac"),)
    assert plan().ranges == ((b"", b""),)
    assert plan("b", "b").ranges == ()


def test_each_region_gets_the_request_for_its_part_in_the_direction_of_the_scan() -> None:
    regions = (
        Region(1, "t", b"", b"g", "s"),
        Region(2, "t", b"g", b"p", "s"),
        Region(3, "t", b"p", b"", "s"),
    )
    progress = ScanProgress(plan(ranges=[("b", "k"), ("m", "x")]), 10)
    seen = []
    while not progress.is_done:
        start, stop = progress.bounds
        touching = tuple(
            item for item in regions if (not stop or item.start < stop) and (not item.stop or start < item.stop)
        )
        region, request = progress.request_for(touching)
        seen.append((region.region_id, requested_ranges(request)))
        progress.region_is_done(region)
    assert seen == [(1, [(b"b", b"g")]), (2, [(b"g", b"k"), (b"m", b"p")]), (3, [(b"p", b"x")])]

    backwards = ScanProgress(plan("b", "x", reverse=True), 10)
    region, request = backwards.request_for(regions)
    assert (region.region_id, requested_ranges(request), request.reverse) == (3, [(b"p", b"x")], True)
    backwards.region_is_done(region)
    assert backwards.bounds == (b"b", b"p")


def test_rows_that_no_region_has_at_this_moment_are_not_skipped() -> None:
    left, right = Region(1, "t", b"", b"g", "s"), Region(3, "t", b"p", b"", "s")
    forwards = ScanProgress(plan("b", "x"), 10)
    assert forwards.request_for((left, right))[0] is left
    forwards.region_is_done(left)
    backwards = ScanProgress(plan("b", "x", reverse=True), 10)
    assert backwards.request_for((left, right))[0] is right
    backwards.region_is_done(right)
    for progress, beyond in ((forwards, right), (backwards, left)):
        with pytest.raises(rowlock.NotServingRegionError) as refused:
            progress.request_for((beyond,))
        assert progress.failed(refused.value, 0.0) == 0
        assert progress.failed(refused.value, 0.0) > 0
        assert progress.request_for((Region(2, "t", b"g", b"p", "s"),))[0].region_id == 2


def test_a_region_that_fails_before_its_first_answer_is_no_resumption_after_another_region() -> None:
    progress = ScanProgress(plan(strict=True), 10)
    first = Region(1, "t", b"", b"g", "s")
    progress.request_for((first,))
    progress.received(came(b"a"))
    progress.region_is_done(first)
    progress.failed(rowlock.ServerUnavailableError("cut"), 0.0)
    assert not progress.has_resumed


def test_a_row_that_continues_is_held_back_until_it_is_complete() -> None:
    progress = ScanProgress(plan(), 10)
    progress.request_for((WHOLE,))
    assert rows_of(progress.received(came(b"a", b"b", row_continues=True))) == [b"a"]
    assert rows_of(progress.received(came(b"b", row_continues=True))) == []
    assert rows_of(progress.received(came(b"b", b"c"))) == [b"b", b"b", b"b", b"c"]
    assert progress.received(came(b"d", row_continues=True)) is None
    assert rows_of(progress.region_is_done(WHOLE)) == [b"d"]
    assert progress.is_done


def test_after_a_loss_a_scan_resumes_after_the_last_complete_row() -> None:
    progress = ScanProgress(plan("a", "z", limit=10), 10)
    progress.request_for((WHOLE,))
    progress.received(came(b"b", b"c", row_continues=True))
    assert progress.failed(rowlock.ServerUnavailableError("cut"), 0.0) > 0
    assert progress.has_resumed
    _, request = progress.request_for((WHOLE,))
    assert requested_ranges(request) == [(b"b\0", b"z")]
    assert request.row_limit == 9
    assert rows_of(progress.received(came(b"c"))) == [b"c"]


def test_newest_rows_count_towards_the_limit_and_a_scan_resumes_after_the_last_one() -> None:
    progress = ScanProgress(of_newest_rows(plan("a", "z", limit=4)), 10)
    _, request = progress.request_for((WHOLE,))
    assert request.newest_rows
    assert rows_of(progress.received(newest_rows(b"b", b"c"))) == [b"b", b"c"]
    # Cells may follow.
    assert rows_of(progress.received(came(b"d"))) == [b"d"]
    progress.failed(rowlock.ServerUnavailableError("cut"), 0.0)
    assert progress.has_resumed
    _, request = progress.request_for((WHOLE,))
    assert (requested_ranges(request), request.row_limit) == ([(b"d\0", b"z")], 1)
    assert rows_of(progress.received(newest_rows(b"e"))) == [b"e"]
    assert progress.is_done


def test_newest_rows_are_refused_where_cells_are_needed() -> None:
    progress = ScanProgress(plan(), 10)
    _, request = progress.request_for((WHOLE,))
    assert not request.newest_rows
    with pytest.raises(rowlock.ServerError, match="not requested"):
        progress.received(newest_rows(b"b"))
    progress = ScanProgress(of_newest_rows(plan()), 10)
    progress.request_for((WHOLE,))
    progress.received(came(b"a", row_continues=True))
    with pytest.raises(rowlock.ServerError, match="follow a part of a row"):
        progress.received(newest_rows(b"b"))


def test_a_reverse_scan_resumes_before_the_last_complete_row() -> None:
    progress = ScanProgress(plan("a", "z", reverse=True), 10)
    progress.request_for((WHOLE,))
    progress.received(came(b"y", b"x"))
    progress.failed(rowlock.LeaseExpiredError("idle"), 0.0)
    assert requested_ranges(progress.request_for((WHOLE,))[1]) == [(b"a", b"x")]


@pytest.mark.parametrize("in_form", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_after_a_loss_a_scan_resumes_at_the_resume_key(reverse: bool, in_form: bool) -> None:
    asked_for = plan(ranges=[("a", "g"), ("m", "z")], limit=10, reverse=reverse)
    progress = ScanProgress(in_row_form(asked_for, [FormColumn(b"f", b"q")]) if in_form else asked_for, 10)
    _, request = progress.request_for((WHOLE,))

    def sent(message: region_pb2.ScanBatch) -> ScanMessage:
        return parse_scan_message(as_requested(request, message).SerializeToString())

    assert progress.received(sent(batch(row_reached=b"p" if reverse else b"e"))) is None
    progress.failed(rowlock.ServerUnavailableError("cut"), 0.0)
    assert progress.has_resumed
    rest = [(b"a", b"g"), (b"m", b"p")] if reverse else [(b"e", b"g"), (b"m", b"z")]
    assert requested_ranges(progress.request_for((WHOLE,))[1]) == rest
    # Rows may come with it.
    rows = (b"o", b"n") if reverse else (b"f", b"n")
    assert rows_of(progress.received(sent(batch(*rows, row_reached=b"b" if reverse else b"y")))) == list(rows)
    _, request = progress.request_for((WHOLE,))
    assert (requested_ranges(request), request.row_limit) == ([(b"a", b"b")] if reverse else [(b"y", b"z")], 8)


def test_a_heartbeat_restarts_the_time_for_retries() -> None:
    progress = ScanProgress(plan(), 10)
    progress.request_for((WHOLE,))
    progress.failed(rowlock.ServerUnavailableError("cut"), 0.0)
    progress.received(came(row_reached=b"b"))
    assert progress.failed(rowlock.ServerUnavailableError("cut"), 10.0) > 0


def test_a_strict_scan_does_not_resume_at_a_resume_key_and_another_read_point() -> None:
    progress = ScanProgress(plan(strict=True), 10)
    progress.request_for((WHOLE,))
    progress.received(came(row_reached=b"b"))
    with pytest.raises(rowlock.LeaseExpiredError, match="strict=True"):
        progress.failed(rowlock.ServerUnavailableError("cut"), 0.0)


def test_a_scan_that_has_reached_the_end_of_its_ranges_is_done() -> None:
    progress = ScanProgress(plan("a", "c"), 10)
    progress.request_for((WHOLE,))
    progress.received(came(row_reached=b"c"))
    assert progress.is_done


def test_a_loss_before_the_first_answer_is_no_resumption() -> None:
    progress = ScanProgress(plan(strict=True), 10)
    progress.request_for((WHOLE,))
    progress.failed(rowlock.ServerUnavailableError("cut"), 0.0)
    assert not progress.has_resumed


def test_a_strict_scan_does_not_resume_at_another_read_point() -> None:
    progress = ScanProgress(plan(strict=True), 10)
    progress.request_for((WHOLE,))
    progress.received(came(b"a"))
    with pytest.raises(rowlock.LeaseExpiredError, match="strict=True"):
        progress.failed(rowlock.ServerUnavailableError("cut"), 0.0)


def test_a_scan_of_a_snapshot_resumes_at_the_same_read_point_and_ends_with_it() -> None:
    for strict in (False, True):
        progress = ScanProgress(plan(strict=strict, snapshot_id=b"i" * 16), 10)
        for error in (rowlock.ServerUnavailableError("cut"), rowlock.LeaseExpiredError("idle")):
            _, request = progress.request_for((WHOLE,))
            assert request.snapshot_id == b"i" * 16
            progress.received(came(b"b"))
            progress.failed(error, 0.0)
            assert not progress.has_resumed
        with pytest.raises(rowlock.SnapshotEndedError):
            progress.failed(rowlock.SnapshotEndedError("gone"), 0.0)


def test_a_scan_fails_when_it_receives_nothing_until_its_timeout() -> None:
    progress = ScanProgress(plan(), 10)
    progress.request_for((WHOLE,))
    progress.failed(rowlock.ServerUnavailableError("cut"), 0.0)
    with pytest.raises(rowlock.DeadlineError):
        progress.failed(rowlock.ServerUnavailableError("cut"), 10.0)
    fresh = ScanProgress(plan(), 10)
    fresh.request_for((WHOLE,))
    fresh.failed(rowlock.ServerUnavailableError("cut"), 0.0)
    fresh.received(came(b"a"))
    assert fresh.failed(rowlock.ServerUnavailableError("cut"), 10.0) > 0


def test_errors_that_no_repetition_helps_end_the_scan() -> None:
    progress = ScanProgress(plan(), 10)
    progress.request_for((WHOLE,))
    with pytest.raises(rowlock.FilterTypeError):
        progress.failed(rowlock.FilterTypeError("text"), 0.0)


@pytest.mark.parametrize(
    "arrow",
    [
        b"",
        b"no arrow at all",
        batch(b"a").arrow[:-20],
        batch(b"a").arrow.replace(b"value", b"other"),
    ],
)
def test_bytes_that_are_no_cells_are_not_believed(arrow: bytes) -> None:
    progress = ScanProgress(plan(), 10)
    progress.request_for((WHOLE,))
    with pytest.raises(rowlock.ServerError):
        progress.received(parse_scan_message(region_pb2.ScanBatch(arrow=arrow).SerializeToString()))


def requested_columns(request: region_pb2.ScanRequest) -> list[tuple[bytes, bytes]]:
    return [(item.family, item.qualifier) for item in request.columns]


def requested_form(request: region_pb2.ScanRequest) -> list[tuple[bytes, bytes, int]]:
    return [(item.family, item.qualifier, item.part) for item in request.row_form.columns]


def test_a_mapping_chooses_columns_and_no_rows() -> None:
    """Columns that a request names leave out the rows that have none of them."""
    mapping = rowlock.Mapping("k STRING :key, a INT f:a, b INT g:b")
    template = in_row_form(plan(), form_of(mapping)).template
    assert requested_columns(template) == []
    assert requested_form(template) == [(b"f", b"a", 0), (b"g", b"b", 0)]
    assert template.batch_bytes == 4 << 20
    chosen = plan()
    chosen.template.columns.add(family=b"f")
    chosen.template.batch_bytes = 5
    narrowed = in_row_form(chosen, form_of(mapping))
    assert requested_columns(narrowed.template) == [(b"f", b"")]
    # The server would refuse a column that the request does not read.
    assert requested_form(narrowed.template) == [(b"f", b"a", 0)]
    assert narrowed.row_form == (FormColumn(b"f", b"a"), FormColumn(b"g", b"b"))
    assert narrowed.template.batch_bytes == 5
    assert not plan().template.columns
    assert not plan().template.HasField("row_form")


def test_a_form_without_columns_asks_for_the_keys_of_all_rows() -> None:
    template = in_row_form(plan(), ()).template
    assert template.HasField("row_form")
    assert requested_columns(template) == []
    assert requested_form(template) == []


def test_value_and_timestamp_of_a_column_are_requested() -> None:
    columns = [FormColumn(b"f", b"a", is_timestamp=True), FormColumn(b"f", b"a")]
    template = in_row_form(plan(), columns).template
    assert requested_form(template) == [(b"f", b"a", 1), (b"f", b"a", 0)]


@pytest.mark.parametrize("reverse", [False, True])
def test_in_row_form_a_scan_resumes_after_the_last_row(reverse: bool) -> None:
    progress = ScanProgress(in_row_form(plan("a", "z", limit=10, reverse=reverse), [FormColumn(b"f", b"q")]), 10)
    _, request = progress.request_for((WHOLE,))
    two = parse_scan_message(
        as_requested(request, batch(*((b"c", b"b") if reverse else (b"b", b"c")))).SerializeToString()
    )
    assert rows_of(progress.received(two)) == ([b"c", b"b"] if reverse else [b"b", b"c"])
    assert progress.failed(rowlock.ServerUnavailableError("cut"), 0.0) > 0
    _, request = progress.request_for((WHOLE,))
    assert requested_ranges(request) == ([(b"a", b"b")] if reverse else [(b"c\0", b"z")])
    assert (request.row_limit, requested_form(request)) == (8, [(b"f", b"q", 0)])


def test_batches_without_rows_are_passed_over_in_row_form() -> None:
    progress = ScanProgress(in_row_form(plan(), [FormColumn(b"f", b"q")]), 10)
    _, request = progress.request_for((WHOLE,))
    assert progress.received(parse_scan_message(as_requested(request, batch()).SerializeToString())) is None


@pytest.mark.parametrize("column", [FormColumn(b"f", b"q"), FormColumn(b"f", b"q", is_timestamp=True)])
def test_bytes_that_are_no_rows_are_not_believed(column: FormColumn) -> None:
    progress = ScanProgress(in_row_form(plan(), [column]), 10)
    progress.request_for((WHOLE,))
    of_another_kind = FormColumn(b"f", b"q", is_timestamp=not column.is_timestamp)
    good = stream_of(laid_out(CELL_SCHEMA.empty_table(), [column]))
    for arrow in (
        b"",
        good[:20],
        batch(b"a").arrow,
        stream_of(laid_out(CELL_SCHEMA.empty_table(), [of_another_kind])),
        stream_of(laid_out(CELL_SCHEMA.empty_table(), [column, column])),
    ):
        with pytest.raises(rowlock.ServerError):
            progress.received(parse_scan_message(region_pb2.ScanBatch(arrow=arrow).SerializeToString()))


def test_batches_are_not_copied() -> None:
    progress = ScanProgress(in_row_form(plan(), [FormColumn(b"f", b"q")]), 10)
    _, request = progress.request_for((WHOLE,))
    data = as_requested(request, batch(b"a", b"b")).SerializeToString()
    whole = pa.py_buffer(data)
    table = progress.received(parse_scan_message(data))
    assert isinstance(table, pa.Table), table
    for column in table.columns:
        for buffer in column.chunks[0].buffers():
            assert buffer is None or whole.address <= buffer.address < whole.address + whole.size


def test_a_scan_is_an_iterator_that_continues_where_it_stopped(db: rowlock.Client, fake_server: FakeServer) -> None:
    fake_server.scan = lambda request: iter([batch(b"a", b"b"), batch(b"c")])
    scanning = db.table("t").scan()
    pieces = []
    while rows := [row for row, _ in islice(scanning, 2)]:
        pieces.append(rows)
    assert pieces == [[b"a", b"b"], [b"c"]]
    assert (iter(scanning), next(scanning, None)) == (scanning, None)


def test_a_scan_retries_a_busy_server_for_its_busy_timeout(caplog: pytest.LogCaptureFixture) -> None:
    for busy_timeout, waits in ((0.0, False), (100.0, True)):
        waiting_plan = dataclasses.replace(plan(), busy_timeout_s=busy_timeout)
        progress = ScanProgress(waiting_plan, 10.0)
        progress.request_for((WHOLE,))
        progress.failed(rowlock.RegionTooBusyError("too many scans"), 0.0)
        if waits:
            progress.failed(rowlock.RegionTooBusyError("too many scans"), 50.0)
            assert "a scan of 't' has waited 50 s for the server at" in caplog.text
        else:
            with pytest.raises(rowlock.RegionTooBusyError):
                progress.failed(rowlock.RegionTooBusyError("too many scans"), 10.0)


def test_a_scan_of_bytes_that_are_not_text_gives_str_in_a_table_with_an_encoding() -> None:
    data = [[b"a", b"\xfd"], [b"f", b"f"], [b"x", b"\xfe"]]
    columns: list[Array] = [pa.array(column, pa.binary()) for column in data]
    columns += [pa.array([1, 1], pa.int64()), pa.array([b"text", b"\xff"], pa.binary())]
    cells = pa.Table.from_arrays(columns, schema=CELL_SCHEMA)
    decode = decoder("utf-8")
    assert list(python_rows(cells, decode)) == [("a", {"f:x": "text"}), ("\udcfd", {"f:\udcfe": "\udcff"})]
    assert list(python_cells(cells, decode))[1] == rowlock.Cell("\udcfd", "f:\udcfe", 1, "\udcff")
