"""The entry of a table in the catalog, and its JSON: rows and family names are in base64."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rowlock_regionserver.catalog.regions import RegionEntry
from rowlock_regionserver.cells import Compression, Durability, Family
from rowlock_regionserver.table import Table


@dataclass(frozen=True, slots=True)
class TableEntry:
    """The entry of a table: its regions in row order, and the number of its next new family.

    later_fields: those of its JSON that a later version has written and this one does not know; they are kept.
    """

    table: Table
    regions: tuple[RegionEntry, ...]
    next_family_number: int
    later_fields: Mapping[str, object] = field(default_factory=dict, hash=False)


def entry_to_json(entry: TableEntry) -> dict[str, object]:
    """Returns what json can write."""
    table = entry.table
    return {
        **entry.later_fields,
        "name": table.name,
        "table_id": table.table_id,
        "durability": table.durability.name,
        "next_family_number": entry.next_family_number,
        "families": [_family_to_json(family) for family in table.families],
        **({"properties": dict(table.properties)} if table.properties else {}),
        "regions": [[region.region_id, _text(region.start), _text(region.stop)] for region in entry.regions],
    }


def entry_from_json(fields: Mapping[str, Any]) -> TableEntry:  # Any: JSON
    """The inverse of `entry_to_json`. Raises KeyError, TypeError or ValueError for fields of another version."""
    later = dict(fields)
    return TableEntry(
        Table(
            later.pop("name"),
            later.pop("table_id"),
            tuple([_family_from_json(family) for family in later.pop("families")]),
            Durability[later.pop("durability")],
            tuple(sorted(later.pop("properties", {}).items())),
        ),
        tuple(
            [
                RegionEntry(region_id, base64.b64decode(start), base64.b64decode(stop))
                for region_id, start, stop in later.pop("regions")
            ]
        ),
        later.pop("next_family_number"),
        later,
    )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _family_to_json(family: Family) -> list[str | int]:
    return [
        family.number,
        _text(family.name),
        family.versions,
        family.min_versions,
        family.time_to_live_ms,
        family.block_bytes,
        family.compression.name,
        int(family.bloom_filter),
    ]


def _family_from_json(fields: Sequence[str | int]) -> Family:
    number, name, versions, min_versions, time_to_live_ms, block_bytes, compression, bloom_filter = fields
    return Family(
        number=int(number),
        name=base64.b64decode(str(name)),
        versions=int(versions),
        min_versions=int(min_versions),
        time_to_live_ms=int(time_to_live_ms),
        block_bytes=int(block_bytes),
        compression=Compression[str(compression)],
        bloom_filter=bool(bloom_filter),
    )
