"""import and export against a real server, in this process: streams, formats, cells and whole servers."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pyarrow.parquet as pa_parquet
import pytest
import rowlock
from rowlock.cli.main import main
from rowlock.cli.quantities import count_text
from rowlock.pytest_plugin import RowlockServer

Run = Callable[..., tuple[int, str, str]]

MAPPING = "id STRING :key, n INT f:n, raw BINARY f:raw"
FORMATS = ["csv", "jsonl", "csv.gz", "jsonl.gz", "parquet"]
EVERY_BYTE = bytes(range(256))


@pytest.fixture
def run(
    rowlock_server: RowlockServer, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Runs a command line with bytes as its input. Returns (exit code, standard output in latin-1, standard error)."""
    monkeypatch.setenv("ROWLOCK_SERVER", rowlock_server.address)

    def command(*words: str | Path, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        exit_code = main([str(word) for word in words])
        sys.stdout.flush()
        captured = capfdbinary.readouterr()
        return exit_code, captured.out.decode("latin-1"), captured.err.decode()

    return command


@pytest.fixture
def t(rowlock_client: rowlock.Client) -> rowlock.Table[bytes]:
    """A table that keeps the mapping and has two rows, and a copy of it without rows."""
    for name in ("copy", "t"):
        rowlock_client.create_table(name, mapping=MAPPING)
    table = rowlock_client.typed_table("t")
    table.put("a", {"n": 7, "raw": EVERY_BYTE})
    table.put("b", {"n": None, "raw": b""})
    return rowlock_client.table("t")


@pytest.mark.parametrize("kind", FORMATS)
def test_rows_go_through_a_pipe_and_a_file_in_every_format(
    run: Run, t: rowlock.Table[bytes], rowlock_client: rowlock.Client, tmp_path: Path, kind: str
) -> None:
    exit_code, out, err = run("export", "t", "-", "--format", kind)
    assert (exit_code, err) == (0, "2 rows\n")
    assert run("import", "copy", "-", "--format", kind, stdin=out.encode("latin-1"))[:2] == (0, "2 rows, 3 cells\n")
    copy = rowlock_client.table("copy")
    assert list(copy.scan()) == list(t.scan())
    file = tmp_path / f"rows.{kind}"
    assert run("export", "t", file) == (0, "2 rows\n", "")
    assert file.read_bytes() == out.encode("latin-1") or kind == "parquet"
    rowlock_client.truncate_table("copy")
    assert run("import", "copy", file)[:2] == (0, "2 rows, 3 cells\n")
    assert list(copy.scan()) == list(t.scan())


def test_the_lines_of_json_are_those_of_scan(run: Run, t: rowlock.Table[bytes]) -> None:
    assert run("export", "t", "-", "--format", "jsonl")[1] == run("scan", "t", "--json")[1]
    assert run("export", "t", "-", "--format", "csv", "--json")[2] == '{"table": "t", "file": "-", "rows": 2}\n'


@pytest.mark.parametrize("kind", FORMATS)
def test_cells_keep_their_timestamps_and_versions(
    run: Run, rowlock_client: rowlock.Client, tmp_path: Path, kind: str
) -> None:
    for name in ("source", "copy"):
        rowlock_client.create_table(name, {"f": rowlock.Family(versions=5), "g": rowlock.Family(versions=2)})
    source, copy = rowlock_client.table("source"), rowlock_client.table("copy")
    for timestamp in (1, 20, 300):
        source.put(b"r", {b"f:": b"v%d" % timestamp, b"g:" + EVERY_BYTE: b""}, timestamp=timestamp)
    source.put(EVERY_BYTE, {b"f:x": EVERY_BYTE}, timestamp=0)
    file = tmp_path / f"cells.{kind}"
    assert run("export", "source", file, "--cells", "--versions", "9") == (0, "6 cells\n", "")
    assert run("import", "copy", file, "--cells", "--json")[1] == (
        '{"table": "copy", "rows": 6, "cells": 6, "rows_without_cells": 0}\n'
    )
    cells = list(source.scan(versions=9).cells())
    assert list(copy.scan(versions=9).cells()) == cells
    assert [cell.timestamp for cell in cells if cell.column == b"f:"] == [300, 20, 1]
    rowlock_client.truncate_table("copy")
    assert run("export", "source", file, "--cells", "--overwrite") == (0, "3 cells\n", "")
    run("import", "copy", file, "--cells")
    assert list(copy.scan(versions=9).cells()) == list(source.scan().cells())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "c.csv",
            "row,family,qualifier,timestamp,value\nr,f,q,1,\n",
            "line 2, column 'value': the value is null; every",
        ),
        ("c.csv", "row,family,qualifier,value\nr,f,q,v\n", "no column 'timestamp', which every file of cells has"),
        (
            "c.jsonl",
            '{"row": "r", "family": "f", "qualifier": "q"}\n',
            "line 1, column 'value': the value is null; every",
        ),
    ],
)
def test_a_cell_without_a_value_deletes_nothing(
    run: Run, t: rowlock.Table[bytes], tmp_path: Path, name: str, content: str, message: str
) -> None:
    before = list(t.scan().cells())
    (tmp_path / name).write_text(content)
    exit_code, _, err = run("import", "t", tmp_path / name, "--cells")
    assert exit_code == 2
    assert message in err
    assert list(t.scan().cells()) == before


