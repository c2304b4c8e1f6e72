"""Tables, regions and snapshots: converts messages to values, and values to messages."""

from __future__ import annotations

from collections.abc import Iterable

from rowlock_proto.shown_names import name_text
from rowlock_proto.v1 import catalog_pb2, types_pb2

from rowlock_regionserver.catalog.regions import RegionEntry
from rowlock_regionserver.cells import TIMESTAMP_MAX, Compression, Family
from rowlock_regionserver.errors import InvalidRequestError, RegionServerError
from rowlock_regionserver.host.snapshots import Snapshot
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.rpc.messages.enums import member_of
from rowlock_regionserver.table import Table

_DEFAULTS = Family(number=0, name=b"default")


def families(messages: Iterable[types_pb2.Family]) -> list[Family]:
    """Converts the families to values without numbers; the catalog validates them."""
    return [_family(message) for message in messages]


def _family(message: types_pb2.Family) -> Family:
    bloom_filter = message.bloom_filter
    if bloom_filter not in (types_pb2.BLOOM_FILTER_ROW, types_pb2.BLOOM_FILTER_NONE):
        raise InvalidRequestError(
            f"Family.bloom_filter of {name_text(message.name)} is {bloom_filter}, which this server does not know; "
            "it knows 0 (ROW) and 1 (NONE)",
            family=message.name,
        )
    if message.time_to_live_ms > TIMESTAMP_MAX:
        raise InvalidRequestError(
            f"Family.time_to_live_ms of {name_text(message.name)} is {message.time_to_live_ms}, longer than any "
            "timestamp; 0 keeps cells forever",
            family=message.name,
        )
    return Family(
        number=0,
        name=message.name,
        versions=message.versions or _DEFAULTS.versions,
        min_versions=message.min_versions,
        time_to_live_ms=message.time_to_live_ms,
        block_bytes=message.block_bytes or _DEFAULTS.block_bytes,
        compression=member_of(Compression, message.compression, "Family.compression"),
        bloom_filter=bloom_filter == types_pb2.BLOOM_FILTER_ROW,
    )


def table_message(table: Table) -> types_pb2.TableDescriptor:
    return types_pb2.TableDescriptor(
        name=table.name,
        families=[_family_message(family) for family in table.families],
        durability=types_pb2.Durability.Name(table.durability),
        table_id=table.table_id,
        properties=dict(table.properties),
    )


def _family_message(family: Family) -> types_pb2.Family:
    return types_pb2.Family(
        name=family.name,
        versions=family.versions,
        min_versions=family.min_versions,
        time_to_live_ms=family.time_to_live_ms,
        block_bytes=family.block_bytes,
        compression=types_pb2.Compression.Name(family.compression),
        bloom_filter=types_pb2.BLOOM_FILTER_ROW if family.bloom_filter else types_pb2.BLOOM_FILTER_NONE,
    )


def region_message(region: Region, server: str, data_folder_id: str) -> types_pb2.RegionDescriptor:
    """Converts the region. `server`: this server's address for clients, empty if it advertises none."""
    entry = RegionEntry(region.region_id, region.start, region.stop)
    return entry_message(entry, region.table, server, data_folder_id)


def entry_message(region: RegionEntry, table: Table, server: str, data_folder_id: str) -> types_pb2.RegionDescriptor:
    """Converts the entry of a region of the table; else as region_message."""
    return types_pb2.RegionDescriptor(
        region_id=region.region_id,
        table=table.name,
        table_id=table.table_id,
        start=region.start,
        stop=region.stop,
        server=server,
        descriptor=table_message(table),
        data_folder_id=data_folder_id,
    )


def statistics_message(region: Region, server: str, data_folder_id: str) -> catalog_pb2.RegionStatistics:
    statistics = region.statistics()
    return catalog_pb2.RegionStatistics(
        region=region_message(region, server, data_folder_id),
        memstore_bytes=statistics.memstore_bytes,
        store_file_count=statistics.store_file_count,
        store_file_bytes=statistics.store_file_bytes,
        store_file_cells=statistics.store_file_cells,
        read_point=statistics.read_point,
        kept_answer_count=statistics.request_ids.saved_answers,
        kept_answer_bytes=statistics.request_ids.bytes_held,
        open_read_count=statistics.mvcc.registered_readers,
        state=catalog_pb2.RegionStatistics.STATE_OPEN,
    )


def damaged_message(region: types_pb2.RegionDescriptor, error: RegionServerError) -> catalog_pb2.RegionStatistics:
    """Returns the statistics of a region that is closed because of damage: its sizes are not known."""
    return catalog_pb2.RegionStatistics(
        region=region, state=catalog_pb2.RegionStatistics.STATE_DAMAGED, error=error.message
    )


def snapshot_message(snapshot: Snapshot) -> catalog_pb2.Snapshot:
    return catalog_pb2.Snapshot(
        snapshot_id=snapshot.snapshot_id,
        table=snapshot.table,
        table_id=snapshot.table_id,
        made_ms=snapshot.made_ms,
        lease_ms=snapshot.lease_ms,
        regions=[
            catalog_pb2.Snapshot.RegionReadPoint(region_id=region_id, read_point=read_point)
            for region_id, read_point in snapshot.read_points
        ],
    )
