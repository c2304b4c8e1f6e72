"""Curves of growth say how steep they are, and where they bend."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.growth import run
from bench.growth.curves import Curve, bend_of, markdown, sentence
from bench.growth.pictures import draw

_SIZES = (10, 100, 1000, 10_000)


def _curve(*values: float, sizes: tuple[int, ...] = _SIZES) -> Curve:
    return Curve("gets", "calls/s", "rows", sizes, values)


def test_the_exponent_is_how_steeply_a_step_grows() -> None:
    assert _curve(5, 5, 50, 5).exponents == pytest.approx([0, 1, -1])


def test_a_straight_line_bends_nowhere() -> None:
    assert bend_of(_curve(1000, 500, 250, 125)) is None
    assert bend_of(_curve(7, 9, sizes=(1, 2))) is None


def test_a_curve_bends_where_its_exponent_changes_most() -> None:
    bend = bend_of(_curve(100, 100, 100, 10))
    assert bend is not None
    assert bend.size == 1000
    assert [bend.before, bend.after] == pytest.approx([0, -1])
    assert sentence(_curve(100, 100, 100, 10)) == (
        "× 0.1 from 10 to 10,000 rows; bends at 1,000: exponent 0.00 before, -1.00 after"
    )


def test_a_table_has_a_line_for_each_quantity() -> None:
    lines = markdown([_curve(1, 1, 1, 1), _curve(1234.5, 0.5, 1, 1)], [0, 0.125, 1, 2]).splitlines()
    assert lines[0] == "| rows | 10 | 100 | 1,000 | 10,000 | growth |"
    assert lines[2] == "| gets, calls/s | 1 | 1 | 1 | 1 | × 1 from 10 to 10,000 rows; no bend |"
    assert lines[4] == "| others' cores | 0.00 | 0.12 | 1.00 | 2.00 | |"
    assert lines[3].startswith("| gets, calls/s | 1,234 | 0.5 | 1 | 1 | × 0.00081")


def test_curves_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="4 sizes with 1 values"):
        _curve(1)
    with pytest.raises(ValueError, match="sizes ascend"):
        _curve(1, 1, sizes=(2, 2))
    with pytest.raises(ValueError, match="curves of the same sizes"):
        markdown([_curve(1, 1, 1, 1), _curve(1, 1, sizes=(1, 2))], [0])


def test_the_same_curves_make_the_same_picture(tmp_path: Path) -> None:
    for name, last in (("a", 4), ("b", 4), ("c", 5)):
        draw([_curve(1, 2, 3, last)], "Rates", tmp_path / name)
    first, again, other = ((tmp_path / name).read_bytes() for name in "abc")
    assert b"<svg" in first
    assert first == again != other


def test_other_sizes_need_another_folder(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--rows", "10"], ["--rows", "10,5", "--output", "x"], ["--seconds", "0"]):
        with pytest.raises(SystemExit):
            run.arguments(words)
    assert "needs --output" in capsys.readouterr().err
    sizes = run.sizes_of(run.arguments(["--large", "--many-clients"]))
    assert (sizes.rows[-1], sizes.clients[-1]) == (10_000_000, 256)
    assert run.sizes_of(run.arguments([])).rows[-1] == 1_000_000
