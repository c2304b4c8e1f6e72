from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

import pytest
from rowlock.cli.output import Output, Record, ShownRow

from tests.unit.cli.recording import TerminalStream


def test_rows_are_shown_while_they_come() -> None:
    stdout = io.StringIO()
    output = Output(stdout, io.StringIO(), json_lines=True)
    shown = []

    def rows() -> Iterator[ShownRow]:
        for number in range(3):
            shown.append(stdout.getvalue().count("\n"))
            yield ShownRow(str(number), [])

    output.rows(rows())
    assert shown == [0, 1, 2]


def test_long_listings_are_shown_in_blocks() -> None:
    stdout = io.StringIO()
    taken = []

    def lines() -> Iterator[tuple[Record, Sequence[str]]]:
        for number in range(450):
            taken.append(stdout.getvalue().count("\n"))
            yield {}, (str(number),)

    count = Output(stdout, io.StringIO(), json_lines=False).listing(("n",), lines())
    assert count == 450
    assert stdout.getvalue() == "".join(f"{number}\n" for number in range(450))
    # Memory is bounded: the first lines were written before the last ones were generated.
    assert taken[-1] == 400


def test_a_setting_that_ends_in_a_blank_keeps_it() -> None:
    for stdout, expected in (
        (TerminalStream(), "\nregion 7\n  start\n  stop   a \n"),
        (io.StringIO(), "region 7 start\t\nregion 7 stop\ta \n"),
    ):
        Output(stdout, io.StringIO(), json_lines=False).settings([("region 7", {"start": "", "stop": "a "})])
        assert stdout.getvalue() == expected


def test_progress_is_shown_on_terminals_only() -> None:
    piped, terminal = io.StringIO(), TerminalStream()
    for stderr in (piped, terminal):
        with Output(io.StringIO(), stderr, json_lines=False).progress("loading", 10, "rows") as progress:
            progress.advance(5)
    assert piped.getvalue() == ""
    assert "loading" in terminal.getvalue()
    assert "rows" in terminal.getvalue()


@pytest.mark.parametrize(
    ("json_lines", "expected"), [(False, "rowlock: a b\n"), (True, '{"error": "E", "message": "a b"}\n')]
)
def test_an_error_is_one_line(json_lines: bool, expected: str) -> None:
    stderr = io.StringIO()
    Output(io.StringIO(), stderr, json_lines=json_lines).error("a\n  b", kind="E")
    assert stderr.getvalue() == expected


def test_a_terminal_shows_long_values_in_full() -> None:
    terminal = TerminalStream()
    output = Output(terminal, terminal, json_lines=False)
    value = "".join(chr(ord("a") + number % 26) for number in range(300))
    output.listing(("row", "value"), [({}, ("r", value))])
    shown = "".join(line.removeprefix("  r").strip() for line in terminal.getvalue().splitlines()[3:])
    assert shown == value


def test_a_column_to_copy_from_is_never_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    terminal = TerminalStream()
    session_id = "snapshot-8349e09ec36bfa57b9d272c7472b0c27"
    fields = (session_id, "root@vm pid 8113 nightly.py", "snapshot without a session", "snapshot of flights")
    heading = ("id", "owner", "purpose", "holds")
    Output(terminal, io.StringIO(), json_lines=False).listing(heading, [({}, fields)], whole=("id",))
    assert session_id in terminal.getvalue()
