"""The command line against a real server, in this process."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pa_parquet
import pytest
import rowlock
from rowlock.cli.main import main
from rowlock.pytest_plugin import RowlockServer

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(rowlock_server: RowlockServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line. Returns (exit code, standard output, standard error)."""
    monkeypatch.setenv("ROWLOCK_SERVER", rowlock_server.address)
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    def command(*words: str) -> tuple[int, str, str]:
        exit_code = main(words)
        captured = capsys.readouterr()
        return exit_code, captured.out, captured.err

    return command


@pytest.fixture
def orders(rowlock_client: rowlock.Client) -> rowlock.Table[bytes]:
    return rowlock_client.create_table("orders", {"info": rowlock.Family(versions=3), "stats": rowlock.Family()})


def test_regions_are_created_shown_split_and_merged(run: Run, rowlock_client: rowlock.Client) -> None:
    assert run("create", "cut", "info", "--split-at", r"m\x00", "--split-at", "c") == (0, "", "")

    def starts() -> list[str]:
        return [json.loads(line)["start"] for line in run("regions", "cut", "--json")[1].splitlines()]

    assert starts() == ["", "c", r"m\x00"]
    exit_code, out, _ = run("split", "cut", "t")
    assert (exit_code, len(out.splitlines())) == (0, 2)
    assert starts() == ["", "c", r"m\x00", "t"]
    exit_code, out, err = run("split", "cut", "t")
    assert (exit_code, out) == (2, "")
    assert "is the first row of region" in err
    assert run("merge", "cut", r"m\x00")[0] == 0
    assert starts() == ["", "c", "t"]
    [line] = run("regions", "cut", "--start", "d", "--stop", "e")[1].splitlines()
    [region] = rowlock_client.regions("cut", start="d", stop="e")
    assert line.split("\t")[:3] == [str(region.region_id), "c", "t"]


def test_a_table_is_created_described_altered_truncated_and_dropped(run: Run, rowlock_client: rowlock.Client) -> None:
    assert run("create", "made", "info", "stats,versions=3,compression=zstd", "--durability", "os") == (0, "", "")
    exit_code, out, err = run("create", "made", "info")
    assert (exit_code, out) == (2, "")
    assert "made" in err
    assert run("create", "made", "info", "--if-not-exists") == (0, "", "")
    [described] = map(json.loads, run("describe", "made", "--json")[1].splitlines())
    assert [family["name"] for family in described["families"]] == ["info", "stats"]
    assert described["durability"] == "os"
    assert run("alter", "made", "--set", "stats,versions=5", "--set", "more", "--drop", "info", "--yes") == (0, "", "")
    families = rowlock_client.describe("made").families
    assert sorted(families) == ["more", "stats"]
    assert families["stats"] == rowlock.Family(versions=5, compression="zstd")
    run("put", "made", "r", "more:a=1")
    assert run("count", "made")[1] == "1\n"
    assert run("truncate", "made", "--yes") == (0, "", "")
    assert run("count", "made")[1] == "0\n"
    assert run("drop", "made", "--yes") == (0, "", "")
    assert run("tables") == (0, "", "")


def test_any_bytes_go_in_and_come_out(run: Run, orders: rowlock.Table[bytes]) -> None:
    every_byte = bytes(range(256))
    text = "".join(f"\\x{byte:02x}" for byte in every_byte)
    assert run("put", "orders", text, f"info:{text}={text}") == (0, "", "")
    assert orders.row(every_byte) == {b"info:" + every_byte: every_byte}
    [shown] = map(json.loads, run("get", "orders", text, "--json")[1].splitlines())
    [cell] = shown["cells"]
    column = cell["column"].replace("=", "\\x3d")
    assert run("put", "orders", "copy", f"{column}={cell['value']}") == (0, "", "")
    assert orders.row(b"copy") == {b"info:" + every_byte: every_byte}


