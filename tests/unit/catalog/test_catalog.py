"""The catalog's state, without a disk."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from rowlock_regionserver.catalog.catalog import CatalogState, decode, encode
from rowlock_regionserver.catalog.properties import (
    MAPPING,
    MAPPING_BYTES_MAX,
    SPLIT_REGION_BYTES,
    split_region_bytes,
)
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.errors import InvalidRequestError, LimitExceededError, TableNotFoundError


def test_a_family_whose_number_the_log_can_not_hold_is_refused() -> None:
    state = CatalogState().with_new_table("t", [Family(0, b"f")], Durability.FSYNC)
    state = replace(state, tables=(replace(state.entry("t"), next_family_number=65535),))
    state = state.with_altered_table("t", [Family(0, b"g")], [], None)
    assert state.entry("t").table.by_name[b"g"].number == 65535
    with pytest.raises(LimitExceededError, match="copy it to a new table"):
        state.with_altered_table("t", [Family(0, b"h")], [], None)
    without = state.with_altered_table("t", [Family(0, b"g", versions=2)], [b"f"], None)
    assert [family.number for family in without.entry("t").table.families] == [65535]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("order", "there is no table 'order' (did you mean 'orders'?); create it, or list the tables"),
        ("x", "there is no table 'x'; create it, or list the tables"),
    ],
)
def test_an_unknown_table_is_answered_with_the_one_that_was_probably_meant(name: str, message: str) -> None:
    state = CatalogState().with_new_table("orders", [Family(0, b"f")], Durability.OS)
    with pytest.raises(TableNotFoundError, match=f"^{re.escape(message)}$"):
        state.entry(name)


def test_properties_of_a_table_are_set_replaced_and_dropped() -> None:
    state = CatalogState().with_new_table("t", [Family(0, b"f")], Durability.OS, {"b": "1", "a": "2"})
    assert state.entry("t").table.properties == (("a", "2"), ("b", "1"))
    state = state.with_altered_table("t", [], [], None, {"c": "3", "a": "4"}, ["b"])
    assert state.entry("t").table.properties == (("a", "4"), ("c", "3"))
    assert state.entry("t").table.durability is Durability.OS
    for same in (state.with_truncated_table("t"), state.with_altered_table("t", [Family(0, b"g")], [], None)):
        assert same.entry("t").table.properties == (("a", "4"), ("c", "3"))


@pytest.mark.parametrize(
    ("set_properties", "drop_properties", "message"),
    [
        ({"a": "1"}, ["a"], "property 'a' of table 't' can't be set and dropped in one call"),
        ({}, ["x"], "table 't' has no property 'x', so it can't be dropped; it has 'a'"),
    ],
)
def test_impossible_changes_of_properties_are_refused(
    set_properties: Mapping[str, str], drop_properties: Sequence[str], message: str
) -> None:
    state = CatalogState().with_new_table("t", [Family(0, b"f")], Durability.OS, {"a": "1"})
    with pytest.raises(InvalidRequestError, match=re.escape(message)):
        state.with_altered_table("t", [], [], None, set_properties, drop_properties)


def test_a_catalog_without_properties_is_written_as_by_earlier_versions_and_read_from_them() -> None:
    state = CatalogState().with_new_table("t", [Family(0, b"f")], Durability.OS)
    assert b"properties" not in encode(state)
    assert decode(encode(state)) == state
    state = state.with_altered_table("t", [], [], None, {"a": "1"})
    assert decode(encode(state)) == state


def test_a_mapping_is_kept_as_it_is_and_survives_the_encoding() -> None:
    text = "k STRING :key, ä BIGINT f:v"
    state = CatalogState().with_new_table("t", [Family(0, b"f")], Durability.FSYNC, {MAPPING: text})
    assert decode(encode(state)).entry("t").table.properties == ((MAPPING, text),)


def test_a_mapping_is_bounded_and_not_empty() -> None:
    with pytest.raises(LimitExceededError, match="65537 bytes, more than mapping_bytes_max = 65536") as raised:
        CatalogState().with_new_table(
            "t", [Family(0, b"f")], Durability.FSYNC, {MAPPING: "x" * (MAPPING_BYTES_MAX + 1)}
        )
    assert (raised.value.limit, raised.value.found) == ("mapping_bytes_max", 65537)
    state = CatalogState().with_new_table("t", [Family(0, b"f")], Durability.FSYNC, {MAPPING: "x" * MAPPING_BYTES_MAX})
    with pytest.raises(LimitExceededError, match="mapping_bytes_max"):
        state.with_altered_table("t", [], [], None, {MAPPING: "ä" * (MAPPING_BYTES_MAX // 2 + 1)})
    with pytest.raises(InvalidRequestError, match="'mapping' of table 't' is empty; drop it instead"):
        state.with_altered_table("t", [], [], None, {MAPPING: ""})


def test_an_alter_is_refused_if_a_property_is_not_as_expected() -> None:
    state = CatalogState().with_new_table("t", [Family(0, b"f")], Durability.FSYNC, {MAPPING: "old"})
    for expected in ("", "other"):
        with pytest.raises(InvalidRequestError, match="'mapping' of table 't' has changed since it was read"):
            state.with_altered_table("t", [], [], None, {MAPPING: "new"}, (), {MAPPING: expected})
    dropped = state.with_altered_table("t", [], [], None, {}, [MAPPING], {MAPPING: "old"})
    assert dropped.entry("t").table.properties == ()
    again = dropped.with_altered_table("t", [], [], None, {MAPPING: "new"}, (), {MAPPING: ""})
    assert again.entry("t").table.properties == ((MAPPING, "new"),)


@pytest.mark.parametrize(("text", "byte_count"), [("0", 0), ("1", 1), ("1073741824", 1 << 30), (str(1 << 60), 1 << 60)])
def test_the_size_from_which_on_regions_are_split_is_a_number_of_bytes(text: str, byte_count: int) -> None:
    properties = {SPLIT_REGION_BYTES: text, "compaction.automatic": "false"}
    table = CatalogState().with_new_table("t", [Family(0, b"f")], Durability.FSYNC, properties).entry("t").table
    assert split_region_bytes(table) == byte_count


def test_regions_are_split_at_ten_gibibytes_unless_the_table_says_otherwise() -> None:
    table = CatalogState().with_new_table("t", [Family(0, b"f")], Durability.FSYNC).entry("t").table
    assert split_region_bytes(table) == 10 << 30


@pytest.mark.parametrize("text", ["", "-1", "1.5", "10GiB", str((1 << 60) + 1), "9" * 30, "٣"])
def test_a_size_that_is_no_number_of_bytes_is_refused(text: str) -> None:
    state = CatalogState().with_new_table("t", [Family(0, b"f")], Durability.FSYNC)
    with pytest.raises(InvalidRequestError, match=r"'split.region_bytes' of table 't' must be a whole number of bytes"):
        state.with_altered_table("t", [], [], None, {SPLIT_REGION_BYTES: text})
    with pytest.raises(InvalidRequestError, match=r"where 0 means that regions are never split by size"):
        state.with_new_table("u", [Family(0, b"f")], Durability.FSYNC, {SPLIT_REGION_BYTES: text})
