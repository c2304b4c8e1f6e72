"""Compactions that clients request: finds the stores, and refuses what does not exist or is impossible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from rowlock_proto.shown_names import name_text

from rowlock_regionserver.compaction import settings as compaction_settings
from rowlock_regionserver.compaction.job import CompactionJob, RequestedStore, StoreId
from rowlock_regionserver.compaction.picker import Kind
from rowlock_regionserver.errors import FamilyNotFoundError, InvalidRequestError, listed
from rowlock_regionserver.host.compacting import CompactionThreads
from rowlock_regionserver.host.compaction_runs import CompactedRegion, settings_of
from rowlock_regionserver.table import Table


class CompactionHost(Protocol):
    """The region server as requests see it."""

    @property
    def compactions(self) -> CompactionThreads: ...
    def table(self, name: str) -> Table: ...
    def regions_of(self, name: str) -> Sequence[CompactedRegion]: ...


def request_compactions(
    host: CompactionHost,
    name: str,
    families: Sequence[bytes] = (),
    region_ids: Sequence[int] = (),
    *,
    is_major: bool = False,
    properties: Mapping[str, str] | None = None,
) -> list[int]:
    """Requests compactions of a table's stores, or only of these families and regions. Returns the ids of the jobs.

    `properties` override the table's. Raises TableNotFoundError, FamilyNotFoundError, InvalidRequestError for unknown
    regions and for properties that don't exist or are impossible, and CorruptionError for a region that is closed
    because of damage.
    """
    regions = host.regions_of(name)
    unknown = sorted(set(region_ids) - {region.region_id for region in regions})
    if unknown:
        has = ", ".join(str(region.region_id) for region in regions)
        raise InvalidRequestError(f"table {name!r} has no region {unknown[0]}; it has {has}", table=name)
    kind = Kind.MAJOR if is_major else Kind.MINOR
    chosen = [region for region in regions if not region_ids or region.region_id in region_ids]
    stores = [store for region in chosen for store in _stores_of(region, families, kind, properties or {})]
    return host.compactions.request(stores)


def compaction_jobs(host: CompactionHost, name: str = "", ids: Sequence[int] = ()) -> list[CompactionJob]:
    """Returns the compactions of these ids; without ids those of a table, or of all, by id.

    Ids that are unknown are not in the answer. Raises TableNotFoundError.
    """
    if ids:
        return [job for job in host.compactions.jobs_of_ids(ids) if name in ("", job.table)]
    return host.compactions.jobs(host.table(name).name if name else None)


def _stores_of(
    region: CompactedRegion, families: Sequence[bytes], kind: Kind, properties: Mapping[str, str]
) -> Iterator[RequestedStore]:
    table = region.table
    settings = compaction_settings.parse(properties, settings_of(table)) if properties else None
    for name in dict.fromkeys(families or table.by_name):
        if name not in table.by_name:
            raise FamilyNotFoundError(
                f"table {table.name!r} has no column family {name_text(name)}; it has {listed(table.by_name)}",
                table=table.name,
                family=name[:128],
            )
        store = StoreId(region.region_id, table.number_by_name[name])
        yield RequestedStore(store, table.name, name, kind, settings)