def test_versions_and_times_are_read(run: Run, orders: rowlock.Table[bytes]) -> None:
    for timestamp in (100, 200, 300):
        run("put", "orders", "r", f"info:a={timestamp}", "--timestamp", str(timestamp))
    assert run("get", "orders", "r") == (0, "r\tinfo:a\t300\t300\n", "")
    assert run("get", "orders", "r", "info:a", "--versions", "2")[1] == "r\tinfo:a\t300\t300\nr\tinfo:a\t200\t200\n"
    assert run("get", "orders", "r", "--time-range", "100..200")[1] == "r\tinfo:a\t100\t100\n"
    assert run("get", "orders", "r", "--time-range", "..101")[1] == "r\tinfo:a\t100\t100\n"
    assert run("scan", "orders", "--timestamp", "250", "--prefix", "r")[1] == "r\tinfo:a\t200\t200\n"
    assert run("scan", "orders", "--time-range", "..101", "--prefix", "r")[1] == "r\tinfo:a\t100\t100\n"
    assert run("scan", "orders", "--time-range", "200..", "--versions", "5", "--prefix", "r")[1] == (
        "r\tinfo:a\t300\t300\nr\tinfo:a\t200\t200\n"
    )
    assert run("scan", "orders", "--timestamp", "250", "--time-range", "..101")[0] == 2
    assert run("delete", "orders", "r", "info:a", "--timestamp", "200") == (0, "", "")
    assert run("get", "orders", "r", "info:a", "--versions", "9")[1] == "r\tinfo:a\t300\t300\n"


def test_rows_are_changed(run: Run, orders: rowlock.Table[bytes]) -> None:
    assert run("increment", "orders", "r", "stats:n", "5") == (0, "5\n", "")
    assert run("increment", "orders", "r", "stats:n", "-7") == (0, "-2\n", "")
    assert run("append", "orders", "r", "info:a", "ab") == (0, "ab\n", "")
    assert run("append", "orders", "r", "info:a", "cd") == (0, "abcd\n", "")
    assert run("check-and-put", "orders", "r", "info:a", "info:a=x", "--expected", "no")[:2] == (
        1,
        "not applied: info:a is abcd\n",
    )
    assert run("check-and-put", "orders", "r", "info:a", "info:a=x", "--expected", "abc", "--op", ">") == (0, "", "")
    assert run("check-and-put", "orders", "r", "info:new", "info:new=1", "--absent") == (0, "", "")
    assert run("check-and-put", "orders", "r", "info:new", "info:new=1", "--absent")[0] == 1
    assert run("delete", "orders", "r", "info") == (0, "", "")
    assert orders.row(b"r") == {b"stats:n": (-2).to_bytes(8, "big", signed=True)}
    assert run("delete", "orders", "r") == (0, "", "")
    assert run("get", "orders", "r") == (1, "", "no such row\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["get", "nosuch", "r"], "nosuch"),
        (["put", "orders", "r", "nosuch:a=1"], "nosuch"),
        (["increment", "orders", "text", "info:a"], "8 bytes"),
        (["scan", "orders", "--start", "b", "--stop", "a"], "sorts before --start"),
        (["scan", "orders", "--where", "info:a as int > 1"], "not an integer"),
        (["create", "../x", "info"], "../x"),
        (["put", "orders", "", "info:a=1"], "row"),
        (["tables", "--server", "127.0.0.1:1", "--timeout", "1"], "127.0.0.1:1"),
        (["tables", "--server", "nonsense"], "nonsense"),
    ],
)
def test_refusals_are_one_line_that_names_what(
    run: Run, orders: rowlock.Table[bytes], words: list[str], message: str
) -> None:
    orders.put(b"text", {b"info:a": b"abc"})
    exit_code, out, err = run(*words)
    assert (exit_code, out) == (2, "")
    assert err.startswith("rowlock: ")
    assert message in err
    assert len(err.splitlines()) == 1


@pytest.fixture
def many(orders: rowlock.Table[bytes]) -> rowlock.Table[bytes]:
    """250 rows r000 to r249; info:n is the number as text, info:even is only in even rows."""
    with orders.batch() as batch:
        for number in range(250):
            data = {b"info:n": b"%d" % number}
            if number % 2 == 0:
                data[b"info:even"] = b"yes"
            batch.put(b"r%03d" % number, data)
    return orders