def test_a_snapshot_is_exported(run: Run, t: rowlock.Table[bytes], tmp_path: Path) -> None:
    taken = run("snapshot", "t")[1].strip()
    t.put(b"later", {"f:n": b"\0\0\0\1"})
    assert run("export", "t", tmp_path / "old.csv", "--snapshot", taken) == (0, "2 rows\n", "")
    assert run("export", "t", tmp_path / "new.csv") == (0, "3 rows\n", "")


COMPOSITE = "customer STRING :key, num BIGINT :key ordered, amount INT f:amount"
CHOICES = [
    (["--start", "c1|1", "--stop", "c1|300"], 2),
    (["--start", "c1|5", "--stop", "c1|1001"], 2),
    (["--prefix", "c1"], 3),
    (["--where", "amount > 1"], 2),
    (["--where", "amount is absent"], 0),
    (["--start", "c1|257", "--where", "amount = 1"], 1),
]


@pytest.mark.parametrize(("words", "rows"), CHOICES)
def test_an_export_has_the_rows_that_scan_shows_and_count_counts(
    run: Run, rowlock_client: rowlock.Client, words: list[str], rows: int
) -> None:
    table = rowlock_client.create_table("orders", mapping=COMPOSITE)
    for amount, key in enumerate([("c1", 2), ("c1", 257), ("c1", 1000), ("c2", 3)]):
        table.put(key, {"amount": amount})
    assert run("count", "orders", *words)[:2] == (0, f"{rows}\n")
    exported = run("export", "orders", "-", "--format", "jsonl", *words)
    assert (exported[0], exported[2]) == (0, f"{count_text(rows, 'row')}\n")
    assert exported[1] == run("scan", "orders", "--json", *words)[1]
    # The same with a mapping that is given, and the same rows as cells.
    assert run("export", "orders", "-", "--format", "jsonl", "-m", COMPOSITE, *words) == exported
    cells = run("export", "orders", "-", "--format", "jsonl", "--cells", *words)
    assert (cells[0], cells[2]) == (0, f"{count_text(rows, 'cell')}\n")


