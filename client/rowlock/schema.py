"""Tables, families, regions and servers as values, and their conversion to and from messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from rowlock_proto.v1 import catalog_pb2, types_pb2

from rowlock._codec.columns import Name, check_int, encoded_family
from rowlock.errors import InvalidArgumentError

if TYPE_CHECKING:
    from rowlock.mapping import Mapping as RowMapping

Durability = Literal["fsync", "os", "async", "skip"]
"""What an acknowledged write survives. "fsync": power loss. "os": the death of the server's process. "async": neither;
the last moments are lost with the process. "skip": neither; everything since the last flush is lost."""

Compression = Literal["none", "lz4", "zstd"]

_DURABILITIES: dict[str, types_pb2.Durability] = {
    "fsync": types_pb2.DURABILITY_FSYNC,
    "os": types_pb2.DURABILITY_OS,
    "async": types_pb2.DURABILITY_ASYNC,
    "skip": types_pb2.DURABILITY_SKIP,
}
_DURABILITY_WORDS: dict[int, Durability] = {
    types_pb2.DURABILITY_UNSPECIFIED: "fsync",
    types_pb2.DURABILITY_FSYNC: "fsync",
    types_pb2.DURABILITY_OS: "os",
    types_pb2.DURABILITY_ASYNC: "async",
    types_pb2.DURABILITY_SKIP: "skip",
}
_COMPRESSIONS: dict[str, types_pb2.Compression] = {
    "none": types_pb2.COMPRESSION_NONE,
    "lz4": types_pb2.COMPRESSION_LZ4,
    "zstd": types_pb2.COMPRESSION_ZSTD,
}
_COMPRESSION_WORDS: dict[int, Compression] = {
    types_pb2.COMPRESSION_NONE: "none",
    types_pb2.COMPRESSION_LZ4: "lz4",
    types_pb2.COMPRESSION_ZSTD: "zstd",
}
BLOCK_BYTES_DEFAULT = 128 * 1024
# The property of a table that holds its mapping.
MAPPING_PROPERTY = "mapping"


@dataclass(frozen=True, slots=True)
class Family:
    """The settings of a column family.

    versions: how many versions of each column to keep, newest first; at least 1. Older ones are dropped.
    min_versions: how many of these outlive time_to_live_ms; 0 to versions.
    time_to_live_ms: a version expires this many milliseconds after its timestamp; 0: never.
    block_bytes: the uncompressed size of a store file's block, the unit of reads; 4 KiB to 4 MiB. Blocks of typed rows
        have twice as many bytes.
    compression: of blocks: "none", "lz4" or "zstd". What would hardly shrink is stored as it is.
    bloom_filter: whether store files have a Bloom filter of their rows, which saves a read when a row is absent.

    Raises InvalidArgumentError if a setting is out of range, TypeError if a number is not an int.
    """

    versions: int = 1
    min_versions: int = 0
    time_to_live_ms: int = 0
    block_bytes: int = BLOCK_BYTES_DEFAULT
    compression: Compression = "zstd"
    bloom_filter: bool = True

    def __post_init__(self) -> None:
        for name in ("versions", "min_versions", "time_to_live_ms", "block_bytes"):
            check_int(name, getattr(self, name))
        if not 1 <= self.versions < 1 << 31:
            raise InvalidArgumentError(f"versions must be 1 to {(1 << 31) - 1}, not {self.versions}")
        if not 0 <= self.min_versions <= self.versions:
            raise InvalidArgumentError(
                f"min_versions must be 0 to versions, which is {self.versions}, not {self.min_versions}"
            )
        if not 0 <= self.time_to_live_ms < (1 << 63) - 1:
            raise InvalidArgumentError(
                f"time_to_live_ms must be 1 to {(1 << 63) - 2}, or 0 for forever, not {self.time_to_live_ms}"
            )
        if not 4 * 1024 <= self.block_bytes <= 4 * 1024 * 1024:
            raise InvalidArgumentError(f"block_bytes must be 4096 to 4194304, not {self.block_bytes}")
        if self.compression not in list(_COMPRESSIONS):
            raise InvalidArgumentError(
                f"compression must be one of {', '.join(map(repr, _COMPRESSIONS))}, not {self.compression!r}"
            )


@dataclass(frozen=True, slots=True)
class Region:
    """A range of rows [start, stop) of a table, and its server (host:port or unix:PATH). Empty bounds are open.

    region_id: unique in the data folder data_folder_id forever, even if the table is dropped and created again.
    mapping_text: the mapping that the table kept when the region was looked up; empty if none.
    """

    region_id: int
    table: str
    start: bytes
    stop: bytes
    server: str
    data_folder_id: str = ""
    mapping_text: str = ""

    def holds(self, row: bytes) -> bool:
        """Returns whether the row lies in the region."""
        return self.start <= row and (not self.stop or row < self.stop)

    def overlaps(self, start: bytes, stop: bytes) -> bool:
        """Returns whether the region has rows of [start, stop). Empty bounds are open."""
        return (not stop or self.start < stop) and (not self.stop or start < self.stop)


@dataclass(frozen=True, slots=True)
class RegionStatistics:
    """The size of a region at one moment.

    memstore_bytes: memory of the changes that are in no store file yet.
    store_file_count, store_file_bytes: store files, and their size on disk.
    store_file_cells: cells in store files, before versions and tombstones are applied.
    read_point: the number of the newest change that reads saw.
    kept_answer_count, kept_answer_bytes: answers saved for changes that clients may repeat, and their memory.
    """

    region: Region
    memstore_bytes: int
    store_file_count: int
    store_file_bytes: int
    store_file_cells: int
    read_point: int
    kept_answer_count: int = 0
    kept_answer_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TableDescription:
    """A table's settings and, from `Client.describe`, the statistics of its regions.

    table_id: unique forever, even if a table of the same name is created again. families: settings by name.
    durability: what an acknowledged write survives, unless the writer requests more; see docs/client.md.
    regions: in row order; empty if not requested.
    properties: settings of the whole table, as text; those that are not set have their defaults (docs/compaction.md).
    mapping_text: the mapping that the table keeps, as text; empty if none.
    """

    name: str
    table_id: int
    families: Mapping[str, Family]
    durability: Durability
    regions: tuple[RegionStatistics, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    mapping_text: str = ""

    @property
    def mapping(self) -> RowMapping | None:
        """The mapping that the table keeps; None if it keeps none. Raises MappingError if a later version wrote it."""
        from rowlock.mapping import parsed_kept

        return parsed_kept(self.mapping_text, self.name) if self.mapping_text else None


@dataclass(frozen=True, slots=True)
class Limits:
    """The server's limits. It answers a request beyond one of them with LimitExceededError.

    row_bytes_max, qualifier_bytes_max, cell_bytes_max: of a row's key, a qualifier and a cell's value.
    request_bytes_max: of any message; answers have the same limit.
    timestamp_ahead_ms_max: how many milliseconds an explicit timestamp may be ahead of the server's clock.
    """

    row_bytes_max: int
    qualifier_bytes_max: int
    cell_bytes_max: int
    request_bytes_max: int
    timestamp_ahead_ms_max: int


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A server's version, clock, limits and ids.

    version: of the product. protocol: the feature count of rowlock.v1.
    now_ms: the server's clock, milliseconds since the epoch; for a table, not below any timestamp that it gave there.
    data_folder_id: random, chosen when the data folder was created.
    incarnation_id: random, chosen at each start of the server. uptime_ms: milliseconds since that start.
    address: host:port or unix:PATH.
    """

    version: str
    protocol: int
    now_ms: int
    data_folder_id: str
    incarnation_id: str
    uptime_ms: int
    limits: Limits
    address: str


