from __future__ import annotations

from collections.abc import Sequence

import pytest
from rowlock import InvalidArgumentError
from rowlock.region_info import RegionInfo
from rowlock.schema import Family, Region, TableDescription

from tests.unit.cli.recording import Console

LOWER, UPPER = Region(7, "t", b"", b"m\x00", "host:1"), Region(8, "t", b"m\x00", b"", "host:1")
LISTED = [
    RegionInfo(
        *(7, "t", b"", b"m\x00", "host:1"),
        store_file_count=3,
        store_file_bytes=5 << 20,
        store_file_cells=1000,
        memstore_bytes=2048,
        open_read_count=1,
    ),
    RegionInfo(*(8, "t", b"m\x00", b"", "host:1"), state="damaged", error="file 5 has a wrong checksum"),
]


def test_regions_are_shown_with_their_rows_and_sizes(console: Console) -> None:
    console.client.answers["regions"] = LISTED
    assert console.run("regions", "t") == 0
    assert console.client.calls == [("regions", ("t",), {"start": None, "stop": None})]
    assert console.out.splitlines() == [
        "7\t\tm\\x00\t5.0 MiB\t3\t2.0 KiB\t1\topen",
        "8\tm\\x00\t\t\t\t\t\tdamaged: file 5 has a wrong checksum",
    ]
    console.attach_terminal()
    assert console.run("regions", "t", "--start", r"\x01", "--stop", "z") == 0
    assert console.client.calls == [("regions", ("t",), {"start": b"\x01", "stop": b"z"})]
    for word in ("start", "stop", "files", "size", "memory", "reads", "5.0 MiB"):
        assert word in console.out


def test_regions_are_json_with_exact_sizes(console: Console) -> None:
    console.client.answers["regions"] = LISTED
    assert console.run("regions", "t", "--json") == 0
    assert console.records == [
        {
            "region_id": 7,
            "table": "t",
            "start": "",
            "stop": "m\\x00",
            "server": "host:1",
            "state": "open",
            "error": "",
            "store_file_count": 3,
            "store_file_bytes": 5 << 20,
            "store_file_cells": 1000,
            "memstore_bytes": 2048,
            "open_read_count": 1,
        },
        {
            "region_id": 8,
            "table": "t",
            "start": "m\\x00",
            "stop": "",
            "server": "host:1",
            "state": "damaged",
            "error": "file 5 has a wrong checksum",
            **dict.fromkeys(("store_file_count", "store_file_bytes", "store_file_cells", "memstore_bytes"), 0),
            "open_read_count": 0,
        },
    ]


@pytest.mark.parametrize(
    ("words", "call"),
    [
        (["t"], (("t", None), {"region": None})),
        (["t", r"m\x00"], (("t", b"m\x00"), {"region": None})),
        (["t", "--region", "7"], (("t", None), {"region": 7})),
        (["t", "m", "--region", "7"], (("t", b"m"), {"region": 7})),
    ],
)
def test_split_shows_both_regions(
    console: Console, words: Sequence[str], call: tuple[tuple[object, ...], dict[str, object]]
) -> None:
    console.client.answers["split"] = (LOWER, UPPER)
    assert console.run("split", *words) == 0
    assert console.client.calls == [("split", *call)]
    assert console.out == "7\t\tm\\x00\n8\tm\\x00\t\n"
    assert console.run("split", *words, "--json") == 0
    assert [record["region_id"] for record in console.records] == [7, 8]


def test_merge_names_the_border_that_goes(console: Console) -> None:
    console.client.answers["merge"] = Region(9, "t", b"", b"", "host:1")
    assert console.run("merge", "t", r"m\x00") == 0
    assert console.client.calls == [("merge", ("t", b"m\x00"), {})]
    assert console.out == "9\t\t\n"
    assert console.run("merge", "t") == 2


def test_a_refusal_is_one_line(console: Console) -> None:
    console.client.answers["split"] = InvalidArgumentError("row 'm' is the first row of region 8 already")
    assert console.run("split", "t", "m") == 2
    assert console.err == "rowlock: row 'm' is the first row of region 8 already\n"
    assert console.run("split", "t", "--region", "0") == 2
    assert "0 is less than 1" in console.err


def test_create_takes_the_first_rows_of_regions(console: Console) -> None:
    console.client.answers["describe"] = TableDescription("t", 1, {"f": Family()}, "fsync")
    assert console.run("create", "t", "f", "--split-at", r"m\xff", "--split-at", "c") == 0
    assert console.client.calls[0][2]["splits"] == [b"m\xff", b"c"]


@pytest.mark.parametrize("command", [["split", "t", "m"], ["merge", "t", "m"]])
def test_an_interrupted_split_or_merge_is_in_doubt(console: Console, command: Sequence[str]) -> None:
    console.client.answers[command[0]] = KeyboardInterrupt()
    assert console.run(*command) == 130
    assert "may or may not have been applied" in console.err
