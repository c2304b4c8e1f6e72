from __future__ import annotations

import pytest
from rowlock.cli import arguments
from rowlock.cli.arguments import ArgumentError
from rowlock.schema import Family


def test_a_column_is_a_family_a_colon_and_a_qualifier() -> None:
    assert arguments.column("info:delay") == b"info:delay"
    assert arguments.column("info:") == b"info:"
    assert arguments.column("info:a:b") == b"info:a:b"
    assert arguments.column(r"info:\x00\xff") == b"info:\x00\xff"


@pytest.mark.parametrize("text", ["", "info", ":delay", r"info:\x0"])
def test_an_invalid_column_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError):
        arguments.column(text)


def test_columns_to_read_may_be_whole_families() -> None:
    assert arguments.columns(["info", "stats:n"]) == [b"info", b"stats:n"]
    assert arguments.columns([]) is None
    assert arguments.columns(None) is None


@pytest.mark.parametrize("text", ["", ":q"])
def test_columns_to_read_need_a_family(text: str) -> None:
    with pytest.raises(ArgumentError, match="has no family"):
        arguments.columns([text])


def test_a_cell_ends_its_column_at_the_first_equals_sign() -> None:
    assert arguments.assignments(["f:a=1", "f:b=", "f:c=x=y", r"f:\x3d=\x00"]) == [
        ("f:a", "1"),
        ("f:b", ""),
        ("f:c", "x=y"),
        (r"f:\x3d", r"\x00"),
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["f:a"], "has no value"),
        (["f:a=1", r"f:\x61=2"], "twice"),
        ([r"f:a=\q"], "bad escape"),
    ],
)
def test_an_invalid_cell_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        arguments.assignments(words)


def test_a_time_range_may_be_open_at_either_end() -> None:
    assert arguments.time_range(None) is None
    assert arguments.time_range("100..200") == (100, 200)
    assert arguments.time_range("..200") == (0, 200)
    assert arguments.time_range("100..") == (100, None)


@pytest.mark.parametrize("text", ["", "100", "100-200", "a..b", "-1..5", "200..100"])
def test_an_invalid_time_range_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError):
        arguments.time_range(text)


def test_a_family_without_settings_leaves_them_to_the_client() -> None:
    assert arguments.family("info") == ("info", {})


def test_a_family_has_settings_with_units() -> None:
    name, settings = arguments.family(
        "stats,versions=3,min-versions=1,time-to-live=7d,block=128KiB,compression=lz4,bloom=none"
    )
    assert name == "stats"
    assert settings == {
        "versions": 3,
        "min_versions": 1,
        "time_to_live_ms": 7 * 24 * 3600 * 1000,
        "block_bytes": 128 * 1024,
        "compression": "lz4",
        "bloom_filter": False,
    }


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("500ms", 500), ("30s", 30_000), ("15m", 900_000), ("12h", 43_200_000), ("forever", 0)]
)
def test_time_to_live_has_a_unit(text: str, milliseconds: int) -> None:
    assert arguments.family(f"f,time-to-live={text}") == ("f", {"time_to_live_ms": milliseconds})


@pytest.mark.parametrize(
    "text",
    [
        "f,versions",
        "f,versions=many",
        "f,versions=-1",
        "f,time-to-live=10",
        "f,block=1GB",
        "f,compression=gzip",
        "f,bloom=yes",
        "f,colour=red",
        "f,versions=1,versions=2",
        r"f\xff",
        r"f\q",
    ],
)
def test_an_invalid_family_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError):
        arguments.family(text)


@pytest.mark.parametrize(
    ("created", "text"),
    [
        (Family(), "versions=1,min-versions=0,time-to-live=forever,block=128KiB,compression=zstd,bloom=row"),
        (
            Family(
                versions=3,
                min_versions=1,
                time_to_live_ms=90_000,
                block_bytes=1 << 20,
                compression="lz4",
                bloom_filter=False,
            ),
            "versions=3,min-versions=1,time-to-live=90s,block=1MiB,compression=lz4,bloom=none",
        ),
        (
            Family(time_to_live_ms=86_400_001, block_bytes=5000),
            "versions=1,min-versions=0,time-to-live=86400001ms,block=5000,compression=zstd,bloom=row",
        ),
        (
            Family(time_to_live_ms=48 * 3_600_000),
            "versions=1,min-versions=0,time-to-live=2d,block=128KiB,compression=zstd,bloom=row",
        ),
    ],
)
def test_settings_of_a_family_are_formatted_as_they_are_parsed(created: Family, text: str) -> None:
    assert ",".join(f"{name}={value}" for name, value in arguments.settings_of(created).items()) == text
    assert Family(**arguments.family(f"f,{text}")[1]) == created