@dataclass(frozen=True, slots=True)
class FlushResult:
    """How many store files a flush wrote, 0 if the memstores were empty, and how many cells are in them."""

    store_file_count: int
    cell_count: int


def durability_message(durability: str | None) -> types_pb2.Durability:
    """Returns a durability as an enum value; None: the table's own. Raises InvalidArgumentError for an unknown one."""
    if durability is None:
        return types_pb2.DURABILITY_UNSPECIFIED
    levels = ", ".join(map(repr, _DURABILITIES))
    if not isinstance(durability, str):
        raise TypeError(f"durability must be one of {levels}, not {type(durability).__name__}")
    if durability not in _DURABILITIES:
        raise InvalidArgumentError(f"durability must be one of {levels}, not {durability!r}")
    return _DURABILITIES[durability]


def family_message(name: Name, family: Family) -> types_pb2.Family:
    """Returns a family as a message. Raises InvalidArgumentError for a malformed name, TypeError unless a Family."""
    if not isinstance(family, Family):
        raise TypeError(
            f"a family's settings must be a rowlock.Family, such as rowlock.Family(versions=3), not "
            f"{type(family).__name__}"
        )
    return types_pb2.Family(
        name=encoded_family(name),
        versions=family.versions,
        min_versions=family.min_versions,
        time_to_live_ms=family.time_to_live_ms,
        block_bytes=family.block_bytes,
        compression=_COMPRESSIONS[family.compression],
        bloom_filter=types_pb2.BLOOM_FILTER_ROW if family.bloom_filter else types_pb2.BLOOM_FILTER_NONE,
    )


