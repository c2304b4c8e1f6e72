from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from rowlock.schema import Family, FlushResult, Region, RegionStatistics, TableDescription

from tests.unit.cli.recording import Console

DESCRIPTION = TableDescription(
    name="t",
    table_id=1,
    families={"info": Family(), "stats": Family(versions=3, compression="lz4")},
    durability="fsync",
    regions=(RegionStatistics(Region(7, "t", b"", b"m\x00", "host:1"), 10, 2, 300, 40, 5, 6, 700),),
)
INFO = {
    "name": "info",
    "versions": 1,
    "min_versions": 0,
    "time_to_live_ms": 0,
    "block_bytes": 131072,
    "compression": "zstd",
    "bloom_filter": True,
}


def test_create_makes_the_families_with_their_settings(console: Console) -> None:
    console.client.answers["describe"] = DESCRIPTION
    assert console.run("create", "t", "info", "stats,versions=3,compression=lz4", "--durability", "os") == 0
    assert console.client.calls[0] == (
        "create_table",
        ("t", {"info": Family(), "stats": Family(versions=3, compression="lz4")}),
        {"if_not_exists": False, "durability": "os", "splits": [], "properties": {}},
    )
    assert console.out == ""


@pytest.mark.parametrize(
    ("families", "message"),
    [
        (["stats", "info", "info,versions=2"], "family 'info' is given twice"),
        (["info,versions=0"], "versions must be 1 to"),
        (["info,min-versions=2"], "min_versions"),
        ([], "give at least one FAMILY, or a --mapping"),
    ],
)
def test_create_refuses_invalid_families(console: Console, families: Sequence[str], message: str) -> None:
    assert console.run("create", "t", *families) == 2
    assert message in console.err
    assert not console.connected


def test_alter_refuses_a_family_that_is_given_twice(console: Console) -> None:
    console.client.answers["describe"] = DESCRIPTION
    assert console.run("alter", "t", "--set", "stats,versions=9", "--set", "stats,compression=zstd") == 2
    assert "family 'stats' is given twice" in console.err
    assert not console.client.calls


def test_alter_keeps_settings_that_are_not_given(console: Console) -> None:
    console.client.answers["describe"] = DESCRIPTION
    assert console.run("alter", "t", "--set", "stats,versions=5", "--set", "more") == 0
    assert console.client.calls[1] == (
        "alter_table",
        ("t",),
        {
            "set_families": {"stats": Family(versions=5, compression="lz4"), "more": Family()},
            "drop_families": [],
            "durability": None,
            "properties": {},
        },
    )


def test_properties_are_set_and_dropped(console: Console) -> None:
    console.client.answers["describe"] = DESCRIPTION
    setting = ("--property", "compaction.automatic=false", "--property", "x=a=b")
    assert console.run("create", "t", "info", *setting) == 0
    assert console.client.calls[0][2]["properties"] == {"compaction.automatic": "false", "x": "a=b"}
    assert console.run("alter", "t", *setting, "--drop-property", "y") == 0
    assert console.client.calls[1][2]["properties"] == {"compaction.automatic": "false", "x": "a=b", "y": None}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--property", "automatic"], "'automatic' is not NAME=VALUE, as in compaction.automatic=false"),
        (["--property", "=1"], "is not NAME=VALUE"),
        (["--property", "a=1", "--property", "a=2"], "property a is given twice"),
        (["--property", "a=1", "--drop-property", "a"], "property a is both set and dropped"),
    ],
)
def test_malformed_properties_are_refused(console: Console, options: Sequence[str], message: str) -> None:
    assert console.run("alter", "t", *options) == 2
    assert message in console.err
    assert not console.connected


def test_describe_shows_the_properties(console: Console) -> None:
    console.client.answers["describe"] = replace(DESCRIPTION, properties={"compaction.automatic": "false"})
    assert console.run("describe", "t") == 0
    assert console.out.splitlines()[2] == "compaction.automatic\tfalse"
    assert console.run("describe", "t", "--json") == 0
    assert console.records[0]["properties"] == {"compaction.automatic": "false"}


def test_alter_without_a_change_is_refused(console: Console) -> None:
    assert console.run("alter", "t") == 2
    assert "nothing to change" in console.err


@pytest.mark.parametrize("command", [["drop", "t"], ["truncate", "t"], ["alter", "t", "--drop", "info"]])
def test_commands_that_remove_rows_need_yes_without_a_terminal(console: Console, command: Sequence[str]) -> None:
    console.client.answers |= {"describe": DESCRIPTION, "tables": ["t"]}
    assert console.run(*command) == 2
    assert "give --yes" in console.err
    assert not {call[0] for call in console.client.calls} & {"drop_table", "truncate_table", "alter_table"}


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "no\n", "nonsense\n"])
def test_drop_changes_nothing_unless_the_answer_is_yes(console: Console, answer: str) -> None:
    console.attach_terminal()
    console.client.answers["tables"] = ["t"]
    console.stdin.write(answer)
    console.stdin.seek(0)
    assert console.run("drop", "t") == 2
    assert console.err == "Remove table t with all rows? [y/N] nothing was changed\n"
    assert console.client.calls == [("tables", (), {})]


