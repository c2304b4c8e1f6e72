"""A server whose new tables have several regions, as tables will have when they are split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from rowlock_regionserver.catalog.catalog import NO_PROPERTIES, CatalogState, RegionEntry
from rowlock_regionserver.cells import Durability, Family


def make_tables_of_several_regions(monkeypatch: pytest.MonkeyPatch, splits: Sequence[bytes]) -> None:
    """From now on new tables have a region from each of these rows on, and the first one."""
    make_one = CatalogState.with_new_table

    def make(
        state: CatalogState,
        name: str,
        families: Sequence[Family],
        durability: Durability,
        properties: Mapping[str, str] = NO_PROPERTIES,
    ) -> CatalogState:
        made = make_one(state, name, families, durability, properties)
        bounds = (b"", *splits, b"")
        regions = tuple([RegionEntry(state.next_region_id + i, *bounds[i : i + 2]) for i in range(len(bounds) - 1)])
        tables = [replace(each, regions=regions) if each.table.name == name else each for each in made.tables]
        return replace(made, tables=tuple(tables), next_region_id=state.next_region_id + len(regions))

    monkeypatch.setattr(CatalogState, "with_new_table", make)