def rows_of(out: str) -> list[str]:
    return list(dict.fromkeys(line.split("\t")[0] for line in out.splitlines()))


def test_scan_stops_at_100_rows_and_says_so(run: Run, many: rowlock.Table[bytes]) -> None:
    exit_code, out, err = run("scan", "orders")
    assert (exit_code, rows_of(out)) == (0, [f"r{number:03}" for number in range(100)])
    assert err == "stopped after 100 rows; give --limit ROWS or --all for more\n"
    exit_code, out, err = run("scan", "orders", "--stop", "r100")
    assert (exit_code, len(rows_of(out)), err) == (0, 100, "")
    exit_code, out, err = run("scan", "orders", "--all")
    assert (exit_code, len(rows_of(out)), err) == (0, 250, "")
    exit_code, out, err = run("scan", "orders", "--limit", "3")
    assert (exit_code, rows_of(out), err) == (0, ["r000", "r001", "r002"], "")
    assert run("scan", "orders", "--limit", "0") == (0, "", "")
    assert run("scan", "orders", "--limit", "3", "--all")[0] == 2


def test_scan_takes_ranges_columns_and_conditions(run: Run, many: rowlock.Table[bytes]) -> None:
    assert rows_of(run("scan", "orders", "--prefix", "r24", "--reverse", "--limit", "2")[1]) == ["r249", "r248"]
    assert rows_of(run("scan", "orders", "info:even", "--start", "r001", "--stop", "r004")[1]) == ["r002"]
    assert rows_of(run("scan", "orders", "--where", "info:n as int text >= 247")[1]) == ["r247", "r248", "r249"]
    assert rows_of(
        run("scan", "orders", "--where", "info:n as int text >= 247", "--where", "info:even is absent")[1]
    ) == ["r247", "r249"]
    [line] = run("scan", "orders", "--start", "r249", "--keys-only", "--json")[1].splitlines()
    assert [cell["value"] for cell in json.loads(line)["cells"]] == [""]


def test_count_counts_rows(run: Run, many: rowlock.Table[bytes]) -> None:
    assert run("count", "orders") == (0, "250\n", "")
    assert run("count", "orders", "--prefix", "r1", "--where", "info:even=yes", "--json") == (
        0,
        '{"table": "orders", "rows": 50}\n',
        "",
    )
    assert run("flush", "orders") == (0, "", "")
    assert run("count", "orders") == (0, "250\n", "")


MAPPING = (
    "key STRING :key, n INT info:n, price DOUBLE info:price, day DATE info:day, name STRING info:name, "
    "raw BINARY info:raw"
)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_exported_rows_are_imported_unchanged(
    run: Run, orders: rowlock.Table[bytes], rowlock_client: rowlock.Client, tmp_path: Path, suffix: str
) -> None:
    source = tmp_path / "source.csv"
    source.write_bytes(
        b"key,n,price,day,name,raw,unused\n"
        b'a,1,1.5,2013-01-01,"two\nlines, and ""quotes""",\\x00\\xff\\\\,x\n'
        b'b,,,,"",,x\n'
        b"c,-7,NA,2013-12-31,NA,plain,x\n"
    )
    assert run("import", "orders", str(source), "-m", MAPPING, "--null", "NA") == (0, "3 rows, 9 cells\n", "")
    assert orders.row(b"a")[b"info:raw"] == b"\x00\xff\\"
    assert orders.row(b"b") == {b"info:name": b""}
    assert sorted(orders.row(b"c")) == [b"info:day", b"info:n", b"info:raw"]
    target = tmp_path / f"target.{suffix}"
    assert run("export", "orders", str(target), "-m", MAPPING) == (0, "3 rows\n", "")
    assert run("export", "orders", str(target), "-m", MAPPING)[0] == 2
    copy = rowlock_client.create_table("copy", {"info": rowlock.Family()})
    assert run("import", "copy", str(target), "-m", MAPPING, "--json") == (
        0,
        '{"table": "copy", "rows": 3, "cells": 9, "rows_without_cells": 0}\n',
        "",
    )
    assert list(copy.scan()) == list(orders.scan())
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_part_of_the_rows_is_exported(run: Run, many: rowlock.Table[bytes], tmp_path: Path) -> None:
    target = tmp_path / "even"
    mapping = "key STRING :key, n INT info:n text"
    words = ["--format", "parquet", "--prefix", "r0", "--where", "info:even is present"]
    assert run("export", "orders", str(target), "-m", mapping, *words) == (0, "50 rows\n", "")
    found = pa_parquet.read_table(target).to_pydict()
    assert found == {"key": [f"r{n:03}" for n in range(0, 100, 2)], "n": list(range(0, 100, 2))}