def test_bounds_that_are_not_of_the_mappings_types_export_nothing(
    run: Run, rowlock_client: rowlock.Client, tmp_path: Path
) -> None:
    rowlock_client.create_table("orders", mapping=COMPOSITE).put(("c1", 1), {"amount": 1})
    file = tmp_path / "orders.csv"
    for words, message in [
        (["--start", "c1|x"], "'x' is not a valid BIGINT for num: write a whole number"),
        (["--prefix", "c1", "--stop", "c2"], "--prefix excludes --start and --stop"),
        (["--where", "paid = 1"], "the mapping has no column 'paid'"),
        (["--cells", "--start", "c1|x"], "'x' is not a valid BIGINT for num: write a whole number"),
    ]:
        exit_code, out, err = run("export", "orders", file, *words)
        assert (exit_code, out) == (2, "")
        assert message in err
    assert not file.exists()
    # As bytes, on demand.
    assert (
        run(
            "export", "orders", file, "--cells", "-m", "none", "--prefix", r"c1|\x80", "--where", "f:amount is present"
        )[1]
        == "1 cell\n"
    )


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_rows_that_are_written_are_left_out(
    run: Run, rowlock_client: rowlock.Client, tmp_path: Path, kind: str
) -> None:
    rowlock_client.create_table("t", mapping="id STRING :key, n INT f:n")
    rows = [{"id": f"r{number}", "n": number} for number in range(10)]
    csv = "id,n\n" + "\n".join(f"{row['id']},{row['n']}\n" for row in rows)
    content = csv if kind == "csv" else "\n".join(map(json.dumps, rows))
    words = ["import", "t", "-", "--format", kind, "--skip-rows"]
    assert run(*words, "7", stdin=content.encode())[:2] == (0, "3 rows, 3 cells\n")
    assert [row for row, _ in rowlock_client.table("t").scan()] == [b"r7", b"r8", b"r9"]
    assert run(*words, "10", stdin=content.encode())[:2] == (0, "0 rows, 0 cells\n")
    exit_code, _, err = run(*words, "99", stdin=content.encode())
    assert (exit_code, err.count("has only 10 rows; nothing was written")) == (2, 1)


