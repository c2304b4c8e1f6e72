# Made from tests/unit/client/awaited/test_bulk.py by tools/async_to_sync.py: change that, then `make faces`.
"""put_arrow to a server that drops connections and refuses, and with data that does not fit (threads)."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pyarrow as pa
import pytest
import rowlock
from rowlock._core.bulk_send import WINDOW
from rowlock.errors import ServerUnavailableError
from rowlock_proto.v1 import types_pb2

from tests.unit.client.fake_errors import Mishap, error
from tests.unit.client.fake_server import FakeServer
from tests.unit.client.test_bulk import MAPPING, keys_of, read, rows

BOTH_WAYS = True
Error = types_pb2.Error


def test_put_arrow_writes_all_and_reports_progress(db: rowlock.Client, fake_server: FakeServer) -> None:
    progress: list[int] = []
    data = [rows("a", "b"), rows("c"), rows("d")]
    result = db.table("t").put_arrow(data, MAPPING, timestamp=5, on_progress=progress.append)
    assert result.row_count == 4
    assert progress == [2, 3, 4]
    assert [keys_of(message) for message in fake_server.bulks] == [[b"a", b"b"], [b"c"], [b"d"]]
    assert read(fake_server.bulks[0]).column("timestamp").to_pylist() == [5, 5]


def test_put_arrow_of_nothing_sends_nothing(db: rowlock.Client, fake_server: FakeServer) -> None:
    assert db.table("t").put_arrow([], MAPPING).row_count == 0
    assert db.table("t").put_arrow(rows(), MAPPING).row_count == 0
    assert fake_server.bulks == []


def row_of(key: str, value: str | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([key]), pa.array([value], pa.string())], ["k", "v"])


@pytest.mark.parametrize("values", [[None], ["1", None, None], [None, "1", None], [*"123456", None]])
def test_rows_without_values_are_counted_however_the_data_is_cut(
    db: rowlock.Client, fake_server: FakeServer, values: list[str | None]
) -> None:
    progress: list[int] = []
    data = [row_of(str(place), value) for place, value in enumerate(values)]
    result = db.table("t").put_arrow(data, MAPPING, on_progress=progress.append)
    assert result.row_count == progress[-1] == len(values)
    assert result.cell_count == len(fake_server.bulks) == sum(value is not None for value in values)


def test_rows_without_values_are_among_those_written_before_a_failure(
    db: rowlock.Client, fake_server: FakeServer
) -> None:
    bad = pa.RecordBatch.from_pydict({"k": [None], "v": ["1"]})
    progress: list[int] = []
    with pytest.raises(rowlock.BulkError, match=r"2 rows were written; rows 2 to 2 were not") as caught:
        db.table("t").put_arrow([rows("a"), row_of("b", None), bad], MAPPING, on_progress=progress.append)
    assert caught.value.applied == [range(1), range(1, 2)]
    assert progress[-1] == 2
    with pytest.raises(rowlock.MappingError):  # No row was sent.
        db.table("t").put_arrow([row_of("b", None), bad], MAPPING)


def test_put_arrow_continues_after_a_loss_with_the_same_numbers(db: rowlock.Client, fake_server: FakeServer) -> None:
    fake_server.bulk_script.extend([Mishap.NONE, Mishap.ANSWER_IS_LOST])
    result = db.table("t").put_arrow([rows("a"), rows("b"), rows("c")], MAPPING)
    assert result.row_count == 3
    numbers = [message.sequence for message in fake_server.bulks]
    assert numbers[0] == 1
    assert numbers[-2:] == [2, 3]


def test_put_arrow_without_an_answer_has_an_unknown_outcome(db: rowlock.Client, fake_server: FakeServer) -> None:
    fake_server.bulk_script.append(Mishap.NO_ANSWER)
    with pytest.raises(rowlock.BulkError) as caught:
        db.table("t", timeout=0.3).put_arrow(rows("a"), MAPPING)
    assert [span for span, _ in caught.value.unknown] == [range(1)]
    message = str(caught.value)
    assert message.startswith("0 rows were written; rows 0 to 0 may or may not have been written: no answer came")
    assert message.count("may or may not") == 1
    assert message.endswith(". Read them to find out.")


def test_put_arrow_to_an_unknown_family_fails_whole(db: rowlock.Client, fake_server: FakeServer) -> None:
    fake_server.bulk_script.append(error(Error.FAMILY_NOT_FOUND, "no such family"))
    with pytest.raises(rowlock.BulkError, match="no such family") as caught:
        db.table("t").put_arrow(rows("a"), MAPPING)
    assert isinstance(caught.value.__cause__, rowlock.FamilyNotFoundError)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([1, "x"], "column v with type object: Could not convert 'x' with type str"),
        ([b"x", 1], "column v with type object: Expected bytes, got a 'int' object"),
        ([1 + 2j, None], "column v with type complex128: Unsupported numpy type"),
        ([1, 1 << 70], "Python int too large"),
    ],
)
def test_a_pandas_column_without_an_arrow_type_is_named(
    db: rowlock.Client, fake_server: FakeServer, values: list[object], words: str
) -> None:
    frame = pd.DataFrame({"k": ["a", "b"], "v": values})
    with pytest.raises(rowlock.MappingError, match="; give all values of a column one type") as caught:
        db.table("t").put_arrow(frame, "k STRING :key, v INT f:v")
    assert words in str(caught.value)
    assert not fake_server.bulks


TWICE = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"]), pa.array(["1"])], ["k", "k", "v"])


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        (pa.table({"v": ["1"]}), "STRING", "the column 'k' is not in the data; it has v"),
        (TWICE, "STRING", "the column 'k' is in the data more than once; it has k, k, v"),
        (pa.table({"k": ["a"], "v": [[1]]}), "INT", "does not fit INT: "),
        (pa.table({"k": ["a"], "v": pa.array([True])}), "DECIMAL(10,2)", "does not fit DECIMAL(10,2): "),
    ],
)
def test_the_error_for_columns_that_can_not_be_written_names_no_row(
    db: rowlock.Client, data: pa.Table, kind: str, words: str
) -> None:
    with pytest.raises(rowlock.MappingError) as caught:
        db.table("t").put_arrow(data, f"k STRING :key, v {kind} f:v")
    assert words in str(caught.value)
    assert type(caught.value) is rowlock.MappingError
    assert "row" not in str(caught.value)


def test_data_that_is_no_arrow_data_raises_an_error_that_names_the_conversion(db: rowlock.Client) -> None:
    with pytest.raises(TypeError, match=r"not dict; to write a list of dicts, convert it with pyarrow\.Table"):
        db.table("t").put_arrow([{"k": "a"}], MAPPING)  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"not dict; to write a dict of columns, convert it with pyarrow\.table\(\)"):
        db.table("t").put_arrow({"k": ["a"]}, MAPPING)  # type: ignore[dict-item]


def test_a_bad_first_batch_raises_its_own_error_and_a_later_one_reports_what_was_written(
    db: rowlock.Client, fake_server: FakeServer
) -> None:
    bad = pa.RecordBatch.from_pydict({"k": ["x", None], "v": ["1", "2"]})
    with pytest.raises(rowlock.MappingError, match="null in row 1"):
        db.table("t").put_arrow([bad], MAPPING)
    assert fake_server.bulks == []
    with pytest.raises(rowlock.BulkError, match=r"null in row 1;.*from row 1 of the data") as caught:
        db.table("t").put_arrow([rows("a"), bad, rows("b")], MAPPING)
    assert caught.value.applied == [range(1)]
    assert [span.start for span, _ in caught.value.failed] == [1]


def test_put_arrow_of_a_closed_client_says_so(db: rowlock.Client) -> None:
    db.close()
    with pytest.raises(rowlock.ClosedError):
        db.table("t").put_arrow([rows("a"), rows("b")], MAPPING)


@pytest.mark.parametrize(
    "failure",
    [
        ServerUnavailableError("cut"),
        rowlock.ClosedError("closed"),
        TypeError("odd"),
        OSError("no such disk"),
        pa.ArrowInvalid("no such column"),
        OverflowError("too much"),
    ],
    ids=lambda failure: type(failure).__name__,
)
@pytest.mark.parametrize("count", [0, 1, WINDOW + 1])
def test_put_arrow_of_a_failing_input_never_reports_success(
    db: rowlock.Client, fake_server: FakeServer, failure: Exception, count: int
) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        for number in range(count):
            yield rows(str(number))
        raise failure

    with pytest.raises(rowlock.BulkError if count else (rowlock.BulkError, type(failure))) as caught:
        db.table("t").put_arrow(failing(), MAPPING)
    if isinstance(caught.value, rowlock.BulkError):
        assert caught.value.__cause__ is failure
        assert sorted(caught.value.applied, key=lambda span: span.start) == [range(n, n + 1) for n in range(count)]
        assert [span.start for span, _ in caught.value.failed] == [count]
        assert str(failure) in str(caught.value)
    else:
        assert caught.value is failure


def test_an_exception_of_on_progress_is_no_failure_of_the_stream(db: rowlock.Client, fake_server: FakeServer) -> None:
    def progress(row_count: int) -> None:
        raise failure

    failure = ServerUnavailableError("another server")
    with pytest.raises(ServerUnavailableError) as caught:
        db.table("t").put_arrow([rows("a"), rows("b")], MAPPING, on_progress=progress)
    assert caught.value is failure
