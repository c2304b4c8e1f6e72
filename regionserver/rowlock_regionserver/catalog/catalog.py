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

from rowlock_proto.nearest import did_you_mean
from rowlock_proto.shown_names import name_text

from rowlock_regionserver import generations
from rowlock_regionserver.catalog.commits import NO_COMMITS, Commits, commits_from_json, commits_to_json
from rowlock_regionserver.catalog.named_snapshots import (
    NamedSnapshot,
    NamedSnapshots,
    check_new_snapshot,
    snapshot_of_name,
    snapshots_from_json,
    snapshots_to_json,
    with_snapshot,
)
from rowlock_regionserver.catalog.names import (
    FAMILY_NUMBER_MAX,
    SNAPSHOT_PREFIX,
    check_families,
    check_family_settings,
    check_table_name,
)
from rowlock_regionserver.catalog.properties import check_expected, check_properties
from rowlock_regionserver.catalog.regions import (
    RegionEntry,
    checked_splits,
    new_regions,
    renumbered,
    with_merged,
    with_split,
)
from rowlock_regionserver.catalog.table_entry import TableEntry, entry_from_json, entry_to_json
from rowlock_regionserver.cells import Durability, Family
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    CorruptionError,
    FamilyNotFoundError,
    InvalidRequestError,
    LimitExceededError,
    TableExistsError,
    TableNotFoundError,
)
from rowlock_regionserver.files import Files
from rowlock_regionserver.scan.filters import FAMILY_BYTES_SHOWN
from rowlock_regionserver.table import Table
from rowlock_regionserver.wal.record import NOWHERE, Position

NAME = "catalog"
# Version 2 has named snapshots, whose folders earlier servers would remove. So it is written only with such, and they
# refuse it then.
FORMAT_VERSION = 2
_VERSION_WITHOUT_SNAPSHOTS = 1
NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})
_DEFAULT_LIMITS = Config()


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
    snapshots: NamedSnapshots = ()  # the named ones, by name

    @property
    def format_version(self) -> int:
        """The least version that has what is in it."""
        return FORMAT_VERSION if self.snapshots else _VERSION_WITHOUT_SNAPSHOTS

    @property
    def region_ids(self) -> frozenset[int]:
        """The regions that have folders: those of tables, and of named snapshots."""
        entries = (*self.tables, *(snapshot.entry for snapshot in self.snapshots))
        return frozenset([region.region_id for entry in entries for region in entry.regions])

    def entry(self, name: str) -> TableEntry:
        """The table of this name. Raises TableNotFoundError."""
        for entry in self.tables:
            if entry.table.name == name:
                return entry
        what_to_do = "create it, or list the tables"
        meant = did_you_mean(name[:256], [entry.table.name for entry in self.tables])
        if name.startswith(SNAPSHOT_PREFIX):
            what_to_do = "a name like this is of a named snapshot, which can only be read: restore it to a new table"
        raise TableNotFoundError(f"there is no table {name[:256]!r}{meant}; {what_to_do}", table=name[:256])

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
        self._check_new_table(name)
        check_families(families, name)
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

    def snapshot(self, name: str) -> NamedSnapshot:
        """The named snapshot. Raises SnapshotNotFoundError."""
        return snapshot_of_name(self.snapshots, name)

    def with_snapshot(
        self, name: str, table: str, region_ids: Sequence[int], made_ms: int, limits: Config = _DEFAULT_LIMITS
    ) -> CatalogState:
        """Returns the state with a named snapshot of a table. `region_ids`: of its regions, which are reserved.

        Raises TableNotFoundError, InvalidRequestError, SnapshotExistsError and LimitExceededError.
        """
        check_new_snapshot(self.snapshots, name, limits)
        self._check_reserved(*region_ids)
        entry = self._copied(self.entry(table), table, region_ids)
        added = with_snapshot(self.snapshots, NamedSnapshot(name, entry, made_ms))
        return replace(self, snapshots=added, next_table_id=self.next_table_id + 1)

    def without_snapshot(self, name: str) -> CatalogState:
        """Returns the state without the named snapshot. Raises SnapshotNotFoundError."""
        dropped = self.snapshot(name)
        return replace(self, snapshots=tuple([each for each in self.snapshots if each is not dropped]))

    def with_restored_table(self, name: str, table: str, region_ids: Sequence[int]) -> CatalogState:
        """Returns the state with a new table like that of a named snapshot. `region_ids`: as in with_snapshot.

        Raises SnapshotNotFoundError, InvalidRequestError and TableExistsError.
        """
        found = self.snapshot(name)
        self._check_new_table(table)
        self._check_reserved(*region_ids)
        restored = self._copied(found.entry, table, region_ids)
        return replace(self, tables=_by_name((*self.tables, restored)), next_table_id=self.next_table_id + 1)

    def _copied(self, entry: TableEntry, name: str, region_ids: Sequence[int]) -> TableEntry:
        """Returns an entry of the same families and rows, under the next id of a table."""
        table = replace(entry.table, name=name, table_id=self.next_table_id)
        return replace(entry, table=table, regions=renumbered(entry.regions, region_ids))

    def _check_new_table(self, name: str) -> None:
        check_table_name(name)
        if any(entry.table.name == name for entry in self.tables):
            raise TableExistsError(f"table {name!r} exists already; drop it first, or choose another name", table=name)

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
    generations.write(files, folder, NAME, number, encode(state), version=state.format_version)


def read_catalog(files: Files, folder: Path) -> tuple[int, CatalogState] | None:
    """Returns the newest generation and its number; None when there is none.

    Raises CorruptionError when it is damaged; an older one never replaces it.
    """
    try:
        number, body = generations.read_newest(files, folder, NAME, version_max=FORMAT_VERSION)
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
            "log_id": base64.b64encode(state.log_id).decode(),
            "log_position": state.log_position,
            **({"session_numbers_until": state.session_numbers_until} if state.session_numbers_until > 1 else {}),
            **commits_to_json(state.commits),
            "tables": [entry_to_json(entry) for entry in state.tables],
            **snapshots_to_json(state.snapshots),
        }
    ).encode()


def decode(body: bytes) -> CatalogState:
    """The inverse of `encode`. Raises KeyError, TypeError or ValueError when it is of another version."""
    fields = json.loads(body)
    return CatalogState(
        tuple([entry_from_json(each) for each in fields["tables"]]),
        fields["next_table_id"],
        fields["next_region_id"],
        base64.b64decode(fields["log_id"]),
        Position(*fields.get("log_position", NOWHERE)),  # Version 0.1.0 writes none.
        fields.get("session_numbers_until", 1),
        commits_from_json(fields),
        snapshots_from_json(fields),
    )
