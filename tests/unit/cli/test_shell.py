from __future__ import annotations

import io
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest
from rowlock.cli.shell import open_history
from rowlock.cli.words import words_of

from tests.unit.cli.recording import Console


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        ("get t r", ["get", "t", "r"]),
        (r"put t r\x00 f:a=\\", ["put", "t", r"r\x00", r"f:a=\\"]),
        ("put t 'a row' \"f:a=two words\"", ["put", "t", "a row", "f:a=two words"]),
        (r'get t "a \x22 row"', ["get", "t", r"a \x22 row"]),
        ("get t a#b ''", ["get", "t", "a#b", ""]),
    ],
)
def test_a_line_is_split_into_words_and_backslashes_are_literal(line: str, words: Sequence[str]) -> None:
    assert words_of(line) == words


def test_a_missing_closing_quote_is_refused() -> None:
    with pytest.raises(ValueError, match="the quote ' is not closed"):
        words_of("get t 'r")


def test_a_script_runs_line_by_line_over_one_connection(console: Console) -> None:
    console.client.answers["tables"] = ["t"]
    console.client.answers["increment"] = 5
    console.stdin = io.StringIO("# first\n\ntables\nincrement t r f:n\nexit\ntables\n")
    assert console.run("shell", "--server", "host:1") == 0
    assert console.out == "t\n5\n"
    assert console.connected == [("host:1", 60.0)]


def test_the_options_of_the_shell_apply_to_every_line(console: Console) -> None:
    console.client.answers["tables"] = ["t"]
    console.stdin = io.StringIO("tables\n")
    assert console.run("shell", "--json", "--timeout", "3") == 0
    assert console.records == [{"table": "t"}]
    assert console.connected == [("default:7460", 3.0)]


@pytest.mark.parametrize("line", ["nonsense", "get", "get t 'r", "shell"])
def test_a_script_stops_at_the_first_line_that_fails(console: Console, line: str) -> None:
    console.client.answers["tables"] = ["t"]
    console.stdin = io.StringIO(f"# comment\n{line}\ntables\n")
    assert console.run("shell") == 2
    assert console.out == ""
    assert console.err.startswith("rowlock: ")
    last = "line 2 of standard input ended with exit code 2; the lines after it were not run"
    assert console.err.splitlines()[1:] == [last]


def test_a_script_ends_with_the_exit_code_of_a_failed_condition(console: Console) -> None:
    from rowlock.checks import CheckResult

    console.client.answers["check_and_put"] = CheckResult(applied=False, decode=bytes, stored={b"f:a": None})
    console.stdin = io.StringIO("check-and-put t r f:a f:a=1 --expected 5\ntables\n")
    assert console.run("shell") == 1


def test_only_its_owner_can_read_the_history_file(tmp_path: Path) -> None:
    path = tmp_path / "state" / "rowlock" / "history"
    open_history(str(path)).append_string("get t r")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(open_history(str(path)).load_history_strings()) == ["get t r"]


def test_a_history_without_a_file_is_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (None, str(tmp_path / "file" / "history")):
        history = open_history(path)
        history.append_string("get t r")
        assert history.get_strings() == ["get t r"]
