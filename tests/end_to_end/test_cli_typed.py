"""The command line on typed tables, and its commands on several rows, against a real server, in this process."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
import rowlock
from rowlock.cli.main import main
from rowlock.pytest_plugin import RowlockServer

Run = Callable[..., tuple[int, str, str]]

MAPPING = "user STRING :key, orders BIGINT count:orders, score DOUBLE model:score, at TIMESTAMP :timestamp"
EVERY = (
    "day DATE :key ordered, carrier STRING :key ordered, number INT :key ordered, text STRING f:t, raw BINARY f:r, "
    "fare DECIMAL(9,2) f:fare, at TIMESTAMP f:at, ok BOOLEAN f:ok, ratio DOUBLE f:ratio"
)


@pytest.fixture
def run(rowlock_server: RowlockServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line, with `stdin` as its input. Returns (exit code, standard output, standard error)."""
    monkeypatch.setenv("ROWLOCK_SERVER", rowlock_server.address)

    def command(*words: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        exit_code = main(words)
        captured = capsys.readouterr()
        return exit_code, captured.out, captured.err

    return command


@pytest.fixture
def fs(run: Run, rowlock_client: rowlock.Client) -> str:
    assert run("create", "fs", "--mapping", MAPPING) == (0, "", "")
    return "fs"


def test_rows_are_typed_by_the_mapping_that_the_table_keeps(run: Run, fs: str) -> None:
    assert run("put", fs, "alice", "orders=7", "score=0.5") == (0, "", "")
    assert run("put", fs, "bob", "orders=1", "at=2024-01-01T00:00:00", "--json")[1] == (
        '{"table": "fs", "row": "bob", "cells": 2}\n'
    )
    assert run("get", fs, "alice") == (0, "alice\t7\t0.5\n", "")
    assert run("get", fs, "alice", "score", "--json")[1] == '{"user": "alice", "score": 0.5}\n'
    assert run("get", fs, "nobody") == (1, "", "no such row\n")
    assert run("get", fs, "bob", "score") == (1, "", "no such cells\n")
    assert run("get", fs, "bob", "--row", "alice") == (0, "bob\t1\t\nalice\t7\t0.5\n", "")
    assert run("get", fs, "bob", "orders", "--versions", "3") == (0, "bob\torders\t1704067200000\t1\n", "")
    assert run("scan", fs) == (0, "alice\t7\t0.5\nbob\t1\t\n", "")
    assert run("scan", fs, "--json")[1].splitlines() == [
        '{"user": "alice", "orders": 7, "score": 0.5}',
        '{"user": "bob", "orders": 1, "score": null}',
    ]
    assert run("scan", fs, "score") == (0, "alice\t0.5\n", "")
    assert run("scan", fs, "--keys-only", "--reverse") == (0, "bob\nalice\n", "")
    assert run("scan", fs, "--where", "orders > 5", "--where", "score is present")[1] == "alice\t7\t0.5\n"
    assert run("count", fs, "--where", "score is absent") == (0, "1\n", "")
    assert run("increment", fs, "alice", "orders", "3") == (0, "10\n", "")
    assert run("check-and-put", fs, "alice", "score", "score=0.25", "--expected", "1", "--op", ">")[:2] == (
        1,
        "not applied: score is 0.5\n",
    )
    assert run("check-and-put", fs, "alice", "score", "score=0.25", "--expected", "1", "--op", "<") == (0, "", "")
    assert run("delete", fs, "alice", "score") == (0, "", "")
    assert run("get", fs, "alice") == (0, "alice\t10\t\n", "")
    assert run("exists", fs, "alice") == (0, "", "")
    assert run("exists", fs, "nobody", "--json") == (1, '{"row": "nobody", "exists": false}\n', "")
    # As bytes:
    assert run("get", fs, "alice", "--mapping", "none")[1].split("\t")[1] == "count:orders"
    assert run("count", fs, "-m", "none", "--where", "count:orders as bigint > 5") == (0, "1\n", "")


def test_a_mapping_may_be_given_for_a_table_that_keeps_none(run: Run, rowlock_client: rowlock.Client) -> None:
    rowlock_client.create_table("t", ["f"])
    mapping = ("-m", "n INT :key ordered, v STRING f:v")
    for number in ("-5", "3", "10"):
        assert run("put", "t", "--", number, f"v=x{number}")[0] == 2
        assert run("put", "t", *mapping, "--", number, f"v=x{number}") == (0, "", "")
    assert run("scan", "t", *mapping) == (0, "-5\tx-5\n3\tx3\n10\tx10\n", "")
    assert run("scan", "t", *mapping, "--start", "0", "--stop", "10") == (0, "3\tx3\n", "")
    assert run("append", "t", *mapping, "3", "v", "ü") == (0, "x3ü\n", "")


def test_every_type_and_composite_keys_are_read_and_written_as_text(run: Run, rowlock_client: rowlock.Client) -> None:
    table = rowlock_client.create_table("t", mapping=EVERY)
    cells = [
        *(r"text=a\x09b|ä", r"raw=\xff|", "fare=-1.50", "at=2013-01-31T05:00:00.5", "ok=true"),
        "ratio=nan",
    ]
    assert run("put", "t", r"2013-01-31|U\x7cA|-7", *cells) == (0, "", "")
    [(key, row)] = table.scan()
    assert (key[1:], row["text"], row["raw"], row["fare"]) == (("U|A", -7), "a\tb|ä", b"\xff|", Decimal("-1.50"))
    shown = "2013-01-31|U\\x7cA|-7\ta\\x09b|ä\t\\xff|\t-1.50\t2013-01-31T05:00:00.500000\ttrue\tnan\n"
    assert run("get", "t", r"2013-01-31|U\x7cA|-7") == (0, shown, "")
    [record] = map(json.loads, run("scan", "t", "--prefix", r"2013-01-31|U\x7cA", "--json")[1].splitlines())
    assert record == {
        "day": "2013-01-31",
        "carrier": "U|A",
        "number": -7,
        "text": "a\tb|ä",
        "raw": "\\xff|",
        "fare": "-1.50",
        "at": "2013-01-31T05:00:00.500000Z",
        "ok": True,
        "ratio": "nan",
    }
    assert run("scan", "t", "--prefix", "2013-01-31|")[1] == shown
    assert run("scan", "t", "--start", "2013-02-01") == (0, "", "")
    # What was printed as JSON is read again.
    assert run("create", "u", "-m", EVERY) == (0, "", "")
    assert run("put", "u", "-", stdin=run("scan", "t", "--json")[1]) == (0, "1 row, 6 cells\n", "")
    assert run("scan", "u")[1] == shown
    for words, message in (
        (
            ("get", "t", "2013-01-31|UA"),
            "'2013-01-31|UA' has 2 parts, and the key is day|carrier|number; in a part write",
        ),
        (("get", "t", "2013-01-32|UA|1"), "'2013-01-32' is not a valid DATE for day: write a day, as 2013-01-31"),
        (
            ("put", "t", "2013-01-31|UA|1", "fare=1.234"),
            "'1.234' is not a valid DECIMAL(9,2) for fare: write a number that fits",
        ),
        (
            ("put", "t", "2013-01-31|UA|1", "fare=x"),
            "'x' is not a valid DECIMAL(9,2) for fare: write a number that fits",
        ),
        (
            ("put", "t", "2013-01-31|UA|1", "f:fare=1"),
            "the mapping has no column 'f:fare' (did you mean 'fare'?); its columns are",
        ),
        (("scan", "t", "--where", "fare as int > 1"), "names a type, but the table's mapping has that of 'fare'"),
        (("scan", "t", "--where", "fare > 1"), "the server can't compare 'fare', which is DECIMAL(9,2)"),
        (("scan", "t", "--where", "ok = yes"), "'yes' is not a valid BOOLEAN for ok: write true or false"),
        (("scan", "t", "--prefix", "2013-01-31|UA|1"), "the last one, 'number', is INT; leave it out"),
        (
            ("get", "t", "-m", "day DATE :key ordered, text STRING f:t", "2013-01-31"),
            "does not agree with the one that",
        ),
        (("scan", "t", "-m", EVERY, "--versions", "2"), "--versions shows cells as bytes, so it excludes --mapping"),
    ):
        exit_code, out, err = run(*words)
        assert (exit_code, out) == (2, ""), words
        assert message in err, err


def test_the_mapping_is_shown_and_altered(run: Run, fs: str, rowlock_client: rowlock.Client) -> None:
    assert f"mapping\t{MAPPING}\n" in run("describe", fs)[1]
    assert json.loads(run("describe", fs, "--json")[1])["mapping"] == MAPPING
    wrong = MAPPING.replace("BIGINT", "INT")
    exit_code, _, err = run("alter", fs, "-m", wrong)
    assert exit_code == 2
    assert "count:orders is BIGINT binary, and its cells can't be read as INT binary" in err
    assert run("alter", fs, "-m", f"{MAPPING}, n INT model:n") == (0, "", "")
    assert run("alter", fs, "-m", wrong, "--replace-mapping") == (0, "", "")
    assert run("alter", fs, "-m", "none") == (0, "", "")
    assert rowlock_client.describe(fs).mapping is None
    assert run("alter", fs, "--replace-mapping", "--durability", "os")[2] == (
        "rowlock: --replace-mapping needs a --mapping\n"
    )
    assert "mapping" not in run("describe", fs)[1]


def test_several_rows_are_put_from_standard_input(run: Run, rowlock_client: rowlock.Client) -> None:
    table = rowlock_client.create_table("t", {"f": rowlock.Family(versions=3)})
    lines = "a f:x=1 f:y=2\n\n'b c' 'f:x=two words'\nd\\x00 f:x=\\xff\n"
    assert run("put", "t", "-", stdin=lines) == (0, "3 rows, 4 cells\n", "")
    assert table.row("b c") == {b"f:x": b"two words"}
    assert (
        run("put", "t", "-", "--timestamp", "5", "--json", stdin="e f:x=1")[1]
        == '{"table": "t", "rows": 1, "cells": 1}\n'
    )
    rowlock_client.create_table("copy", {"f": rowlock.Family(versions=3)})
    table.put("a", {"f:x": "new"})
    copied = run("scan", "t", "--all", "--versions", "3", "--json")[1]
    assert run("put", "copy", "-", stdin=copied) == (0, "4 rows, 6 cells\n", "")
    assert run("scan", "copy", "--all", "--versions", "3", "--json")[1] == copied
    for stdin, message in (
        (
            "a f:x=1\nb\n",
            "line 2 of standard input: the line has a row and no cells; write ROW COLUMN=VALUE ...; the row",
        ),
        ("a x=1\n", "line 1 of standard input: 'x' is not a column"),
        ("a 'f:x=1\n", "line 1 of standard input: the quote ' is not closed"),
        ('{"row": "a"}\n', 'line 1 of standard input: the object lacks "cells", which'),
        ('{"row"\n', "line 1 of standard input: the line is not valid JSON: Expecting ':' delimiter"),
    ):
        exit_code, out, err = run("put", "t", "-", stdin=stdin)
        assert (exit_code, out) == (2, "")
        assert message in err
    assert (
        run("put", "t", "-", "f:x=1")[2]
        == "rowlock: the cells of '-' are on standard input; leave out the CELL arguments\n"
    )
    assert run("put", "t", "r")[2] == "rowlock: give at least one CELL, as COLUMN=VALUE\n"


def test_typed_rows_are_put_from_standard_input(run: Run, fs: str, rowlock_client: rowlock.Client) -> None:
    table = rowlock_client.typed_table(fs)
    lines = 'alice orders=7\n{"user": "bob", "orders": 1, "score": null, "at": "2024-01-01T00:00:00Z"}\n'
    assert run("put", fs, "-", stdin=lines) == (0, "2 rows, 3 cells\n", "")
    assert table.row("bob", include_timestamp=True) == {"orders": (1, 1704067200000)}
    for stdin, message in (
        ('{"orders": 1}\n', "the object lacks the key 'user'"),
        ('{"user": "a", "x": 1}\n', "the mapping has no column 'x'"),
        ('{"user": "a", "orders": "x"}\n', "'x' is not a valid BIGINT for orders"),
        ('{"user": "a", "orders": 1.5}\n', "takes an int, not float"),
    ):
        assert message in run("put", fs, "-", stdin=stdin)[2]


def test_conditional_changes_of_several_kinds(run: Run, fs: str, rowlock_client: rowlock.Client) -> None:
    table = rowlock_client.typed_table(fs)
    table.put("alice", {"orders": 7, "score": 0.5})
    change = ("check-and-mutate", fs, "alice", "--if", "orders > 5", "--if", "score is present")
    assert run(*change, "--increment", "orders", "--put", "score=0.75") == (0, "orders\t8\n", "")
    assert table.row("alice") == {"orders": 8, "score": 0.75}
    exit_code, out, _ = run(
        *change[:4], "orders > 50", "--delete-row", "--else-increment", "orders=-2", "--else-delete", "score", "--json"
    )
    assert (exit_code, json.loads(out)) == (
        1,
        {"row": "alice", "applied": False, "seen": {"orders": 8}, "results": {"orders": 6}},
    )
    assert table.row("alice") == {"orders": 6, "score": None}
    assert run(*change[:4], "orders = 5", "--put", "score=1") == (1, "not applied\n", "")
    assert run("check-and-delete", fs, "alice", "orders", "--expected", "5")[:2] == (1, "not applied: orders is 6\n")
    assert run("check-and-delete", fs, "alice", "orders", "orders", "--expected", "6") == (0, "", "")
    assert run("check-and-delete", fs, "alice", "orders", "--absent") == (0, "", "")
    raw = ("check-and-mutate", fs, "raw", "-m", "none", "--if", "model:x ~ ^a.c$")
    assert run(*raw, "--put", "model:x=b")[0] == 1
    table.put("raw", {"orders": 1})
    rowlock_client.table(fs).put("raw", {"model:x": "abc"})
    assert run(*raw, "--append", "model:x=!", "--increment", "count:n=5") == (0, "count:n\t5\nmodel:x\tabc!\n", "")
    assert run("check-and-mutate", fs, "a", "--put", "score=1")[2] == "rowlock: give at least one --if CONDITION\n"
    assert "has no integer after '='" in run(*change, "--increment", "orders=x")[2]


def test_ranges_are_deleted_and_matched_by_regular_expressions(run: Run, rowlock_client: rowlock.Client) -> None:
    table = rowlock_client.create_table("t", ["f"])
    with table.batch() as batch:
        for number in range(30):
            batch.put(f"r{number:02d}", {"f:v": f"v{number % 3}"})
    assert run("count", "t", "--where", "f:v ~ [12]$") == (0, "20\n", "")
    assert run("delete-range", "t", "--prefix", "r0", "--where", "f:v ~ 1", "--yes") == (0, "3 rows deleted\n", "")
    assert run("delete-range", "t", "--start", "r2", "--yes", "--json")[1] == '{"table": "t", "rows": 10}\n'
    assert run("count", "t") == (0, "17\n", "")
    assert "standard input is not a terminal" in run("delete-range", "t", "--prefix", "r")[2].lower()
    assert "'rowlock truncate' deletes all rows" in run("delete-range", "t", "--yes")[2]
    assert run("delete", "t", "r00", "--row", "r02") == (0, "", "")
    assert run("count", "t") == (0, "15\n", "")
    assert "missing ): (a" in run("count", "t", "--where", "f:v ~ (a")[2]


def test_files_are_imported_and_exported_by_the_kept_mapping(
    run: Run, fs: str, rowlock_client: rowlock.Client, tmp_path: Path
) -> None:
    (tmp_path / "in.csv").write_text("user,score,at,unused\nalice,0.5,2024-01-01T00:00:00,x\nbob,0.25,,y\n")
    table = rowlock_client.typed_table(fs)
    table.put("alice", {"score": 0.75})
    # A column that the mapping does not name may be a misspelled one of those that the file lacks.
    assert run("import", fs, str(tmp_path / "in.csv")) == (
        2,
        "",
        f"rowlock: {tmp_path}/in.csv has the column 'unused', which the mapping does not name: rename it, or give "
        "--ignore-others to omit such columns. The mapping has user, orders, score, at\n",
    )
    assert run("import", fs, str(tmp_path / "in.csv"), "--ignore-others")[:2] == (0, "2 rows, 2 cells\n")
    assert run("export", fs, str(tmp_path / "cells.csv"), "--cells")[0] == 0
    assert run("import", fs, str(tmp_path / "cells.csv")) == (
        2,
        "",
        f"rowlock: {tmp_path / 'cells.csv'} has the columns of cells, and none of the mapping: give --cells\n",
    )
    assert run("import", fs, str(tmp_path / "cells.csv"), "--cells")[0] == 0
    # Alice's is older than what she has.
    assert [row for _, row in table.scan()] == [{"orders": None, "score": 0.75}, {"orders": None, "score": 0.25}]
    assert run("export", fs, str(tmp_path / "out.csv")) == (0, "2 rows\n", "")
    assert (tmp_path / "out.csv").read_text() == '"user","orders","score"\n"alice",,0.75\n"bob",,0.25\n'
    assert run("export", fs, str(tmp_path / "out.parquet"))[0] == 0
    assert run("import", fs, str(tmp_path / "out.parquet"))[:2] == (0, "2 rows, 2 cells\n")
    (tmp_path / "key.csv").write_text("user\nalice\n")
    assert (
        "has no column of the mapping besides the key; those are orders, score"
        in run("import", fs, str(tmp_path / "key.csv"))[2]
    )
    assert (
        "has no column 'orders', which the mapping names"
        in run("import", fs, str(tmp_path / "in.csv"), "-m", MAPPING)[2]
    )
    rowlock_client.create_table("t", ["f"])
    assert (
        run("import", "t", str(tmp_path / "in.csv"))[2]
        == "rowlock: table t keeps no mapping: give --mapping, or --cells for cells\n"
    )
    assert (
        run("export", "t", str(tmp_path / "no.csv"))[2]
        == "rowlock: table t keeps no mapping: give --mapping, or --cells for cells\n"
    )


def test_changes_are_typed_by_the_kept_mapping(run: Run, rowlock_client: rowlock.Client, tmp_path: Path) -> None:
    feed = {"changes_retained_hours": 1}
    table = rowlock_client.create_table("fs", mapping=MAPPING, properties=feed)
    table.put("alice", {"orders": 7, "score": None}, timestamp=9)
    exit_code, out, _ = run("changes", "fs")
    assert exit_code == 0
    assert [line.split("\t")[1:] for line in out.splitlines()] == [
        ["put", "alice", "orders", "9", "7"],
        ["delete_column", "alice", "score", "9", ""],
    ]
    exit_code, out, _ = run("changes", "fs", "--json", "--since", str(tmp_path / "offset"))
    shown = [json.loads(line) for line in out.splitlines()]
    assert [(change["key"], change["column"], change["value"]) for change in shown] == [
        ({"user": "alice"}, "orders", 7),
        ({"user": "alice"}, "score", None),
    ]
    assert (tmp_path / "offset").read_text().endswith("}\n")
    exit_code, out, _ = run("changes", "fs", "--mapping", "none", "--json")
    assert json.loads(out.splitlines()[0])["value"] == "\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x07"
