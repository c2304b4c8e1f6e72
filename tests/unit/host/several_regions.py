"""A server whose new tables have several regions, although nobody asks for splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from rowlock_regionserver.catalog.catalog import NO_PROPERTIES, CatalogState
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.config import Config


def make_tables_of_several_regions(monkeypatch: pytest.MonkeyPatch, splits: Sequence[bytes]) -> None:
    """From now on new tables have a region from each of these rows on, and the first one."""
    make_one = CatalogState.with_new_table
    default = splits

    def make(
        state: CatalogState,
        name: str,
        families: Sequence[Family],
        durability: Durability,
        properties: Mapping[str, str] = NO_PROPERTIES,
        splits: Sequence[bytes] = (),
        limits: Config | None = None,
    ) -> CatalogState:
        return make_one(state, name, families, durability, properties, splits or default, limits or Config())

    monkeypatch.setattr(CatalogState, "with_new_table", make)