@pytest.mark.parametrize("kind", FORMATS)
def test_no_such_table_is_an_error_of_an_empty_file_too(run: Run, tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"rows.{kind}"
    if kind == "parquet":
        pa_parquet.write_table(rowlock.Mapping(MAPPING).schema.empty_table(), file)
    else:
        content = b"id,n,raw\n" if "csv" in kind else b""
        file.write_bytes(gzip.compress(content) if kind.endswith(".gz") else content)
    exit_code, out, err = run("import", "nosuch", file, "-m", MAPPING)
    assert (exit_code, out) == (2, "")
    assert "nosuch" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["import", "t"], "give a TABLE and a FILE, or --all FOLDER"),
        (["export", "t"], "give a TABLE and a FILE, or --all FOLDER"),
        (["import", "t", "-"], "give --format for standard input and output"),
        (["import", "t", "x.csv", "--cells", "-m", MAPPING], "--cells excludes --mapping"),
        (["export", "t", "x.csv", "--cells", "--mapped-only"], "--cells excludes --mapped-only"),
        (["export", "t", "x.csv", "--cells", "-m", MAPPING], "--cells excludes --mapping, but for none"),
        (["export", "t", "x.csv", "-m", "none"], "rows of a file need a mapping"),
        (["export", "t", "x.csv", "--versions", "2"], "--versions needs --cells"),
        (["export", "t", "--all", "x"], "--all exports all cells of all tables, and takes no other options"),
        (["import", "--all", "x", "--cells"], "--all takes a folder of 'rowlock export --all', and no other options"),
        (["import", "t", "x.csv", "--existing"], "--existing needs --all"),
        (
            ["import", "--all", "nosuch"],
            "nosuch has no tables.json; give a folder that 'rowlock export --all' has made",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(run: Run, words: list[str], message: str) -> None:
    exit_code, out, err = run(*words)
    assert (exit_code, out) == (2, "")
    assert err.startswith(f"rowlock: {message}")


@pytest.fixture
def server_of_tables(rowlock_client: rowlock.Client) -> dict[str, list[rowlock.Cell[bytes]]]:
    """A server with tables of several kinds. Returns their cells, all versions."""
    families = {"f": rowlock.Family(versions=3, compression="lz4"), "ü": rowlock.Family(time_to_live_ms=1 << 40)}
    raw = rowlock_client.create_table("raw", families, durability="os", properties={"compaction.automatic": False})
    for number in range(3):
        raw.put(EVERY_BYTE, {"f:x": f"v{number}", "ü:ü": EVERY_BYTE}, timestamp=1 << (39 + number % 2))
    rowlock_client.create_table("Raw", ["f"])
    rowlock_client.create_table("x.y" + "z" * 250, ["f"]).put("r", {"f:a": "1"})
    rowlock_client.create_table("typed", mapping=MAPPING).put("a", {"n": 1})
    return all_cells(rowlock_client)


def all_cells(client: rowlock.Client) -> dict[str, list[rowlock.Cell[bytes]]]:
    return {name: list(client.table(name).scan(versions=9).cells()) for name in client.tables()}


def test_all_tables_are_exported_and_made_again(
    run: Run,
    rowlock_client: rowlock.Client,
    server_of_tables: dict[str, list[rowlock.Cell[bytes]]],
    tmp_path: Path,
) -> None:
    folder = tmp_path / "backup"
    exit_code, out, err = run("export", "--all", folder)
    assert (exit_code, err) == (0, "")
    assert dict(line.split("\t") for line in out.splitlines()) == {
        name: str(len(cells)) for name, cells in server_of_tables.items()
    }
    files = [record["file"] for record in json.loads((folder / "tables.json").read_text())["tables"]]
    assert len({file.lower() for file in files}) == 4
    assert sorted(path.name for path in folder.iterdir()) == sorted([*files, "tables.json"])
    described = {name: rowlock_client.describe(name) for name in server_of_tables}
    refused = run("import", "--all", folder)
    assert refused[0] == 2
    assert "the server has tables Raw, raw, typed, xyz".replace("xyz", "x.y") in refused[2]
    assert "Nothing was changed" in refused[2]
    for name in server_of_tables:
        rowlock_client.drop_table(name)
    assert run("import", "--all", folder) == (0, out, "")
    assert all_cells(rowlock_client) == server_of_tables
    for name, before in described.items():
        after = rowlock_client.describe(name)
        assert (after.families, after.durability, after.properties, after.mapping_text) == (
            before.families,
            before.durability,
            before.properties,
            before.mapping_text,
        )
    assert run("import", "--all", folder, "--existing")[0] == 0
    assert all_cells(rowlock_client) == server_of_tables
    assert run("export", "--all", folder)[2] == f"rowlock: {folder} exists and is not empty; give a new folder\n"


def test_an_export_of_all_tables_that_fails_leaves_no_folder(
    run: Run,
    server_of_tables: dict[str, list[rowlock.Cell[bytes]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(descriptor: int) -> NoReturn:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    exit_code, _, err = run("export", "--all", tmp_path / "backup")
    assert (exit_code, err) == (
        2,
        f"rowlock: can't write {tmp_path / 'backup'}: No space left on device; nothing was left of it, write it "
        "elsewhere\n",
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["no file", "another version", "not JSON", "no field", "an unknown setting"])
def test_a_damaged_folder_makes_no_table(
    run: Run,
    rowlock_client: rowlock.Client,
    server_of_tables: dict[str, list[rowlock.Cell[bytes]]],
    tmp_path: Path,
    damage: str,
) -> None:
    folder = tmp_path / "backup"
    assert run("export", "--all", folder)[0] == 0
    for name in server_of_tables:
        rowlock_client.drop_table(name)
    head = folder / "tables.json"
    found = json.loads(head.read_text())
    match damage:
        case "no file":
            (folder / "typed.parquet").unlink()
        case "another version":
            found["version"] = 2
        case "no field":
            del found["tables"][0]["families"]
        case "an unknown setting":
            found["tables"][0]["families"]["f"]["later"] = 1
    head.write_text("{" if damage == "not JSON" else json.dumps(found))
    exit_code, _, err = run("import", "--all", folder)
    assert exit_code == 2
    assert str(folder) in err
    assert rowlock_client.tables() == []