@pytest.mark.parametrize("answer", ["y\n", "Yes\n"])
def test_drop_proceeds_when_the_answer_is_yes(console: Console, answer: str) -> None:
    console.attach_terminal()
    console.client.answers["tables"] = ["t"]
    console.stdin.write(answer)
    console.stdin.seek(0)
    assert console.run("drop", "t") == 0
    assert console.client.calls == [("tables", (), {}), ("drop_table", ("t",), {"force": False})]


@pytest.mark.parametrize("command", ["drop", "truncate"])
def test_a_missing_table_is_reported_before_the_question(console: Console, command: str) -> None:
    console.client.answers["tables"] = ["t"]
    assert console.run(command, "nope") != 0
    assert "there is no table 'nope'" in console.err
    assert "--yes" not in console.err


def test_a_missing_family_is_reported_before_the_question(console: Console) -> None:
    console.client.answers["describe"] = DESCRIPTION
    assert console.run("alter", "t", "--drop", "nope") == 2
    assert "table 't' has no family 'nope'; it has " in console.err
    assert "--yes" not in console.err


def test_yes_skips_the_question(console: Console) -> None:
    assert console.run("drop", "t", "--yes", "--json") == 0
    assert console.records == [{"table": "t", "dropped": True}]
    assert console.run("truncate", "t", "--yes", "--json") == 0
    assert console.records == [{"table": "t", "truncated": True}]
    assert console.client.calls == [("truncate_table", ("t",), {})]


def test_tables_are_listed_one_per_line(console: Console) -> None:
    console.client.answers["tables"] = ["a", "b"]
    assert console.run("tables") == 0
    assert console.out == "a\nb\n"
    assert console.run("tables", "--json") == 0
    assert console.records == [{"table": "a"}, {"table": "b"}]


def test_describe_shows_families_and_regions(console: Console) -> None:
    console.client.answers["describe"] = DESCRIPTION
    assert console.run("describe", "t") == 0
    assert console.out.splitlines() == [
        "table\tt",
        "durability\tfsync",
        "family info versions\t1",
        "family info min-versions\t0",
        "family info time-to-live\tforever",
        "family info block\t128KiB",
        "family info compression\tzstd",
        "family info bloom\trow",
        "family stats versions\t3",
        "family stats min-versions\t0",
        "family stats time-to-live\tforever",
        "family stats block\t128KiB",
        "family stats compression\tlz4",
        "family stats bloom\trow",
        "region 7 start\t",
        "region 7 stop\tm\\x00",
        "region 7 server\thost:1",
        "region 7 memstore-bytes\t10",
        "region 7 store-file-count\t2",
        "region 7 store-file-bytes\t300",
        "region 7 store-file-cells\t40",
        "region 7 read-point\t5",
        "region 7 kept-answer-count\t6",
        "region 7 kept-answer-bytes\t700",
    ]


def test_describe_shows_one_setting_per_line_on_a_terminal(console: Console) -> None:
    console.attach_terminal()
    console.client.answers["describe"] = replace(DESCRIPTION, families={"info": Family(time_to_live_ms=604_800_000)})
    assert console.run("describe", "t") == 0
    assert console.out.splitlines() == [
        "table       t",
        "durability  fsync",
        "",
        "family info",
        "  versions      1",
        "  min-versions  0",
        "  time-to-live  7d",
        "  block         128KiB",
        "  compression   zstd",
        "  bloom         row",
        "",
        "region 7",
        "  start",
        r"  stop               m\x00",
        "  server             host:1",
        "  memstore-bytes     10",
        "  store-file-count   2",
        "  store-file-bytes   300",
        "  store-file-cells   40",
        "  read-point         5",
        "  kept-answer-count  6",
        "  kept-answer-bytes  700",
    ]


def test_describe_is_one_json_object(console: Console) -> None:
    console.client.answers["describe"] = DESCRIPTION
    assert console.run("describe", "t", "--json") == 0
    [record] = console.records
    assert record["families"] == [INFO, {**INFO, "name": "stats", "versions": 3, "compression": "lz4"}]
    assert record["regions"] == [
        {
            "region_id": 7,
            "start": "",
            "stop": r"m\x00",
            "server": "host:1",
            "memstore_bytes": 10,
            "store_file_count": 2,
            "store_file_bytes": 300,
            "store_file_cells": 40,
            "read_point": 5,
            "kept_answer_count": 6,
            "kept_answer_bytes": 700,
        }
    ]
    assert (record["table"], record["durability"]) == ("t", "fsync")


def test_flush_reports_as_json_what_it_wrote(console: Console) -> None:
    console.client.answers["flush"] = FlushResult(store_file_count=2, cell_count=30)
    assert console.run("flush", "t", "--json") == 0
    assert console.records == [{"table": "t", "store_files": 2, "cells": 30}]