def test_an_export_has_every_row_whatever_columns_it_maps(
    run: Run, orders: rowlock.Table[bytes], tmp_path: Path
) -> None:
    orders.put(b"a", {"info:n": "1"})
    orders.put(b"b", {"info:other": "x"})
    target = tmp_path / "rows.csv"
    words = ["export", "orders", str(target), "-m", "key STRING :key, n INT info:n text", "--overwrite"]
    assert run(*words) == (0, "2 rows\n", "")
    assert target.read_text().splitlines()[1:] == ['"a",1', '"b",']
    assert run(*words, "--mapped-only") == (0, "1 row\n", "")
    assert target.read_text().splitlines()[1:] == ['"a",1']


def test_an_import_says_which_rows_are_not_in_the_table(run: Run, orders: rowlock.Table[bytes], tmp_path: Path) -> None:
    source = tmp_path / "rows.csv"
    source.write_text("key,n,m\na,1,\nb,,2\nc,,\n")
    words = ["import", "orders", str(source), "-m"]
    none = "1 row has no values except the key, so it is not in the table"
    assert run(*words, "key STRING :key, n INT info:n, m INT info:m") == (0, f"3 rows, 2 cells; {none}\n", "")
    assert [row for row, _ in orders.scan()] == [b"a", b"b"]


