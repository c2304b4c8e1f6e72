from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from rowlock import ChangesExpiredError, InvalidArgumentError, Mapping, TypedTable
from rowlock.cli.layouts import TypedLayout
from rowlock.cli.shown_changes import Shown, shown_changes

from tests.unit.cli.recording import Console


def batch(*rows: bytes) -> pa.RecordBatch:
    """Returns puts of these rows, as a feed has them."""
    fields: dict[str, pa.Array[Any]] = {
        **{name: pa.array([name.encode()] * len(rows), pa.binary()) for name in ("family", "qualifier", "value")},
        **{name: pa.array(range(len(rows)), pa.int64()) for name in ("timestamp", "write_number")},
        "row": pa.array(rows, pa.binary()),
        "kind": pa.array(["put"] * len(rows)),
    }
    return pa.RecordBatch.from_pydict(fields)


class Feed:
    """A change feed of these batches, which then ends, or is interrupted. An empty one is a part of the next."""

    def __init__(self, *batches: pa.RecordBatch, is_interrupted: bool = False) -> None:
        self.batches = list(batches)
        self.is_interrupted = is_interrupted
        self.offset = {1: 5}
        self.is_partial = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for each in self.batches:
            self.is_partial = not len(each)
            self.offset = {1: self.offset[1] + (not self.is_partial)}
            yield each
        if self.is_interrupted:
            raise KeyboardInterrupt


def test_the_offset_is_read_from_the_file_and_stored_there(console: Console, tmp_path: Path) -> None:
    file = tmp_path / "offset"
    console.client.answers["changes"] = Feed()
    assert console.run("changes", "t", "--since", str(file)) == 0
    assert console.run("changes", "t", "--since", str(file)) == 0
    assert [named["since"] for name, _, named in console.client.calls if name == "changes"] == [{"1": 5}]
    assert file.read_text() == '{"1": 5}\n'
    assert [each.name for each in tmp_path.iterdir()] == ["offset"]


def test_now_stores_the_offset_of_now(console: Console, tmp_path: Path) -> None:
    console.client.answers["changes_offset"] = {7: 8}
    assert console.run("changes", "t", "--now", "--since", str(tmp_path / "offset")) == 0
    assert json.loads((tmp_path / "offset").read_text()) == {"7": 8}
    assert console.run("changes", "t", "--now") == 2
    assert "--since FILE" in console.err


@pytest.mark.parametrize("text", ["", "[1]", '{"1": "5"}', '{"1": true}'])
def test_a_file_without_an_offset_is_refused(console: Console, tmp_path: Path, text: str) -> None:
    file = tmp_path / "offset"
    file.write_text(text)
    assert console.run("changes", "t", "--since", str(file)) == 2
    assert "offset" in console.err
    assert file.read_text() == text


def test_a_file_that_could_not_be_stored_is_refused_first(console: Console, tmp_path: Path) -> None:
    assert console.run("changes", "t", "--since", str(tmp_path / "absent" / "offset")) == 2
    assert f"there is no folder {tmp_path / 'absent'}" in console.err
    assert console.client.calls == []


def test_after_an_error_the_file_is_as_it_was(console: Console, tmp_path: Path) -> None:
    file = tmp_path / "offset"
    file.write_text('{"1": 2}')
    console.client.answers["changes"] = ChangesExpiredError("they are gone")
    assert console.run("changes", "t", "--since", str(file)) == 2
    assert "they are gone" in console.err
    assert file.read_text() == '{"1": 2}'


def test_a_feed_that_is_followed_stores_its_offset_after_each_batch(console: Console, tmp_path: Path) -> None:
    file = tmp_path / "offset"
    stored: list[int] = []

    class Watched(Feed):
        def __iter__(self) -> Iterator[pa.RecordBatch]:
            for each in super().__iter__():
                yield each
                stored.append(json.loads(file.read_text())["1"] if file.exists() else 0)

    console.client.answers["changes"] = Watched(batch(b"a"), batch(), batch(b"b"), is_interrupted=True)
    assert console.run("changes", "t", "--follow", "--since", str(file)) == 130
    assert [line.split("\t")[2] for line in console.out.splitlines()] == ["a", "b"]
    assert stored == [6, 6, 7], "the part of a write number must not be stored"
    ((_, _, named),) = [call for call in console.client.calls if call[0] == "changes"]
    assert named == {"since": None, "follow_s": math.inf}


