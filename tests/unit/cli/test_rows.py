from __future__ import annotations

import io
import re
from collections import deque
from collections.abc import Sequence
from contextlib import nullcontext

import pytest
from rowlock.checks import CheckResult

from tests.unit.cli.recording import Console


def test_put_sends_one_row_with_all_of_its_cells(console: Console) -> None:
    assert console.run("put", "t", r"r\x00", "f:a=1", r"f:b=\xff", "--timestamp", "5") == 0
    assert console.client.calls == [
        ("table", ("t",), {}),
        ("put", (b"r\x00", {b"f:a": b"1", b"f:b": b"\xff"}), {"timestamp": 5}),
    ]
    assert console.out == ""


def test_put_reports_as_json_how_many_cells_it_wrote(console: Console) -> None:
    assert console.run("put", "t", r"r\x00", "f:a=1", "--json") == 0
    assert console.records == [{"table": "t", "row": r"r\x00", "cells": 1}]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"row": ', "the line is not valid JSON: Expecting value at character 8"),
        ('{"row": 5, "cells": []}', '"row" must be a string, and not 5'),
        ('{"row": "a", "cells": {"f:a": "1"}}', '"cells" must be a list, and not {"f:a": "1"}'),
        ('{"cells": []}', "the object lacks \"row\", which 'get --json' prints"),
        ('{"row": "a", "cells": [1]}', '"cells" must hold objects, and not 1'),
        ('{"row": "a", "cells": [{"column": "f:a"}]}', "a cell lacks \"value\", which 'get --json' prints"),
        ('{"row": "a", "cells": [{"column": "f:a", "value": true}]}', '"value" must be a string, and not true'),
        (
            '{"row": "a", "cells": [{"column": "f:a", "value": "", "timestamp": "5"}]}',
            '"timestamp" must be a whole number, and not "5"',
        ),
    ],
)
def test_put_says_what_is_wrong_with_a_line_of_json(console: Console, line: str, message: str) -> None:
    console.client.answers["batch"] = nullcontext(console.client)
    console.stdin = io.StringIO(line)
    assert console.run("put", "t", "-") == 2
    assert console.err == f"rowlock: line 1 of standard input: {message}\n"


def test_get_shows_one_line_per_cell(console: Console) -> None:
    console.client.answers["row"] = {b"f:a": (b"1", 100), b"f:b": (b"x\ty", 200)}
    assert console.run("get", "t", "r") == 0
    assert console.out == "r\tf:a\t100\t1\nr\tf:b\t200\tx\\x09y\n"
    assert console.client.calls[1] == (
        "row",
        (b"r", None),
        {"timestamp": None, "time_range": None, "include_timestamp": True},
    )


def test_get_shows_a_table_with_a_heading_on_a_terminal(console: Console) -> None:
    console.attach_terminal()
    console.client.answers["row"] = {b"f:a": (b"[bold]1", 100)}
    assert console.run("get", "t", "r") == 0
    heading, *_, line = re.sub(r"\x1b\[\d*m", "", console.out).strip().splitlines()
    assert heading.split() == ["row", "column", "timestamp", "value"]
    assert line.split() == ["r", "f:a", "100", "[bold]1"]


def test_get_shows_a_row_as_one_json_object(console: Console) -> None:
    console.client.answers["row"] = {b"f:a": (b"\x00", 100)}
    assert console.run("get", "t", "r", "f", "--json") == 0
    assert console.records == [{"row": "r", "cells": [{"column": "f:a", "timestamp": 100, "value": r"\x00"}]}]
    assert console.client.calls[1][1] == (b"r", [b"f"])


def test_get_of_an_absent_row_exits_with_1(console: Console) -> None:
    console.client.answers["row"] = {}
    assert console.run("get", "t", "r") == 1
    assert (console.out, console.err) == ("", "no such row\n")
    assert console.run("get", "t", "r", "f:a", "--json") == 1
    assert (console.records, console.err) == ([], "no such cells\n")


def test_get_takes_several_rows(console: Console) -> None:
    console.client.answers["row"] = deque([{b"f:a": (b"1", 100)}, {}, {b"f:a": (b"3", 300)}])
    assert console.run("get", "t", "a", "--row", "b", "--row", r"c\x00") == 1
    assert (console.out, console.err) == ("a\tf:a\t100\t1\nc\\x00\tf:a\t300\t3\n", "1 of 3 rows have no cells\n")


def test_get_of_versions_reads_each_column_newest_first(console: Console) -> None:
    console.client.answers["cells"] = [(b"new", 200), (b"old", 100)]
    assert console.run("get", "t", "r", "f:a", "f:b", "--versions", "2") == 0
    assert console.out.splitlines() == [
        "r\tf:a\t200\tnew",
        "r\tf:a\t100\told",
        "r\tf:b\t200\tnew",
        "r\tf:b\t100\told",
    ]
    assert [call[1] for call in console.client.calls if call[0] == "cells"] == [(b"r", b"f:a", 2), (b"r", b"f:b", 2)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--versions", "2"], "needs a COLUMN"),
        (["f", "--versions", "2"], "not a column"),
        (["f:a", "--versions", "2", "--timestamp", "1"], "--versions excludes"),
        (["--time-range", "5"], "time range"),
        ([":a"], "has no family"),
    ],
)
def test_get_refuses_invalid_arguments(console: Console, words: Sequence[str], message: str) -> None:
    assert console.run("get", "t", "r", *words) == 2
    assert message in console.err
    assert all(call[0] == "table" for call in console.client.calls)


