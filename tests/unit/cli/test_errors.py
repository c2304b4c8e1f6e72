"""An error is one line on standard error and exit code 2, never a traceback."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from rowlock import Mapping
from rowlock.cli.arguments import ArgumentError
from rowlock.cli.commands import COMMANDS
from rowlock.cli.layouts import TypedLayout
from rowlock.cli.main import main
from rowlock.errors import BulkError, LimitExceededError, ServerUnavailableError, TableNotFoundError
from rowlock.schema import Family, TableDescription

from tests.unit.cli.recording import Console

if TYPE_CHECKING:
    from rowlock import TypedTable


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["get"],
        ["get", "t"],
        ["get", "t", "r", "--versions", "many"],
        ["get", "t", "r", "--nonsense"],
        ["put", "t", "r"],
        ["put", "t", "r", "f:a"],
        ["put", "t", r"r\q", "f:a=1"],
        ["increment", "t", "r", "f:n", "many"],
        ["scan", "t", "--limit", "-1"],
    ],
)
def test_a_usage_error_is_reported_without_connecting(console: Console, words: Sequence[str]) -> None:
    assert console.run(*words) == 2
    assert console.out == ""
    assert console.err.startswith("rowlock: ")
    assert len(console.err.splitlines()) == 1
    assert not console.connected


def test_a_usage_error_points_to_the_help_of_its_command(console: Console) -> None:
    assert console.run("append", "t", "r", "f:a") == 2
    assert console.err == "rowlock: Missing argument 'SUFFIX'. Try 'rowlock append --help'.\n"
    assert console.run("increment", "t", "r", "f:n", "many") == 2
    assert console.err.endswith(". Try 'rowlock increment --help'.\n")
    assert console.run("create", "t", "--split-at") == 2
    assert console.err == "rowlock: Option '--split-at' requires an argument. Try 'rowlock create --help'.\n"
    assert console.run("nonsense") == 2
    assert console.err.endswith("Try 'rowlock --help'.\n")


def test_a_negative_key_is_not_an_unknown_option_without_advice(console: Console) -> None:
    assert console.run("put", "t", "-5", "f:a=1") == 2
    assert console.err == (
        "rowlock: No such option: -5; write -- before a key or value that begins with '-', as in -- -5. "
        "Try 'rowlock put --help'.\n"
    )
    assert console.run("put", "t", "--", "-5", "f:a=1") == 0
    assert console.run("put", "t", "-x", "f:a=1") == 2
    assert console.err == "rowlock: No such option: -x. Try 'rowlock put --help'.\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["put", "t", "r", "f:a=1", "--timestamp", "abc"], "'--timestamp': 'abc' is not an integer"),
        (["get", "t", "r", "--timestamp", "1.5"], "'--timestamp': '1.5' is not an integer"),
        (["delete", "t", "r", "--timestamp", r"\q"], r"'--timestamp': '\q' is not an integer"),
        (["increment", "t", "r", "f:n", "abc"], "'AMOUNT': 'abc' is not an integer"),
        (["get", "t", "r", "--versions", "0"], "'--versions': 0 is less than 1"),
        (["scan", "t", "--limit", "-1"], "'--limit': -1 is less than 0"),
        (["tables", "--timeout", "abc"], "'--timeout': 'abc' is not a number of seconds"),
        (["tables", "--timeout", "0"], "'--timeout': '0' is not more than 0 and at most 1e+09 seconds"),
        (["tables", "--timeout", "-5"], "'--timeout': '-5' is not more than 0 and at most 1e+09 seconds"),
        (["tables", "--timeout", "nan"], "'--timeout': 'nan' is not more than 0 and at most 1e+09 seconds"),
        (["tables", "--timeout", "inf"], "'--timeout': 'inf' is not more than 0 and at most 1e+09 seconds"),
    ],
)
def test_an_invalid_number_is_reported_with_its_option(console: Console, words: Sequence[str], message: str) -> None:
    assert console.run(*words) == 2
    assert f"Invalid value for {message}. Try 'rowlock {words[0]} --help'.\n" in console.err
    assert not console.connected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["scan", "t", "--start", "Z", "--stop", r"A\x00"],
            r"--stop 'A\x00' sorts before --start 'Z': give the smaller key as --start; "
            "for descending order add --reverse",
        ),
        (
            ["count", "t", "--start", "Z", "--stop", "A"],
            "--stop 'A' sorts before --start 'Z': give the smaller key as --start",
        ),
        (
            ["count", "t", "--prefix", "a", "--start", "b"],
            "--prefix excludes --start and --stop: give one or the other",
        ),
    ],
)
def test_an_invalid_row_range_is_reported_with_the_names_of_the_options(
    console: Console, words: Sequence[str], message: str
) -> None:
    assert console.run(*words) == 2
    assert console.err == f"rowlock: {message}\n"


def test_typed_bounds_are_compared_as_keys_and_reported_with_the_names_of_the_options() -> None:
    mapping = Mapping("id INT :key ordered, n INT f:n")
    layout = TypedLayout(cast("TypedTable[dict[str, Any]]", SimpleNamespace(mapping=mapping)))
    assert layout.bounds("9", "10", None) == ((9,), (10,), None)
    with pytest.raises(
        ArgumentError, match=r"^--stop '9' sorts before --start '10': give the smaller key as --start!$"
    ):
        layout.bounds("10", "9", None, "!")


def test_an_error_of_the_server_is_one_line(console: Console) -> None:
    console.client.answers["row"] = TableNotFoundError("there is no table\n'nosuch'", table="nosuch")
    assert console.run("get", "nosuch", "r") == 2
    assert (console.out, console.err) == ("", "rowlock: there is no table 'nosuch'\n")


def test_an_import_in_doubt_says_what_to_do(console: Console, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,n\na,1\n")
    console.client.answers["put_arrow"] = BulkError("rows 0 to 9 may or may not have been written: lost.", table="t")
    assert console.run("import", "t", str(path), "-m", "id STRING :key, n INT f:n", "--json") == 2
    assert json.loads(console.err) == {
        "error": "BulkError",
        "message": "rows 0 to 9 may or may not have been written: lost. To write all rows, repeat the import; it "
        "writes the same rows again",
    }


def test_an_error_is_json_when_results_are(console: Console) -> None:
    console.client.answers["row"] = TableNotFoundError("there is no table 'nosuch'", table="nosuch")
    assert console.run("get", "nosuch", "r", "--json") == 2
    assert json.loads(console.err) == {"error": "TableNotFoundError", "message": "there is no table 'nosuch'"}


def test_a_missing_server_is_one_line(console: Console) -> None:
    console.connection_error = ServerUnavailableError("no server answers at host:1")
    assert console.run("tables", "--server", "host:1") == 2
    assert console.err == "rowlock: no server answers at host:1\n"


def test_a_bug_is_one_line_that_asks_to_be_reported(console: Console) -> None:
    console.client.answers["row"] = KeyError("x")
    assert console.run("get", "t", "r") == 2
    assert console.err == "rowlock: unexpected KeyError: 'x'. Please report this bug.\n"


def test_a_lack_of_memory_is_no_bug(console: Console) -> None:
    console.client.answers["row"] = MemoryError("malloc of size 1 failed")
    assert console.run("get", "t", "r") == 2
    assert console.err == "rowlock: the command lacks memory (malloc of size 1 failed); give it more, and repeat it\n"


def test_an_interrupt_prints_no_traceback(console: Console) -> None:
    console.client.answers["row"] = KeyboardInterrupt()
    assert console.run("get", "t", "r") == 130
    assert console.err == "interrupted\n"


IN_DOUBT = "interrupted; the change may or may not have been applied: check before you retry\n"


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("put", ["put", "t", "r", "f:a=1"]),
        ("delete", ["delete", "t", "r"]),
        ("increment", ["increment", "t", "r", "f:n"]),
        ("append", ["append", "t", "r", "f:a", "x"]),
        ("call", ["call", "t", "r", "sell"]),
        ("check_and_put", ["check-and-put", "t", "r", "f:a", "f:a=1", "--absent"]),
        ("create_table", ["create", "t", "f"]),
        ("drop_table", ["drop", "t", "--yes"]),
        ("truncate_table", ["truncate", "t", "--yes"]),
    ],
)
def test_an_interrupted_change_is_in_doubt(console: Console, method: str, words: list[str]) -> None:
    console.client.answers[method] = KeyboardInterrupt()
    assert console.run(*words) == 130
    assert console.err == IN_DOUBT
    console.connection_error = KeyboardInterrupt()
    assert console.run(*words) == 130
    assert console.err == "interrupted\n"


def test_a_question_that_is_interrupted_leaves_nothing_in_doubt(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> str:
        raise KeyboardInterrupt

    console.attach_terminal()
    console.client.answers["tables"] = ["t"]
    monkeypatch.setattr(console.stdin, "readline", interrupted)
    for words in (["drop", "t"], ["alter", "t", "--drop", "f"]):
        console.client.answers["describe"] = TableDescription("t", 1, {"f": Family()}, "fsync")
        assert console.run(*words) == 130
        assert console.err.endswith("interrupted\n")


def test_a_broken_pipe_prints_nothing(console: Console) -> None:
    console.client.answers["row"] = BrokenPipeError(errno.EPIPE, "Broken pipe")
    assert console.run("get", "t", "r") == 141
    assert console.err == ""


def test_the_server_option_overrides_the_default(console: Console) -> None:
    console.client.answers["tables"] = []
    assert console.run("tables") == 0
    assert console.run("tables", "--server", "host:1", "--timeout", "3") == 0
    assert console.connected == [("default:7460", 60.0), ("host:1", 3.0)]


def test_shared_options_may_precede_the_command_and_those_after_it_override_them(console: Console) -> None:
    console.client.answers["tables"] = ["a"]
    assert console.run("--server", "host:1", "--timeout", "3", "--json", "tables") == 0
    assert console.records == [{"table": "a"}]
    assert console.run("--server", "host:1", "--timeout", "3", "tables", "--server", "other:2", "--timeout", "4") == 0
    assert console.out == "a\n"
    assert console.run("--server", "host:1", "drop", "t", "--yes") == 0
    assert console.connected == [("host:1", 3.0), ("other:2", 4.0), ("host:1", 60.0)]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help_and_supports_json(
    console: Console, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert console.run(name, "--help") == 0
    shown = capsys.readouterr().out
    assert "--json" in shown
    assert "--server" in shown
    assert '{"' in shown or name == "shell", "the shape of its JSON is not documented"


def test_help_shows_required_arguments_without_braces(console: Console, capsys: pytest.CaptureFixture[str]) -> None:
    assert console.run("append", "--help") == 0
    assert capsys.readouterr().out.startswith("Usage: rowlock append [OPTIONS] TABLE ROW COLUMN SUFFIX\n")


@pytest.mark.parametrize("name", ["count", "export"])
def test_help_refers_to_the_explanation_of_conditions(
    console: Console, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert console.run(name, "--help") == 0
    assert "see 'rowlock scan --help'" in " ".join(capsys.readouterr().out.split())


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out
    for name in COMMANDS:
        assert f"  {name} " in shown


def test_the_help_has_the_first_sentence_of_each_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert " exists Exits with 0 if the row exists, with 1 if not. scan Shows" in shown
    assert "--server HOST:PORT" in shown


def test_a_command_that_does_not_exist_is_answered_with_those_that_are_like_it(console: Console) -> None:
    assert console.run("incremet", "t", "r", "f:n") == 2
    assert console.err == "rowlock: No such command 'incremet'. Did you mean 'increment'? Try 'rowlock --help'.\n"


def test_the_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("rowlock ")


def test_the_arguments_of_the_process_are_the_default(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["rowlock", "nonsense"])
    assert main() == 2
    assert "nonsense" in capsys.readouterr().err


def test_a_lease_that_is_too_long_is_reported_in_seconds(console: Console) -> None:
    console.client.answers["snapshot"] = LimitExceededError(
        "a lease", limit="snapshot_lease_ms_max", limit_value=86_400_000
    )
    assert console.run("snapshot", "t", "--lease", "999999999") == 2
    assert console.err.startswith(
        "rowlock: --lease 999999999 is longer than the server allows: at most 86400 seconds; each scan"
    )


def test_check_and_mutate_needs_a_change(console: Console) -> None:
    assert console.run("check-and-mutate", "t", "r", "--if", "f:n = 5") == 2
    assert console.err.startswith("rowlock: give at least one change: --put, --delete, ")
    assert not console.connected


@pytest.mark.parametrize("words", [["tables", "--server", ""], ["--server", " ", "tables"]])
def test_an_empty_server_is_not_the_default_one(console: Console, words: Sequence[str]) -> None:
    assert console.run(*words) == 2
    assert "Invalid value for '--server': it is empty; name a server" in console.err
    assert not console.connected
