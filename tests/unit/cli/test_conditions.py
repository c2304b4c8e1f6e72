from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import rowlock
from rowlock import Filter, Mapping, column
from rowlock._core.typed_filters import TypedColumn
from rowlock._core.typed_rows import RowCodec
from rowlock._transport.servers import Servers
from rowlock.cli.arguments import ArgumentError
from rowlock.cli.conditions import where, where_typed

if TYPE_CHECKING:
    from rowlock import TypedTable

MAPPING = Mapping("id STRING :key, dest STRING i:dest, delay INT i:delay, `dep time` INT i:t, at TIMESTAMP :timestamp")
CODEC = RowCodec(MAPPING)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f:a=5", column("f:a") == b"5"),
        ("f:a = 5", column("f:a") == b"5"),
        ("f:a=''", column("f:a") == b""),
        ('f:a > "" ', column("f:a") > b""),
        ("f:a as string != ''", column("f:a", "string") != ""),
        (r"f:a = \x20", column("f:a") == b" "),
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
        ("f:a AS Int > 15", column("f:a", "int") > 15),
        ("f:a As BIGINT Text <= 15", column("f:a", "bigint", "text") <= 15),
        ("f:a IS Absent", column("f:a").is_absent()),
        ("f:A = X", column("f:A") == b"X"),
        (r"f:a\x20b = c d", column(b"f:a b") == b"c d"),
        ("f:a = rock and roll", column("f:a") == b"rock and roll"),
        ("f:a = 'tis the season", column("f:a") == b"'tis the season"),
        ("f:a = now or at 12:30", column("f:a") == b"now or at 12:30"),
        (r"f:a = \x27quoted\x27", column("f:a") == b"'quoted'"),
        (r"f:a = x\x20or f:b = y", column("f:a") == b"x or f:b = y"),
    ],
)
def test_a_condition_becomes_the_expected_filter(text: str, expected: Filter) -> None:
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
def test_an_invalid_condition_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError):
        where([text])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f:a sa int > 15", r"on the column 'f:a sa int'.* write ' ' as \\x20"),
        ("f:a as int txt > 15", r"on the column 'f:a as int txt'"),
        ("not f:a = 5", "without parentheses, 'or' and 'not'"),
        ("(f:a = 5)", r"on the column '\(f:a'.* write '\(' as \\x28"),
        ("f:a is absent or f:b = 5", "without parentheses, 'or' and 'not'"),
        ("f:a = 'IAH'", r"is in quotes.* write \\x27"),
        ('f:a as string = "IAH" ', r"is in quotes.* write \\x22"),
        ("f:a = IAH or f:b as int > 15", r"looks like two conditions.*\\x20or\\x20"),
        ("f:a = IAH AND f:b is present", r"looks like two conditions.*\\x20AND\\x20"),
        ("f:a = IAH or (f:b=5)", "looks like two conditions"),
        ("f:a != IAH and b > 5", "looks like two conditions"),
        ("f:a ~ IAH && f:b > 5", r"looks like two conditions.*\\x20&&\\x20"),
    ],
)
def test_an_ambiguous_condition_is_refused(text: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        where([text])


@pytest.mark.parametrize("text", ["f:a=", "f:a = ", "f:a > ", "f:a as int > ", "f:a as string >=  ", "f:a !=\t"])
def test_a_missing_value_is_not_an_empty_one(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"has no value after [!<>=]+: write '' for an empty value"):
        where([text])


def test_an_empty_value_is_not_a_number() -> None:
    with pytest.raises(ArgumentError, match="'' is not a number"):
        where(["f:a as int > ''"])


def test_an_error_shows_the_condition_as_it_was_typed() -> None:
    with pytest.raises(ArgumentError) as caught:
        where([r"f:\x00 \x01 = 5"])
    assert r"'f:\x00 \x01 = 5' would be" in str(caught.value)


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ValueError, match="colour"):
        where(["f:a as colour = 1"])


@pytest.mark.parametrize("text", ["f:a==5", "f:a == 5", "f:a <> 5", "f:a => 5", "f:a =< 5", "f:a >> 5", "f:a <== 5"])
def test_an_unknown_operator_is_not_part_of_the_value(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"operators are = != < <= > >=; in a value .* write it as .x"):
        where([text])
    found = where([r"f:a=\x3d5"])
    assert found is not None
    assert found.message == (column("f:a") == b"=5").message


def typed_where(text: str) -> Filter:
    table = SimpleNamespace(mapping=MAPPING, column=lambda name: TypedColumn(CODEC.cell(name)))
    found = where_typed([text], cast("TypedTable[Any]", table), lambda name, text: text)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "text",
    [
        "dest != IAH and delay > 5",
        "dest != IAH AND delay>5",
        "dest != IAH Or (delay is absent)",
        "dest != IAH and(delay >= 5)",
        "dest != IAH and not delay = 5",
        "dest != IAH or dep time < 5",
        "dest != IAH and at < 2013-01-31",
        "dest != IAH and dealy > 5",
        "dest != IAH and rock and delay > 5",
        "dest != IAH and i:gate = 5",
        "dest != IAH and delay is present and dep time > 5",
        "dest ~ IAH and delay > 5",
        "i:gate != IAH and dep time > 5",
    ],
)
def test_two_conditions_by_a_mapping_are_not_one_value(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"looks like two conditions.*give each condition separately"):
        typed_where(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("dest != rock and roll", "rock and roll"),
        ("dest != delay and dest", "delay and dest"),
        ("dest != salt and that is absent-minded", "salt and that is absent-minded"),
        ("dest != sand > 5", "sand > 5"),
        (r"dest != x\x20and delay > 5", r"x\x20and delay > 5"),
    ],
)
def test_a_value_may_have_the_word_and(text: str, value: str) -> None:
    assert typed_where(text).message == (TypedColumn(CODEC.cell("dest")) != value).message


@pytest.mark.parametrize("text", ["c = UA", "c ~ U", "c is absent"])
def test_a_condition_on_a_part_of_the_key_says_what_to_use(text: str) -> None:
    table = rowlock.Client(Servers(("127.0.0.1:1",)), 0.01).table("t", mapping="c STRING :key, n INT f:n")
    with pytest.raises(ArgumentError, match=r"'c' is part of the key, .* by --start, --stop or --prefix"):
        where_typed([text], table, lambda name, value: value)
