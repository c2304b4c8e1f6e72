"""The demo's output collects the differences."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from bench.demo.output import Output


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def output(stream: io.StringIO) -> Output:
    return Output(Console(file=stream, width=120))


def test_comparisons_that_pass_are_counted(output: Output, stream: io.StringIO) -> None:
    assert output.compare("sums agree", 3, 3)
    assert output.passed("so does this")
    output.close(12.3)
    assert output.differences == []
    assert "✓ sums agree" in stream.getvalue()
    assert "All 2 comparisons passed, in 12 s." in stream.getvalue()


def test_a_difference_is_printed_with_both_values_and_collected(output: Output, stream: io.StringIO) -> None:
    assert output.compare("first", 1, 1)
    assert not output.compare("flights of UA", 3, 4)
    output.close(1)
    assert output.differences == ["flights of UA: found 3, expected 4"]
    assert "1 comparisons failed" in stream.getvalue()
    assert "All" not in stream.getvalue()


def test_the_headline_claims_nothing_after_a_difference(output: Output) -> None:
    output.passed("one")
    assert output.headline("5 flights") == "5 flights: no write lost, nothing counted twice"
    output.failed("two")
    assert output.headline("5 flights") == "5 flights: 1 of 2 comparisons failed"


def test_brackets_in_values_are_shown_as_they_are(output: Output, stream: io.StringIO) -> None:
    output.compare("rows of [bold]", ["[/red]"], [])
    output.passed("no [red]")
    assert "✗ rows of [bold]: found ['[/red]'], expected []" in stream.getvalue()
    assert "✓ no [red]" in stream.getvalue()


def test_a_long_value_is_cut(output: Output) -> None:
    output.compare("rows", "x" * 1000, "")
    assert len(output.differences[0]) < 300


def test_a_progress_bar_prints_nothing_lasting_outside_a_terminal(output: Output, stream: io.StringIO) -> None:
    with output.progress("loading", 10) as bar:
        bar.reach(10)
    output.line("loaded")
    assert stream.getvalue().strip() == "loaded"
