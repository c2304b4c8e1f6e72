"""Cells and whole servers come back with their timestamps, versions and settings, from tables in memory."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from rowlock import Family
from rowlock.cli.transfer.whole_store import file_name

from tests.unit.cli.recording import Console
from tests.unit.cli.transfer.store import CLOCK, Cell, StoreClient

EVERY_BYTE = bytes(range(256))
CELLS: list[Cell] = [
    (EVERY_BYTE, b"f", EVERY_BYTE, 0, EVERY_BYTE),
    (b"r", b"f", b"", 1, b"old"),
    (b"r", b"f", b"", 300, b"new"),
    (b"r", b"g", b"q", -5, b""),
]


@pytest.fixture
def client() -> StoreClient:
    """A table with cells, and one without."""
    client = StoreClient()
    for name in ("source", "copy"):
        client.create_table(name, {"f": Family(versions=3), "g": Family()}, durability="fsync")
    client.stored["source"].cells = sorted(CELLS)
    return client


@pytest.fixture
def console(client: StoreClient) -> Console:
    return Console(client)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "csv.gz", "jsonl.gz", "parquet"])
def test_cells_keep_their_timestamps_and_versions(
    console: Console, client: StoreClient, tmp_path: Path, kind: str
) -> None:
    file = str(tmp_path / f"cells.{kind}")
    assert console.run("export", "source", file, "--cells", "--versions", "2") == 0
    assert console.out == "4 cells\n"
    assert console.run("import", "copy", file, "--cells") == 0
    assert console.out == "4 cells\n"
    assert client.stored["copy"].cells == sorted(CELLS)
    assert console.run("export", "source", file, "--cells", "--overwrite", "--json") == 0
    assert console.records == [{"table": "source", "file": file, "cells": 3}]


def test_a_cell_without_a_timestamp_gets_the_servers_clock(
    console: Console, client: StoreClient, tmp_path: Path
) -> None:
    file = tmp_path / "cells.jsonl"
    file.write_text('{"row": "r", "family": "f", "qualifier": "", "value": ""}\n')
    assert console.run("import", "copy", str(file), "--cells") == 0
    assert client.stored["copy"].cells == [(b"r", b"f", b"", CLOCK, b"")]


def test_a_null_value_in_a_parquet_file_of_cells_is_refused(
    console: Console, client: StoreClient, tmp_path: Path
) -> None:
    file = tmp_path / "cells.parquet"
    cells = [{"row": b"a", "family": b"f", "qualifier": b"n", "timestamp": None, "value": None}]
    schema = pa.schema([(name, pa.int64() if name == "timestamp" else pa.binary()) for name in cells[0]])
    pa_parquet.write_table(pa.Table.from_pylist(cells, schema), file)
    assert console.run("import", "copy", str(file), "--cells") == 2
    assert console.err == f"rowlock: {file}: row 0, column 'value': the value is null; every cell needs one\n"
    assert client.stored["copy"].cells == []


@pytest.fixture
def whole(client: StoreClient) -> StoreClient:
    """More tables: their names differ in case, begin with a dot's escape or are long; one keeps a mapping."""
    client.create_table("Copy", {"f": Family(time_to_live_ms=9)}, durability="os", properties={"a.b": "1"})
    client.create_table("x" * 255, {"f": Family()}, durability="skip")
    client.create_table("y" * 255, {"f": Family()}, durability="async", mapping="id STRING :key, n INT f:n")
    client.stored["y" * 255].cells = [(b"y", b"f", b"n", 7, b"\0\0\0\1")]
    return client


def test_all_tables_come_back_with_their_settings(console: Console, whole: StoreClient, tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    assert console.run("export", "--all", str(folder)) == 0
    shown = dict(line.split("\t") for line in console.out.splitlines())
    assert shown == {name: str(len(stored.cells)) for name, stored in whole.stored.items()}
    files = [record["file"] for record in json.loads((folder / "tables.json").read_text())["tables"]]
    assert len({file.lower() for file in files}) == 5
    restored = StoreClient()
    assert Console(restored).run("import", "--all", str(folder)) == 0
    assert restored.tables() == whole.tables()
    for name, stored in whole.stored.items():
        after, before = restored.stored[name], stored
        assert after.cells == before.cells
        assert after.description.families == before.description.families
        assert after.description.durability == before.description.durability
        assert after.description.properties == before.description.properties
        assert after.description.mapping_text == before.description.mapping_text


def test_a_table_that_exists_is_refused_before_anything_is_made(
    console: Console, whole: StoreClient, tmp_path: Path
) -> None:
    folder = str(tmp_path / "backup")
    assert console.run("export", "--all", folder) == 0
    other = StoreClient()
    other.create_table("source", {"f": Family(), "g": Family()}, durability="os")
    assert Console(other).run("import", "--all", folder) == 2
    assert other.tables() == ["source"]
    assert Console(other).run("import", "--all", folder, "--existing") == 0
    assert other.stored["source"].cells == sorted(CELLS)
    assert other.stored["source"].description.durability == "os"
    assert other.tables() == whole.tables()


def test_an_interrupt_says_which_tables_were_imported(
    console: Console, client: StoreClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(tmp_path / "backup")
    assert console.run("export", "--all", folder) == 0
    other = StoreClient()
    monkeypatch.setattr(other, "create_table", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    failing = Console(other)
    assert failing.run("import", "--all", folder) == 130
    assert failing.err == (
        "interrupted; no table of 2 tables was imported whole. To go on, repeat the import with --existing; it writes "
        "the same cells again\n"
    )


def test_names_of_files_are_those_of_tables_where_they_can_be() -> None:
    assert file_name("a.b-c_1", ()) == "a.b-c_1.parquet"
    assert file_name(".ü/x", ()) == "%2e%c3%bc%2fx.parquet"
    assert file_name("A", {"a.parquet"}) == "A~2.parquet"
    assert file_name("A", {"a.parquet", "a~2.parquet"}) == "A~3.parquet"
    assert len(file_name("x" * 255, ())) < 255
