"""The raw baselines do what they are said to do, and carry rowlock's own messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rowlock_proto.v1 import region_pb2

from bench.targets import cell_tables
from bench.targets.echo import Echo, running_echo
from bench.targets.echo_server import SyncedFile, sorted_cells
from bench.targets.messages import FAMILY, QUALIFIER, VALUE_BYTES, get_exchange, put_exchange, row_key
from bench.targets.typed_rows import typed_rows

_ROWS = 50


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Echo]:
    with running_echo(tmp_path_factory.mktemp("echo"), _ROWS, typed_row_count=_ROWS) as echo:
        yield echo


def test_the_messages_are_those_of_the_protocol() -> None:
    value = bytes(range(256)) * 4
    get, put = get_exchange(value), put_exchange(value)
    requested = region_pb2.PointRequests.FromString(get.request).requests[0]
    answered = region_pb2.PointAnswers.FromString(get.answer).answers[0]
    assert list(requested.get.rows) == [row_key(1)]
    assert answered.get.rows[0].cells[0].value == value
    assert answered.id == requested.id
    change = region_pb2.PointRequests.FromString(put.request).requests[0].mutate.mutations[0].changes[0]
    assert (change.put.family, change.put.qualifier, change.put.value) == (FAMILY, QUALIFIER, value)
    assert region_pb2.PointAnswers.FromString(put.answer).answers[0].mutate.results[0].condition_met


def test_the_unary_echo_and_the_streams_answer_as_rowlock_would(echo: Echo) -> None:
    value = bytes(VALUE_BYTES)
    get, put = get_exchange(value), put_exchange(value)
    assert echo.unary(get.request) == get.answer
    for method, exchange in (("Get", get), ("Put", put)):
        stream = echo.stream(method)
        assert [stream.exchange(exchange.request) for _ in range(3)] == [exchange.answer] * 3
        stream.close()


def test_a_bulk_stream_answers_each_message(echo: Echo) -> None:
    cells = cell_tables.cells_of(cell_tables.wide_rows(100))
    messages = [cell_tables.to_stream(batch) for batch in cell_tables.slices(cells, cells.nbytes // 4)]
    stream = echo.stream("Bulk")
    assert stream.exchange_all(messages) == len(messages) > 1
    stream.close()


def test_a_plain_socket_answers_each_batch(echo: Echo) -> None:
    cells = cell_tables.cells_of(cell_tables.wide_rows(100))
    messages = [cell_tables.to_stream(batch) for batch in cell_tables.slices(cells, cells.nbytes // 4)]
    for _ in range(2):
        connected = echo.bulk_socket()
        assert connected.exchange_all(messages) == len(messages) > 1
        connected.close()


def test_a_raw_scan_gives_every_cell(echo: Echo) -> None:
    assert echo.scan().equals(cell_tables.cells_of(cell_tables.wide_rows(_ROWS)))


def test_a_raw_scan_over_a_socket_gives_every_cell(echo: Echo) -> None:
    for _ in range(2):
        assert echo.scan_frames().equals(echo.scan())


def test_a_raw_typed_scan_gives_every_row(echo: Echo) -> None:
    assert echo.scan_typed().equals(typed_rows(_ROWS))


def test_wide_rows_are_the_same_cells(tmp_path: Path) -> None:
    rows = cell_tables.wide_rows(7)
    cells = cell_tables.cells_of(rows)
    assert cells.schema == cell_tables.PUT_SCHEMA
    found = {(cell["row"], cell["qualifier"]): cell["value"] for cell in cells.to_pylist()}
    expected = {
        (row["key"].encode(), name.encode()): row[name]
        for row in rows.to_pylist()
        for name in cell_tables.column_names()
    }
    assert found == expected
    assert len(cells) == len(found) == 7 * cell_tables.COLUMN_COUNT
    assert sorted(row["key"] for row in rows.to_pylist()) == [row_key(number).decode() for number in range(7)]


def test_no_rows_are_no_cells() -> None:
    assert len(cell_tables.cells_of(cell_tables.wide_rows(0))) == 0


def test_slices_are_the_whole_table_in_order() -> None:
    cells = cell_tables.cells_of(cell_tables.wide_rows(100))
    slices = list(cell_tables.slices(cells, 10_000))
    assert len(slices) > 5
    assert [row for piece in slices for row in piece["value"].to_pylist()] == cells["value"].to_pylist()


def test_the_baseline_sorts_by_row_then_qualifier() -> None:
    cells = cell_tables.cells_of(cell_tables.wide_rows(20))
    [batch] = cell_tables.slices(cells, 1 << 30)
    found = sorted_cells(cell_tables.to_stream(batch))
    keys = list(zip(found["row"].to_pylist(), found["qualifier"].to_pylist(), strict=True))
    assert keys == sorted(keys)
    assert keys != list(zip(cells["row"].to_pylist(), cells["qualifier"].to_pylist(), strict=True))


def test_the_baseline_writes_what_it_is_given_round_and_round(tmp_path: Path) -> None:
    path = tmp_path / "synced"
    file = SyncedFile(path, size=20)
    assert path.read_bytes() == b"\1" * 20
    file.write(b"first")
    file.write(b"second")
    assert path.read_bytes() == b"firstsecond" + b"\1" * 9
    file.write(b"x" * 10)
    assert path.read_bytes() == b"x" * 10 + b"d" + b"\1" * 9
