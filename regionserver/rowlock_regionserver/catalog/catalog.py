"""The catalog's durable state: tables, families, regions, and the ids that are never reused.

Each change writes a small immutable generation (generations.py), which is the commit point of every table operation.
Folders are made before it and removed after it, so a crash leaves at most folders that no generation names;
host/leftovers.py distinguishes them from folders whose generation was lost.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from rowlock_regionserver import generations
from rowlock_regionserver.catalog.commits import NO_COMMITS, Commits, commits_from_json, commits_to_json
from rowlock_regionserver.catalog.names import (
    FAMILY_NUMBER_MAX,
    check_families,
    check_family_settings,
    check_table_name,
)
from rowlock_regionserver.catalog.properties import check_expected, check_properties
from rowlock_regionserver.catalog.regions import (
    RegionEntry,
    checked_splits,
    new_regions,
    with_merged,
    with_split,
)
from rowlock_regionserver.cells import Compression, Durability, Family
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    CorruptionError,
    FamilyNotFoundError,
    InvalidRequestError,
    LimitExceededError,
    TableExistsError,
    TableNotFoundError,
)
from rowlock_regionserver.escapes import name_text
from rowlock_regionserver.files import Files
from rowlock_regionserver.scan.filters import FAMILY_BYTES_SHOWN
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.record import NOWHERE, Position

NAME = "catalog"
NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})
_DEFAULT_LIMITS = Config()


@dataclass(frozen=True, slots=True)
class TableEntry:
    """The entry of a table: its regions in row order, and the number of its next new family."""

    table: Table
    regions: tuple[RegionEntry, ...]
    next_family_number: int


@dataclass(frozen=True, slots=True)
class CatalogState:
    """All tables, by name. Immutable: a change makes a new state."""

    tables: tuple[TableEntry, ...] = ()
    next_table_id: int = 1
    next_region_id: int = 1
    log_id: bytes = b""  # of the log that belongs to these regions; empty before there is one
    log_position: Position = NOWHERE  # the log was durable up to here when this was written
    session_numbers_until: int = 1  # numbers of sessions and locks below this may have been used
    commits: Commits = NO_COMMITS  # of bulk writes

    def entry(self, name: str) -> TableEntry:
        """The table of this name. Raises TableNotFoundError."""
        for entry in self.tables:
            if entry.table.name == name:
                return entry
        raise TableNotFoundError(f"there is no table {name[:256]!r}; create it, or list the tables", table=name[:256])

    def with_new_table(
        self,
        name: str,
        families: Sequence[Family],
        durability: Durability,
        properties: Mapping[str, str] = NO_PROPERTIES,
        splits: Sequence[bytes] = (),
        limits: Config = _DEFAULT_LIMITS,
    ) -> CatalogState:
        """Returns the state with a new table. Numbers the families.

        `splits`: the first rows of its regions but the first, in any order; see checked_splits.
        """
        check_table_name(name)
        check_families(families, name)
        if any(entry.table.name == name for entry in self.tables):
            raise TableExistsError(f"table {name!r} exists already; drop it first, or choose another name", table=name)
        numbered = tuple(
            replace(family, number=number)
            for number, family in enumerate(sorted(families, key=lambda family: family.name), start=1)
        )
        table = Table(name, self.next_table_id, numbered, durability, tuple(sorted(properties.items())))
        check_properties(table)
        regions = new_regions(checked_splits(name, splits, limits), self.next_region_id)
        entry = TableEntry(table, regions, len(families) + 1)
        return replace(
            self,
            tables=_by_name((*self.tables, entry)),
            next_table_id=self.next_table_id + 1,
            next_region_id=self.next_region_id + len(regions),
        )

    def with_altered_table(
        self,
        name: str,
        set_families: Sequence[Family],
        drop_families: Sequence[bytes],
        durability: Durability | None,
        set_properties: Mapping[str, str] = NO_PROPERTIES,
        drop_properties: Sequence[str] = (),
        expected_properties: Mapping[str, str] = NO_PROPERTIES,
    ) -> CatalogState:
        """Returns the state with families and properties set and dropped. A changed family keeps its number.

        Raises InvalidRequestError unless the expected properties have their values; an empty one stands for none.
        """
        entry = self.entry(name)
        check_expected(entry.table, expected_properties)
        families = dict(entry.table.by_name)
        next_number = entry.next_family_number
        both = {family.name for family in set_families} & set(drop_families)
        if both:
            raise InvalidRequestError(
                f"family {name_text(min(both))} of table {name!r} can't be set and dropped in one call", table=name
            )
        for dropped in drop_families:
            if families.pop(dropped, None) is None:
                raise FamilyNotFoundError(
                    f"table {name!r} has no column family {name_text(dropped)}, so it can't be dropped",
                    table=name,
                    family=dropped[:FAMILY_BYTES_SHOWN],
                )
        for family in set_families:
            check_family_settings(family, name)
            known = families.get(family.name)
            number = next_number if known is None else known.number
            next_number += known is None
            families[family.name] = replace(family, number=number)
        check_families(tuple(families.values()), name)
        if next_number > FAMILY_NUMBER_MAX + 1:
            raise LimitExceededError(
                f"table {name!r} would have had {next_number - 1} families in total, more than {FAMILY_NUMBER_MAX}; "
                "family numbers are never reused, so copy it to a new table",
                limit="family_number_max",
                limit_value=FAMILY_NUMBER_MAX,
                found=next_number - 1,
                table=name,
            )
        altered = Table(
            name,
            entry.table.table_id,
            tuple(families[family_name] for family_name in sorted(families)),
            entry.table.durability if durability is None else durability,
            _altered_properties(entry.table, set_properties, drop_properties),
        )
        check_properties(altered)
        return self._with(replace(entry, table=altered, next_family_number=next_number))

    def without_table(self, name: str) -> CatalogState:
        """Returns the state without the table."""
        dropped_table = self.entry(name)
        return replace(self, tables=tuple(entry for entry in self.tables if entry is not dropped_table))

    def with_truncated_table(self, name: str) -> CatalogState:
        """Returns the state with new, empty regions for the table."""
        entry = self.entry(name)
        regions = tuple(
            RegionEntry(self.next_region_id + i, region.start, region.stop) for i, region in enumerate(entry.regions)
        )
        state = self._with(replace(entry, regions=regions))
        return replace(state, next_region_id=self.next_region_id + len(regions))

    def with_reserved_regions(self, count: int) -> tuple[CatalogState, tuple[int, ...]]:
        """Returns the state in which `count` region ids are taken, and the ids.

        It is committed before the folders of these regions are made. So a folder that a crash leaves behind is never
        that of a later region.
        """
        first, stop = self.next_region_id, self.next_region_id + count
        return replace(self, next_region_id=stop), tuple(range(first, stop))

    def with_split_region(self, name: str, region_id: int, row: bytes, daughters: tuple[int, int]) -> CatalogState:
        """Returns the state with two regions in the place of one. `daughters`: their ids, which are reserved.

        Raises TableNotFoundError, and the errors of `with_split`.
        """
        self._check_reserved(*daughters)
        entry = self.entry(name)
        return self._with(replace(entry, regions=with_split(name, entry.regions, region_id, row, daughters)))

    def with_merged_regions(self, name: str, left_id: int, right_id: int, merged_id: int) -> CatalogState:
        """Returns the state with one region in the place of two. `merged_id`: its id, which is reserved.

        Raises TableNotFoundError, and the errors of `with_merged`.
        """
        self._check_reserved(merged_id)
        entry = self.entry(name)
        return self._with(replace(entry, regions=with_merged(name, entry.regions, left_id, right_id, merged_id)))

    def _check_reserved(self, *region_ids: int) -> None:
        for region_id in region_ids:
            assert region_id < self.next_region_id, f"region id {region_id} is not reserved: {self.next_region_id}"

    def _with(self, changed: TableEntry) -> CatalogState:
        return replace(
            self,
            tables=tuple(changed if entry.table.name == changed.table.name else entry for entry in self.tables),
        )


def _altered_properties(
    table: Table, set_properties: Mapping[str, str], drop_properties: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """Returns the table's properties with some of them set and others dropped."""
    both = set_properties.keys() & set(drop_properties)
    if both:
        raise InvalidRequestError(
            f"property {min(both)!r} of table {table.name!r} can't be set and dropped in one call", table=table.name
        )
    properties = dict(table.properties)
    for dropped in drop_properties:
        if properties.pop(dropped, None) is None:
            has = ", ".join(map(repr, dict(table.properties))) or "none"
            raise InvalidRequestError(
                f"table {table.name!r} has no property {dropped[:64]!r}, so it can't be dropped; it has {has}",
                table=table.name,
            )
    return tuple(sorted({**properties, **set_properties}.items()))