def test_delete_without_columns_deletes_the_row(console: Console) -> None:
    assert console.run("delete", "t", "r", "--json") == 0
    assert console.client.calls[1] == ("delete", (b"r", None), {"timestamp": None})
    assert console.records == [{"table": "t", "row": "r", "deleted": ["row"]}]


def test_delete_takes_columns_families_and_a_timestamp(console: Console) -> None:
    assert console.run("delete", "t", "r", "f:a", "g", "--timestamp", "7") == 0
    assert console.client.calls[1] == ("delete", (b"r", [b"f:a", b"g"]), {"timestamp": 7})


@pytest.mark.parametrize(("words", "amount"), [([], 1), (["5"], 5), (["-5"], -5)])
def test_increment_shows_the_new_value(console: Console, words: Sequence[str], amount: int) -> None:
    console.client.answers["increment"] = 41 + amount
    assert console.run("increment", "t", "r", "f:n", *words) == 0
    assert console.client.calls[1] == ("increment", (b"r", b"f:n", amount), {})
    assert console.out == f"{41 + amount}\n"


def test_counter_shows_the_number(console: Console) -> None:
    console.client.answers["counter"] = 42
    assert console.run("counter", "t", "r", "f:n") == 0
    assert console.client.calls[1] == ("counter", (b"r", b"f:n"), {})
    assert console.out == "42\n"
    assert console.run("counter", "t", "r", "f:n", "--json") == 0
    assert console.records == [{"row": "r", "column": "f:n", "value": 42}]


def test_increment_gives_a_number_as_json(console: Console) -> None:
    console.client.answers["increment"] = 42
    assert console.run("increment", "t", "r", "f:n", "--json") == 0
    assert console.records == [{"row": "r", "column": "f:n", "value": 42}]


def test_append_shows_the_complete_new_value(console: Console) -> None:
    console.client.answers["append"] = b"ab\x00"
    assert console.run("append", "t", "r", "f:a", r"b\x00") == 0
    assert console.client.calls[1] == ("append", (b"r", b"f:a", b"b\x00"), {})
    assert console.out == "ab\\x00\n"


def test_call_shows_the_answer_of_a_procedure(console: Console) -> None:
    console.client.answers["call"] = b"ab\x00"
    assert console.run("call", "t", "r", "sell", r"b\x00") == 0
    assert console.client.calls[1] == ("call", (b"r", "sell", b"b\x00"), {})
    assert console.out == "ab\\x00\n"
    assert console.run("call", "t", "r", "sell", "--json") == 0
    assert console.client.calls[-1] == ("call", (b"r", "sell", b""), {})
    assert console.records == [{"row": "r", "procedure": "sell", "answer": "ab\\x00"}]


def test_check_and_put_exits_with_0_when_the_condition_holds(console: Console) -> None:
    console.client.answers["check_and_put"] = CheckResult(applied=True, decode=bytes, stored={b"f:a": b"5"})
    assert console.run("check-and-put", "t", "r", "f:a", "f:a=6", "--expected", "5", "--json") == 0
    assert console.client.calls[1] == ("check_and_put", (b"r", b"f:a", b"5", {b"f:a": b"6"}), {"op": "="})
    assert console.records == [{"row": "r", "applied": True, "current": "5"}]


def test_check_and_put_exits_with_1_and_shows_the_value_when_the_condition_does_not_hold(console: Console) -> None:
    console.client.answers["check_and_put"] = CheckResult(applied=False, decode=bytes, stored={b"f:a": b"7"})
    assert console.run("check-and-put", "t", "r", "f:a", "f:a=6", "--expected", "5") == 1
    assert console.out == "not applied: f:a is 7\n"
    assert console.err == ""


def test_check_and_put_tells_an_absent_column_from_an_empty_one(console: Console) -> None:
    console.client.answers["check_and_put"] = CheckResult(applied=False, decode=bytes, stored={b"f:a": None})
    assert console.run("check-and-put", "t", "r", "f:a", "f:a=6", "--expected", "") == 1
    assert console.client.calls[1][1][2] == b""
    assert console.out == "not applied: f:a is absent\n"
    assert console.run("check-and-put", "t", "r", "f:a", "f:a=6", "--absent", "--json") == 1
    assert console.client.calls[1][1][2] is None
    assert console.records == [{"row": "r", "applied": False, "current": None}]


@pytest.mark.parametrize("words", [[], ["--absent", "--expected", "5"]])
def test_check_and_put_needs_exactly_one_expectation(console: Console, words: Sequence[str]) -> None:
    assert console.run("check-and-put", "t", "r", "f:a", "f:a=6", *words) == 2
    assert "either --expected VALUE or --absent" in console.err
    assert not console.connected
