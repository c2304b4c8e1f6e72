from __future__ import annotations

import pytest
from rowlock import Filter, column
from rowlock.cli.arguments import ArgumentError
from rowlock.cli.conditions import where


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f:a=5", column("f:a") == b"5"),
        ("f:a = 5", column("f:a") == b"5"),
        ("f:a=", column("f:a") == b""),
        ("f:a=x=y", column("f:a") == b"x=y"),
        ("f:a!=5", column("f:a") != b"5"),
        ("f:a<5", column("f:a") < b"5"),
        ("f:a <= 5", column("f:a") <= b"5"),
        ("f:a>5", column("f:a") > b"5"),
        ("f:a>=5", column("f:a") >= b"5"),
        (r"f:\x3d=\x00", column(b"f:=") == b"\x00"),
        ("f:a as int > -15", column("f:a", "int") > -15),
        ("f:a as bigint text <= 15", column("f:a", "bigint", "text") <= 15),
        ("f:a as double = 1.5", column("f:a", "double") == 1.5),
        ("f:a as boolean = true", column("f:a", "boolean") == True),  # noqa: E712  # it makes a filter
        ("f:a as string = Zürich", column("f:a", "string") == "Zürich"),
        ("f:a is absent", column("f:a").is_absent()),
        ("f:a is present", column("f:a").is_present()),
    ],
)
def test_a_condition_is_the_filter_that_it_reads_as(text: str, expected: Filter) -> None:
    found = where([text])
    assert found is not None
    assert found.message == expected.message


def test_all_conditions_must_hold() -> None:
    found = where(["f:a=1", "f:b is absent", "f:c>2"])
    assert found is not None
    assert found.message == ((column("f:a") == b"1") & column("f:b").is_absent() & (column("f:c") > b"2")).message
    assert where([]) is None
    assert where(None) is None


@pytest.mark.parametrize(
    "text", ["", "f:a", "f:a is there", "=5", "a=5", "f:a as int > x", "f:a as double > x", "f:a as boolean = yes"]
)
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError):
        where([text])


def test_a_type_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="colour"):
        where(["f:a as colour = 1"])


@pytest.mark.parametrize("text", ["f:a==5", "f:a == 5", "f:a <> 5", "f:a => 5", "f:a =< 5", "f:a >> 5", "f:a <== 5"])
def test_an_operator_of_another_language_is_not_taken_for_a_part_of_the_value(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"operators are = != < <= > >=, and a value .* is written with .x"):
        where([text])
    found = where([r"f:a=\x3d5"])
    assert found is not None
    assert found.message == (column("f:a") == b"=5").message