def _by_name(entries: Iterable[TableEntry]) -> tuple[TableEntry, ...]:
    return tuple(sorted(entries, key=lambda entry: entry.table.name))


def write_catalog(files: Files, folder: Path, number: int, state: CatalogState) -> None:
    """Commits the state as this generation, durably."""
    generations.write(files, folder, NAME, number, encode(state))


def read_catalog(files: Files, folder: Path) -> tuple[int, CatalogState] | None:
    """Returns the newest generation and its number; None when there is none.

    Raises CorruptionError when it is damaged; an older one never replaces it.
    """
    try:
        number, body = generations.read_newest(files, folder, NAME)
    except FileNotFoundError:
        return None
    try:
        return number, decode(body)
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptionError(folder / NAME, 0, "a catalog of this version", repr(error)) from error


def encode(state: CatalogState) -> bytes:
    """Encodes the state as JSON; rows and family names in base64."""
    return json.dumps(
        {
            "next_table_id": state.next_table_id,
            "next_region_id": state.next_region_id,
            "log_id": _text(state.log_id),
            "log_position": state.log_position,
            **({"session_numbers_until": state.session_numbers_until} if state.session_numbers_until > 1 else {}),
            **commits_to_json(state.commits),
            "tables": [
                {
                    "name": entry.table.name,
                    "table_id": entry.table.table_id,
                    "durability": entry.table.durability.name,
                    "next_family_number": entry.next_family_number,
                    "families": [_family_to_json(family) for family in entry.table.families],
                    **({"properties": dict(entry.table.properties)} if entry.table.properties else {}),
                    "regions": [
                        [region.region_id, _text(region.start), _text(region.stop)] for region in entry.regions
                    ],
                }
                for entry in state.tables
            ],
        }
    ).encode()


def decode(body: bytes) -> CatalogState:
    """The inverse of `encode`. Raises KeyError, TypeError or ValueError when it is of another version."""
    fields = json.loads(body)
    entries = [
        TableEntry(
            Table(
                table["name"],
                table["table_id"],
                tuple(_family_from_json(family) for family in table["families"]),
                Durability[table["durability"]],
                tuple(sorted(table.get("properties", NO_PROPERTIES).items())),
            ),
            tuple(
                RegionEntry(region_id, base64.b64decode(start), base64.b64decode(stop))
                for region_id, start, stop in table["regions"]
            ),
            table["next_family_number"],
        )
        for table in fields["tables"]
    ]
    return CatalogState(
        tuple(entries),
        fields["next_table_id"],
        fields["next_region_id"],
        base64.b64decode(fields["log_id"]),
        Position(*fields.get("log_position", NOWHERE)),  # Version 0.1.0 writes none.
        fields.get("session_numbers_until", 1),
        commits_from_json(fields),
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