@pytest.mark.parametrize(
    ("content", "mapping", "message"),
    [
        (b"key,n\na,x\n", "key STRING :key, n INT info:n", "line 2, column 'n': 'x' is not a valid INT"),
        (b"key,n\na,1\n", "key STRING :key, m INT info:n", "'m'"),
        (b"key,n\n,1\n", "key STRING :key, n INT info:n", "line 2, column 'key': '' is not a valid key"),
        (b"key,n\na,1\n", "key STRING", "mapping"),
        (b"key,n\na,1\n", "key STRING :key, n INT nosuch:n", "nosuch"),
        (b"key,n\na,\\q\n", "key STRING :key, n BINARY info:n", "bad escape"),
        (b"", "key STRING :key", "csv"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(
    run: Run, orders: rowlock.Table[bytes], tmp_path: Path, content: bytes, mapping: str, message: str
) -> None:
    source = tmp_path / "source.csv"
    source.write_bytes(content)
    exit_code, out, err = run("import", "orders", str(source), "-m", mapping)
    assert (exit_code, out) == (2, "")
    assert message in err
    assert list(orders.scan()) == []


def test_a_file_that_is_wrong_in_the_middle_is_reported_with_what_was_written(
    run: Run, orders: rowlock.Table[bytes], tmp_path: Path
) -> None:
    source = tmp_path / "source.csv"
    with source.open("w") as file:
        file.write("key;text;n\n")
        file.writelines(f"{number:06};{'x' * 10_000};{number}\n" for number in range(6_000))
        file.write("last;x;many\n")
    words = ["import", "orders", str(source), "-m", "key STRING :key, n INT info:n", "--separator", ";"]
    exit_code, _, err = run(*words)
    assert exit_code == 2
    written = sum(1 for _ in orders.scan())
    assert 0 < written < 6_000
    assert err.startswith(
        f"rowlock: {source} can't be read as csv with this mapping: line 6002, column 'n': 'many' is not "
    )
    assert err.endswith(
        f" to 2147483647. {written} rows were written: correct the file and repeat the import; it "
        "writes the same rows again\n"
    )


def test_fields_are_separated_by_the_given_separator(run: Run, orders: rowlock.Table[bytes], tmp_path: Path) -> None:
    orders.put(b"a;b", {b"info:n": b"1"})
    target = tmp_path / "out.csv"
    mapping = ("-m", "key STRING :key, n STRING info:n")
    assert run("export", "orders", str(target), *mapping, "--separator", r"\t") == (0, "1 row\n", "")
    assert target.read_text() == '"key"\t"n"\n"a;b"\t"1"\n'
    assert run("import", "orders", str(target), *mapping, "--separator", "\t") == (0, "1 row, 1 cell\n", "")
    for separator, file, problem in [
        ("-", "out.csv", r"--separator must be one of , ; | or \t, not '-'"),
        (";", "out.parquet", "--separator is for csv, but the format is parquet"),
    ]:
        for command in ("import", "export"):
            found = run(
                command, "orders", str(tmp_path / file), *mapping, "--separator", separator, "--format", file[4:]
            )
            assert found == (2, "", f"rowlock: {problem}\n")


def test_an_export_does_not_replace_a_device(run: Run, many: rowlock.Table[bytes], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    exit_code, _, err = run("export", "many", str(pipe), "-m", "id STRING :key, n STRING f:n", "--overwrite")
    assert (exit_code, err) == (
        2,
        f"rowlock: {pipe} is not a regular file; give a path of one, or - for standard output\n",
    )
    assert pipe.is_fifo()


def test_a_file_that_cannot_be_imported_is_reported(run: Run, many: rowlock.Table[bytes], tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text('id,other,"a, b"\n1,2,3\n')
    mapping = ("-m", "id STRING :key, n STRING f:n")
    for path, problem in [
        (file, f"{file} has no column 'n', which the mapping names; its columns are id, other, a, b"),
        (tmp_path, f"{tmp_path} is not a regular file"),
        (tmp_path / "nosuch", f"there is no file {tmp_path / 'nosuch'}"),
    ]:
        assert run("import", "orders", str(path), "--format", "csv", *mapping) == (2, "", f"rowlock: {problem}\n")


def test_an_export_that_fails_leaves_no_file(run: Run, many: rowlock.Table[bytes], tmp_path: Path) -> None:
    # The last rows' numbers don't fit one byte.
    mapping = "key STRING :key, n TINYINT info:n text"
    exit_code, _, err = run("export", "orders", str(tmp_path / "out.csv"), "-m", mapping)
    assert exit_code == 2
    assert err.startswith("rowlock: ")
    assert list(tmp_path.iterdir()) == []


def test_invalid_files_are_refused(run: Run, orders: rowlock.Table[bytes], tmp_path: Path) -> None:
    mapping = "key STRING :key"
    for words, message in [
        (["import", "orders", str(tmp_path / "nosuch.csv")], "there is no file"),
        (["import", "orders", str(tmp_path / "nosuch.txt")], "--format"),
        (["export", "orders", str(tmp_path / "nosuch" / "out.csv")], f"there is no folder {tmp_path / 'nosuch'}\n"),
        (["export", "orders", str(tmp_path), "--format", "csv", "--overwrite"], f"{tmp_path} is a folder"),
    ]:
        exit_code, _, err = run(*words, "-m", mapping)
        assert exit_code == 2
        assert message in err
    (tmp_path / "no.parquet").write_bytes(b"this is no parquet file")
    exit_code, _, err = run("import", "orders", str(tmp_path / "no.parquet"), "-m", mapping)
    assert exit_code == 2
    assert "can't be read as parquet" in err


def test_the_shell_runs_a_script(run: Run, orders: rowlock.Table[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    script = "# orders\nput orders 'a row' 'info:a=two words'\nget orders 'a row' --json\nexit\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(script))
    exit_code, out, err = run("shell")
    assert (exit_code, err) == (0, "")
    assert json.loads(out)["cells"][0]["value"] == "two words"