def test_an_interrupt_says_how_to_go_on(console: Console, tmp_path: Path) -> None:
    file = tmp_path / "offset"
    console.client.answers["changes"] = Feed(is_interrupted=True)
    assert console.run("changes", "t", "--follow", "--since", str(file)) == 130
    assert console.err == f"interrupted; 'rowlock changes t --follow --since {file}' continues after the last batch\n"
    assert console.run("changes", "t", "--follow") == 130
    assert console.err == (
        "interrupted; store {\"1\": 5} in FILE, and 'rowlock changes t --follow --since FILE' continues after the last "
        "batch\n"
    )


def test_an_interrupt_before_the_first_answer_has_nothing_to_go_on_from(console: Console) -> None:
    class Unread(Feed):
        @property
        def offset(self) -> dict[int, int]:
            raise InvalidArgumentError("not known yet")

        @offset.setter
        def offset(self, offset: dict[int, int]) -> None:
            pass

    console.client.answers["changes"] = Unread(is_interrupted=True)
    assert console.run("changes", "t", "--follow") == 130
    assert console.err == "interrupted\n"


def test_a_feed_may_be_followed_from_now_on(console: Console, tmp_path: Path) -> None:
    console.client.answers["changes_offset"] = {7: 8}
    console.client.answers["changes"] = Feed(is_interrupted=True)
    assert console.run("changes", "t", "--follow", "--now", "--since", str(tmp_path / "offset")) == 130
    assert [named["since"] for name, _, named in console.client.calls if name == "changes"] == [{7: 8}]
    assert json.loads((tmp_path / "offset").read_text()) == {"7": 8}


def test_the_heading_of_a_feed_that_is_followed_is_shown_once(console: Console) -> None:
    console.attach_terminal()
    console.client.answers["changes"] = Feed(batch(b"a"), batch(b"b"), is_interrupted=True)
    assert console.run("changes", "t", "--follow") == 130
    assert console.out.count("timestamp") == 1


MAPPING = "day DATE :key, number INT :key ordered, delay INT f:delay was SMALLINT, note STRING f:note"
KEY = b"2013-01-31|\x80\0\0\7"


def typed(row: bytes, qualifier: bytes, value: bytes, kind: str = "put") -> Shown:
    """Returns a change of the family f as it is shown by MAPPING."""
    table = cast("TypedTable[dict[str, Any]]", SimpleNamespace(mapping=Mapping(MAPPING)))
    how = shown_changes(TypedLayout(table))
    assert how.heading == ("number", "kind", "day|number", "column", "timestamp", "value")
    change = {"row": row, "family": b"f", "qualifier": qualifier, "value": value}
    return how.of({**change, "kind": kind, "write_number": 4, "timestamp": 5})


@pytest.mark.parametrize(
    ("qualifier", "value", "kind", "column", "as_json", "text"),
    [
        (b"delay", b"\xff\xff\xff\xff", "put", "delay", -1, "-1"),
        (b"delay", b"\xff\xfe", "put", "delay", -2, "-2"),  # as it was before it was widened
        (b"note", b"a\tb", "put", "note", "a\tb", "a\\x09b"),
        (b"note", b"", "put", "note", "", ""),
        (b"note", b"", "delete_column", "note", None, ""),
        (b"", b"", "delete_family", "f:", None, ""),
        # Not of the mapping, and not of its type.
        (b"other", b"\0", "put", "f:other", "\\x00", "\\x00"),
        (b"delay", b"soon", "put", "delay", 0x736F6F6E, str(0x736F6F6E)),
        (b"delay", b"later", "put", "f:delay", "later", "later"),
    ],
)
def test_changes_of_a_typed_table_have_its_names_and_types(
    qualifier: bytes, value: bytes, kind: str, column: str, as_json: object, text: str
) -> None:
    record, fields = typed(KEY, qualifier, value, kind)
    key = {"day": "2013-01-31", "number": 7}
    assert record == {
        "write_number": 4,
        "kind": kind,
        "timestamp": 5,
        "key": key,
        "column": column,
        "value": as_json,
    }
    assert list(fields) == ["4", kind, "2013-01-31|7", column, "5", text]


def test_a_key_that_the_mapping_cannot_read_is_shown_as_bytes() -> None:
    record, fields = typed(b"no key\0", b"note", b"x")
    assert (record["row"], fields[2]) == ("no key\\x00", "no key\\x00")
    assert "key" not in record
    assert record["value"] == "x"