def family_from(message: types_pb2.Family) -> Family:
    """Returns a family from its message."""
    return Family(
        versions=message.versions or 1,
        min_versions=message.min_versions,
        time_to_live_ms=message.time_to_live_ms,
        block_bytes=message.block_bytes or BLOCK_BYTES_DEFAULT,
        compression=_COMPRESSION_WORDS.get(message.compression, "none"),
        bloom_filter=message.bloom_filter == types_pb2.BLOOM_FILTER_ROW,
    )


def region_from(message: types_pb2.RegionDescriptor, contacted: str) -> Region:
    """Returns a region from its message. contacted: the server that sent it, used if the message names no server."""
    return Region(
        message.region_id,
        message.table,
        message.start,
        message.stop,
        message.server or contacted,
        message.data_folder_id,
        message.descriptor.properties.get(MAPPING_PROPERTY, ""),
    )


def description_from(
    message: types_pb2.TableDescriptor,
    contacted: str,
    regions: Iterable[catalog_pb2.RegionStatistics] = (),
) -> TableDescription:
    """Returns a table's description from its messages. contacted: as in region_from."""
    return TableDescription(
        name=message.name,
        table_id=message.table_id,
        families={family.name.decode("utf-8", "backslashreplace"): family_from(family) for family in message.families},
        durability=_DURABILITY_WORDS.get(message.durability, "fsync"),
        regions=tuple(
            RegionStatistics(
                region=region_from(region.region, contacted),
                memstore_bytes=region.memstore_bytes,
                store_file_count=region.store_file_count,
                store_file_bytes=region.store_file_bytes,
                store_file_cells=region.store_file_cells,
                read_point=region.read_point,
                kept_answer_count=region.kept_answer_count,
                kept_answer_bytes=region.kept_answer_bytes,
            )
            for region in regions
        ),
        properties={name: value for name, value in sorted(message.properties.items()) if name != MAPPING_PROPERTY},
        mapping_text=message.properties.get(MAPPING_PROPERTY, ""),
    )


def server_info_from(message: catalog_pb2.ServerInfoResponse, address: str) -> ServerInfo:
    """Returns the answer of a server at this address."""
    limits = message.limits
    return ServerInfo(
        version=message.version,
        protocol=message.protocol,
        now_ms=message.now_ms,
        data_folder_id=message.data_folder_id,
        incarnation_id=message.incarnation_id,
        uptime_ms=message.uptime_ms,
        limits=Limits(
            row_bytes_max=limits.row_bytes_max,
            qualifier_bytes_max=limits.qualifier_bytes_max,
            cell_bytes_max=limits.cell_bytes_max,
            request_bytes_max=limits.request_bytes_max,
            timestamp_ahead_ms_max=limits.timestamp_ahead_ms_max,
        ),
        address=address,
    )
