"""The catalog's state, without a disk."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rowlock_regionserver.catalog.catalog import CatalogState
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.errors import LimitExceededError


def test_a_family_whose_number_the_log_can_not_hold_is_refused() -> None:
    state = CatalogState().with_new_table("t", [Family(0, b"f")], Durability.FSYNC)
    state = replace(state, tables=(replace(state.entry("t"), next_family_number=65535),))
    state = state.with_altered_table("t", [Family(0, b"g")], [], None)
    assert state.entry("t").table.by_name[b"g"].number == 65535
    with pytest.raises(LimitExceededError, match="copy it to a new table"):
        state.with_altered_table("t", [Family(0, b"h")], [], None)
    without = state.with_altered_table("t", [Family(0, b"g", versions=2)], [b"f"], None)
    assert [family.number for family in without.entry("t").table.families] == [65535]
