"""The demo's account remembers what differed."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from bench.demo.account import Account


@pytest.fixture
def output() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def account(output: io.StringIO) -> Account:
    return Account(Console(file=output, width=120))


def test_comparisons_that_hold_are_counted(account: Account, output: io.StringIO) -> None:
    assert account.compare("sums agree", 3, 3)
    assert account.hold("so does this")
    account.close(12.3)
    assert account.differences == []
    assert "✓ sums agree" in output.getvalue()
    assert "All 2 comparisons held, in 12 s." in output.getvalue()


def test_a_difference_is_said_with_both_values_and_remembered(account: Account, output: io.StringIO) -> None:
    assert account.compare("first", 1, 1)
    assert not account.compare("flights of UA", 3, 4)
    account.close(1)
    assert account.differences == ["flights of UA: found 3, expected 4"]
    assert "1 comparisons did not hold" in output.getvalue()
    assert "All" not in output.getvalue()


def test_brackets_in_values_are_shown_as_they_are(account: Account, output: io.StringIO) -> None:
    account.compare("rows of [bold]", ["[/red]"], [])
    account.hold("no [red]")
    assert "✗ rows of [bold]: found ['[/red]'], expected []" in output.getvalue()
    assert "✓ no [red]" in output.getvalue()


def test_a_long_value_is_cut(account: Account) -> None:
    account.compare("rows", "x" * 1000, "")
    assert len(account.differences[0]) < 300


def test_a_progress_bar_prints_nothing_lasting_outside_a_terminal(account: Account, output: io.StringIO) -> None:
    with account.progress("loading", 10) as bar:
        bar.reach(10)
    account.say("loaded")
    assert output.getvalue().strip() == "loaded"
