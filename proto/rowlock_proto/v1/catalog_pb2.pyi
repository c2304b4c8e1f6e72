from rowlock_proto.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LockOptions(_message.Message):
    __slots__ = ("session", "wait_ms", "owner")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    session: _types_pb2.SessionRef
    wait_ms: int
    owner: str
    def __init__(self, session: _Optional[_Union[_types_pb2.SessionRef, _Mapping]] = ..., wait_ms: _Optional[int] = ..., owner: _Optional[str] = ...) -> None: ...

class CreateTableRequest(_message.Message):
    __slots__ = ("table", "splits", "lock")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    SPLITS_FIELD_NUMBER: _ClassVar[int]
    LOCK_FIELD_NUMBER: _ClassVar[int]
    table: _types_pb2.TableDescriptor
    splits: _containers.RepeatedScalarFieldContainer[bytes]
    lock: LockOptions
    def __init__(self, table: _Optional[_Union[_types_pb2.TableDescriptor, _Mapping]] = ..., splits: _Optional[_Iterable[bytes]] = ..., lock: _Optional[_Union[LockOptions, _Mapping]] = ...) -> None: ...

class CreateTableResponse(_message.Message):
    __slots__ = ("table",)
    TABLE_FIELD_NUMBER: _ClassVar[int]
    table: _types_pb2.TableDescriptor
    def __init__(self, table: _Optional[_Union[_types_pb2.TableDescriptor, _Mapping]] = ...) -> None: ...

class AlterTableRequest(_message.Message):
    __slots__ = ("name", "set_families", "drop_families", "durability", "set_properties", "drop_properties", "expected_properties", "lock")
    class SetPropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class ExpectedPropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    SET_FAMILIES_FIELD_NUMBER: _ClassVar[int]
    DROP_FAMILIES_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    SET_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    DROP_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    LOCK_FIELD_NUMBER: _ClassVar[int]
    name: str
    set_families: _containers.RepeatedCompositeFieldContainer[_types_pb2.Family]
    drop_families: _containers.RepeatedScalarFieldContainer[bytes]
    durability: _types_pb2.Durability
    set_properties: _containers.ScalarMap[str, str]
    drop_properties: _containers.RepeatedScalarFieldContainer[str]
    expected_properties: _containers.ScalarMap[str, str]
    lock: LockOptions
    def __init__(self, name: _Optional[str] = ..., set_families: _Optional[_Iterable[_Union[_types_pb2.Family, _Mapping]]] = ..., drop_families: _Optional[_Iterable[bytes]] = ..., durability: _Optional[_Union[_types_pb2.Durability, str]] = ..., set_properties: _Optional[_Mapping[str, str]] = ..., drop_properties: _Optional[_Iterable[str]] = ..., expected_properties: _Optional[_Mapping[str, str]] = ..., lock: _Optional[_Union[LockOptions, _Mapping]] = ...) -> None: ...

class AlterTableResponse(_message.Message):
    __slots__ = ("table",)
    TABLE_FIELD_NUMBER: _ClassVar[int]
    table: _types_pb2.TableDescriptor
    def __init__(self, table: _Optional[_Union[_types_pb2.TableDescriptor, _Mapping]] = ...) -> None: ...

class DropTableRequest(_message.Message):
    __slots__ = ("name", "force", "lock")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    LOCK_FIELD_NUMBER: _ClassVar[int]
    name: str
    force: bool
    lock: LockOptions
    def __init__(self, name: _Optional[str] = ..., force: bool = ..., lock: _Optional[_Union[LockOptions, _Mapping]] = ...) -> None: ...

class DropTableResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TruncateTableRequest(_message.Message):
    __slots__ = ("name", "lock")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LOCK_FIELD_NUMBER: _ClassVar[int]
    name: str
    lock: LockOptions
    def __init__(self, name: _Optional[str] = ..., lock: _Optional[_Union[LockOptions, _Mapping]] = ...) -> None: ...

class TruncateTableResponse(_message.Message):
    __slots__ = ("table",)
    TABLE_FIELD_NUMBER: _ClassVar[int]
    table: _types_pb2.TableDescriptor
    def __init__(self, table: _Optional[_Union[_types_pb2.TableDescriptor, _Mapping]] = ...) -> None: ...

class DescribeTableRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DescribeTableResponse(_message.Message):
    __slots__ = ("table", "regions")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    REGIONS_FIELD_NUMBER: _ClassVar[int]
    table: _types_pb2.TableDescriptor
    regions: _containers.RepeatedCompositeFieldContainer[RegionStatistics]
    def __init__(self, table: _Optional[_Union[_types_pb2.TableDescriptor, _Mapping]] = ..., regions: _Optional[_Iterable[_Union[RegionStatistics, _Mapping]]] = ...) -> None: ...

class RegionStatistics(_message.Message):
    __slots__ = ("region", "memstore_bytes", "store_file_count", "store_file_bytes", "store_file_cells", "read_point", "kept_answer_count", "kept_answer_bytes", "open_read_count", "state", "error")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[RegionStatistics.State]
        STATE_OPEN: _ClassVar[RegionStatistics.State]
        STATE_DAMAGED: _ClassVar[RegionStatistics.State]
    STATE_UNSPECIFIED: RegionStatistics.State
    STATE_OPEN: RegionStatistics.State
    STATE_DAMAGED: RegionStatistics.State
    REGION_FIELD_NUMBER: _ClassVar[int]
    MEMSTORE_BYTES_FIELD_NUMBER: _ClassVar[int]
    STORE_FILE_COUNT_FIELD_NUMBER: _ClassVar[int]
    STORE_FILE_BYTES_FIELD_NUMBER: _ClassVar[int]
    STORE_FILE_CELLS_FIELD_NUMBER: _ClassVar[int]
    READ_POINT_FIELD_NUMBER: _ClassVar[int]
    KEPT_ANSWER_COUNT_FIELD_NUMBER: _ClassVar[int]
    KEPT_ANSWER_BYTES_FIELD_NUMBER: _ClassVar[int]
    OPEN_READ_COUNT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    region: _types_pb2.RegionDescriptor
    memstore_bytes: int
    store_file_count: int
    store_file_bytes: int
    store_file_cells: int
    read_point: int
    kept_answer_count: int
    kept_answer_bytes: int
    open_read_count: int
    state: RegionStatistics.State
    error: str
    def __init__(self, region: _Optional[_Union[_types_pb2.RegionDescriptor, _Mapping]] = ..., memstore_bytes: _Optional[int] = ..., store_file_count: _Optional[int] = ..., store_file_bytes: _Optional[int] = ..., store_file_cells: _Optional[int] = ..., read_point: _Optional[int] = ..., kept_answer_count: _Optional[int] = ..., kept_answer_bytes: _Optional[int] = ..., open_read_count: _Optional[int] = ..., state: _Optional[_Union[RegionStatistics.State, str]] = ..., error: _Optional[str] = ...) -> None: ...

class ListTablesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListTablesResponse(_message.Message):
    __slots__ = ("tables",)
    TABLES_FIELD_NUMBER: _ClassVar[int]
    tables: _containers.RepeatedCompositeFieldContainer[_types_pb2.TableDescriptor]
    def __init__(self, tables: _Optional[_Iterable[_Union[_types_pb2.TableDescriptor, _Mapping]]] = ...) -> None: ...

class LocateRegionsRequest(_message.Message):
    __slots__ = ("table", "start", "stop")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    table: str
    start: bytes
    stop: bytes
    def __init__(self, table: _Optional[str] = ..., start: _Optional[bytes] = ..., stop: _Optional[bytes] = ...) -> None: ...

class LocateRegionsResponse(_message.Message):
    __slots__ = ("regions",)
    REGIONS_FIELD_NUMBER: _ClassVar[int]
    regions: _containers.RepeatedCompositeFieldContainer[_types_pb2.RegionDescriptor]
    def __init__(self, regions: _Optional[_Iterable[_Union[_types_pb2.RegionDescriptor, _Mapping]]] = ...) -> None: ...

class ListRegionsRequest(_message.Message):
    __slots__ = ("table", "start", "stop")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    table: str
    start: bytes
    stop: bytes
    def __init__(self, table: _Optional[str] = ..., start: _Optional[bytes] = ..., stop: _Optional[bytes] = ...) -> None: ...

class ListRegionsResponse(_message.Message):
    __slots__ = ("regions",)
    REGIONS_FIELD_NUMBER: _ClassVar[int]
    regions: _containers.RepeatedCompositeFieldContainer[RegionStatistics]
    def __init__(self, regions: _Optional[_Iterable[_Union[RegionStatistics, _Mapping]]] = ...) -> None: ...

class SplitRegionRequest(_message.Message):
    __slots__ = ("table", "region_id", "split_row", "is_repeated", "lock")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    REGION_ID_FIELD_NUMBER: _ClassVar[int]
    SPLIT_ROW_FIELD_NUMBER: _ClassVar[int]
    IS_REPEATED_FIELD_NUMBER: _ClassVar[int]
    LOCK_FIELD_NUMBER: _ClassVar[int]
    table: str
    region_id: int
    split_row: bytes
    is_repeated: bool
    lock: LockOptions
    def __init__(self, table: _Optional[str] = ..., region_id: _Optional[int] = ..., split_row: _Optional[bytes] = ..., is_repeated: bool = ..., lock: _Optional[_Union[LockOptions, _Mapping]] = ...) -> None: ...

class SplitRegionResponse(_message.Message):
    __slots__ = ("regions",)
    REGIONS_FIELD_NUMBER: _ClassVar[int]
    regions: _containers.RepeatedCompositeFieldContainer[_types_pb2.RegionDescriptor]
    def __init__(self, regions: _Optional[_Iterable[_Union[_types_pb2.RegionDescriptor, _Mapping]]] = ...) -> None: ...

class MergeRegionsRequest(_message.Message):
    __slots__ = ("table", "region_ids", "row", "is_repeated", "lock")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    REGION_IDS_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    IS_REPEATED_FIELD_NUMBER: _ClassVar[int]
    LOCK_FIELD_NUMBER: _ClassVar[int]
    table: str
    region_ids: _containers.RepeatedScalarFieldContainer[int]
    row: bytes
    is_repeated: bool
    lock: LockOptions
    def __init__(self, table: _Optional[str] = ..., region_ids: _Optional[_Iterable[int]] = ..., row: _Optional[bytes] = ..., is_repeated: bool = ..., lock: _Optional[_Union[LockOptions, _Mapping]] = ...) -> None: ...

class MergeRegionsResponse(_message.Message):
    __slots__ = ("region",)
    REGION_FIELD_NUMBER: _ClassVar[int]
    region: _types_pb2.RegionDescriptor
    def __init__(self, region: _Optional[_Union[_types_pb2.RegionDescriptor, _Mapping]] = ...) -> None: ...

class Snapshot(_message.Message):
    __slots__ = ("snapshot_id", "table", "table_id", "made_ms", "lease_ms", "regions")
    class RegionReadPoint(_message.Message):
        __slots__ = ("region_id", "read_point")
        REGION_ID_FIELD_NUMBER: _ClassVar[int]
        READ_POINT_FIELD_NUMBER: _ClassVar[int]
        region_id: int
        read_point: int
        def __init__(self, region_id: _Optional[int] = ..., read_point: _Optional[int] = ...) -> None: ...
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    MADE_MS_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    REGIONS_FIELD_NUMBER: _ClassVar[int]
    snapshot_id: bytes
    table: str
    table_id: int
    made_ms: int
    lease_ms: int
    regions: _containers.RepeatedCompositeFieldContainer[Snapshot.RegionReadPoint]
    def __init__(self, snapshot_id: _Optional[bytes] = ..., table: _Optional[str] = ..., table_id: _Optional[int] = ..., made_ms: _Optional[int] = ..., lease_ms: _Optional[int] = ..., regions: _Optional[_Iterable[_Union[Snapshot.RegionReadPoint, _Mapping]]] = ...) -> None: ...

class MakeSnapshotRequest(_message.Message):
    __slots__ = ("table", "snapshot_id", "lease_ms", "incarnation_id", "lock")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_ID_FIELD_NUMBER: _ClassVar[int]
    LOCK_FIELD_NUMBER: _ClassVar[int]
    table: str
    snapshot_id: bytes
    lease_ms: int
    incarnation_id: str
    lock: LockOptions
    def __init__(self, table: _Optional[str] = ..., snapshot_id: _Optional[bytes] = ..., lease_ms: _Optional[int] = ..., incarnation_id: _Optional[str] = ..., lock: _Optional[_Union[LockOptions, _Mapping]] = ...) -> None: ...

class MakeSnapshotResponse(_message.Message):
    __slots__ = ("snapshot",)
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    snapshot: Snapshot
    def __init__(self, snapshot: _Optional[_Union[Snapshot, _Mapping]] = ...) -> None: ...

class RenewSnapshotRequest(_message.Message):
    __slots__ = ("snapshot_id",)
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    snapshot_id: bytes
    def __init__(self, snapshot_id: _Optional[bytes] = ...) -> None: ...

class RenewSnapshotResponse(_message.Message):
    __slots__ = ("snapshot",)
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    snapshot: Snapshot
    def __init__(self, snapshot: _Optional[_Union[Snapshot, _Mapping]] = ...) -> None: ...

class EndSnapshotRequest(_message.Message):
    __slots__ = ("snapshot_id",)
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    snapshot_id: bytes
    def __init__(self, snapshot_id: _Optional[bytes] = ...) -> None: ...

class EndSnapshotResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class NamedSnapshot(_message.Message):
    __slots__ = ("name", "table", "made_ms", "region_count", "store_file_count", "store_file_bytes", "own_bytes", "error")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    MADE_MS_FIELD_NUMBER: _ClassVar[int]
    REGION_COUNT_FIELD_NUMBER: _ClassVar[int]
    STORE_FILE_COUNT_FIELD_NUMBER: _ClassVar[int]
    STORE_FILE_BYTES_FIELD_NUMBER: _ClassVar[int]
    OWN_BYTES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    name: str
    table: _types_pb2.TableDescriptor
    made_ms: int
    region_count: int
    store_file_count: int
    store_file_bytes: int
    own_bytes: int
    error: str
    def __init__(self, name: _Optional[str] = ..., table: _Optional[_Union[_types_pb2.TableDescriptor, _Mapping]] = ..., made_ms: _Optional[int] = ..., region_count: _Optional[int] = ..., store_file_count: _Optional[int] = ..., store_file_bytes: _Optional[int] = ..., own_bytes: _Optional[int] = ..., error: _Optional[str] = ...) -> None: ...

class CreateNamedSnapshotRequest(_message.Message):
    __slots__ = ("name", "table", "lock")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    LOCK_FIELD_NUMBER: _ClassVar[int]
    name: str
    table: str
    lock: LockOptions
    def __init__(self, name: _Optional[str] = ..., table: _Optional[str] = ..., lock: _Optional[_Union[LockOptions, _Mapping]] = ...) -> None: ...

class CreateNamedSnapshotResponse(_message.Message):
    __slots__ = ("snapshot",)
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    snapshot: NamedSnapshot
    def __init__(self, snapshot: _Optional[_Union[NamedSnapshot, _Mapping]] = ...) -> None: ...

class ListNamedSnapshotsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListNamedSnapshotsResponse(_message.Message):
    __slots__ = ("snapshots",)
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    snapshots: _containers.RepeatedCompositeFieldContainer[NamedSnapshot]
    def __init__(self, snapshots: _Optional[_Iterable[_Union[NamedSnapshot, _Mapping]]] = ...) -> None: ...

class RestoreNamedSnapshotRequest(_message.Message):
    __slots__ = ("name", "table", "lock")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    LOCK_FIELD_NUMBER: _ClassVar[int]
    name: str
    table: str
    lock: LockOptions
    def __init__(self, name: _Optional[str] = ..., table: _Optional[str] = ..., lock: _Optional[_Union[LockOptions, _Mapping]] = ...) -> None: ...

class RestoreNamedSnapshotResponse(_message.Message):
    __slots__ = ("table",)
    TABLE_FIELD_NUMBER: _ClassVar[int]
    table: _types_pb2.TableDescriptor
    def __init__(self, table: _Optional[_Union[_types_pb2.TableDescriptor, _Mapping]] = ...) -> None: ...

class DropNamedSnapshotRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DropNamedSnapshotResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CompactRequest(_message.Message):
    __slots__ = ("table", "families", "region_ids", "major", "properties")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TABLE_FIELD_NUMBER: _ClassVar[int]
    FAMILIES_FIELD_NUMBER: _ClassVar[int]
    REGION_IDS_FIELD_NUMBER: _ClassVar[int]
    MAJOR_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    table: str
    families: _containers.RepeatedScalarFieldContainer[bytes]
    region_ids: _containers.RepeatedScalarFieldContainer[int]
    major: bool
    properties: _containers.ScalarMap[str, str]
    def __init__(self, table: _Optional[str] = ..., families: _Optional[_Iterable[bytes]] = ..., region_ids: _Optional[_Iterable[int]] = ..., major: bool = ..., properties: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CompactResponse(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ids: _Optional[_Iterable[int]] = ...) -> None: ...

class Compaction(_message.Message):
    __slots__ = ("id", "table", "family", "region_id", "kind", "state", "requested_by_hand", "why", "worker", "queued_ms", "started_ms", "ended_ms", "bytes_total", "bytes_read", "bytes_written", "files_in", "files_out", "cells_in", "cells_out", "error")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[Compaction.Kind]
        KIND_MINOR: _ClassVar[Compaction.Kind]
        KIND_MAJOR: _ClassVar[Compaction.Kind]
    KIND_UNSPECIFIED: Compaction.Kind
    KIND_MINOR: Compaction.Kind
    KIND_MAJOR: Compaction.Kind
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[Compaction.State]
        STATE_QUEUED: _ClassVar[Compaction.State]
        STATE_WORKING: _ClassVar[Compaction.State]
        STATE_SUCCEEDED: _ClassVar[Compaction.State]
        STATE_FAILED: _ClassVar[Compaction.State]
        STATE_ATTEMPTED: _ClassVar[Compaction.State]
    STATE_UNSPECIFIED: Compaction.State
    STATE_QUEUED: Compaction.State
    STATE_WORKING: Compaction.State
    STATE_SUCCEEDED: Compaction.State
    STATE_FAILED: Compaction.State
    STATE_ATTEMPTED: Compaction.State
    ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    REGION_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_BY_HAND_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    QUEUED_MS_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    ENDED_MS_FIELD_NUMBER: _ClassVar[int]
    BYTES_TOTAL_FIELD_NUMBER: _ClassVar[int]
    BYTES_READ_FIELD_NUMBER: _ClassVar[int]
    BYTES_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    FILES_IN_FIELD_NUMBER: _ClassVar[int]
    FILES_OUT_FIELD_NUMBER: _ClassVar[int]
    CELLS_IN_FIELD_NUMBER: _ClassVar[int]
    CELLS_OUT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    id: int
    table: str
    family: bytes
    region_id: int
    kind: Compaction.Kind
    state: Compaction.State
    requested_by_hand: bool
    why: str
    worker: str
    queued_ms: int
    started_ms: int
    ended_ms: int
    bytes_total: int
    bytes_read: int
    bytes_written: int
    files_in: int
    files_out: int
    cells_in: int
    cells_out: int
    error: str
    def __init__(self, id: _Optional[int] = ..., table: _Optional[str] = ..., family: _Optional[bytes] = ..., region_id: _Optional[int] = ..., kind: _Optional[_Union[Compaction.Kind, str]] = ..., state: _Optional[_Union[Compaction.State, str]] = ..., requested_by_hand: bool = ..., why: _Optional[str] = ..., worker: _Optional[str] = ..., queued_ms: _Optional[int] = ..., started_ms: _Optional[int] = ..., ended_ms: _Optional[int] = ..., bytes_total: _Optional[int] = ..., bytes_read: _Optional[int] = ..., bytes_written: _Optional[int] = ..., files_in: _Optional[int] = ..., files_out: _Optional[int] = ..., cells_in: _Optional[int] = ..., cells_out: _Optional[int] = ..., error: _Optional[str] = ...) -> None: ...

class ListCompactionsRequest(_message.Message):
    __slots__ = ("table", "ids")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    table: str
    ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, table: _Optional[str] = ..., ids: _Optional[_Iterable[int]] = ...) -> None: ...

class ListCompactionsResponse(_message.Message):
    __slots__ = ("compactions",)
    COMPACTIONS_FIELD_NUMBER: _ClassVar[int]
    compactions: _containers.RepeatedCompositeFieldContainer[Compaction]
    def __init__(self, compactions: _Optional[_Iterable[_Union[Compaction, _Mapping]]] = ...) -> None: ...

class CancelCompactionsRequest(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ids: _Optional[_Iterable[int]] = ...) -> None: ...

class CancelCompactionsResponse(_message.Message):
    __slots__ = ("compactions",)
    COMPACTIONS_FIELD_NUMBER: _ClassVar[int]
    compactions: _containers.RepeatedCompositeFieldContainer[Compaction]
    def __init__(self, compactions: _Optional[_Iterable[_Union[Compaction, _Mapping]]] = ...) -> None: ...

class ServerInfoRequest(_message.Message):
    __slots__ = ("reserve_ms", "table", "protocol")
    RESERVE_MS_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    reserve_ms: int
    table: str
    protocol: int
    def __init__(self, reserve_ms: _Optional[int] = ..., table: _Optional[str] = ..., protocol: _Optional[int] = ...) -> None: ...

class ServerInfoResponse(_message.Message):
    __slots__ = ("version", "protocol", "now_ms", "data_folder_id", "incarnation_id", "limits", "uptime_ms", "reserved_ms", "request_ids_remembered_ms", "direct", "procedures")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    NOW_MS_FIELD_NUMBER: _ClassVar[int]
    DATA_FOLDER_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_ID_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    UPTIME_MS_FIELD_NUMBER: _ClassVar[int]
    RESERVED_MS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_IDS_REMEMBERED_MS_FIELD_NUMBER: _ClassVar[int]
    DIRECT_FIELD_NUMBER: _ClassVar[int]
    PROCEDURES_FIELD_NUMBER: _ClassVar[int]
    version: str
    protocol: int
    now_ms: int
    data_folder_id: str
    incarnation_id: str
    limits: Limits
    uptime_ms: int
    reserved_ms: int
    request_ids_remembered_ms: int
    direct: DirectAddress
    procedures: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, version: _Optional[str] = ..., protocol: _Optional[int] = ..., now_ms: _Optional[int] = ..., data_folder_id: _Optional[str] = ..., incarnation_id: _Optional[str] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., uptime_ms: _Optional[int] = ..., reserved_ms: _Optional[int] = ..., request_ids_remembered_ms: _Optional[int] = ..., direct: _Optional[_Union[DirectAddress, _Mapping]] = ..., procedures: _Optional[_Iterable[str]] = ...) -> None: ...

class DirectAddress(_message.Message):
    __slots__ = ("address", "socket")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SOCKET_FIELD_NUMBER: _ClassVar[int]
    address: str
    socket: bytes
    def __init__(self, address: _Optional[str] = ..., socket: _Optional[bytes] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("row_bytes_max", "qualifier_bytes_max", "cell_bytes_max", "request_bytes_max", "timestamp_ahead_ms_max")
    ROW_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    QUALIFIER_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    CELL_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    REQUEST_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_AHEAD_MS_MAX_FIELD_NUMBER: _ClassVar[int]
    row_bytes_max: int
    qualifier_bytes_max: int
    cell_bytes_max: int
    request_bytes_max: int
    timestamp_ahead_ms_max: int
    def __init__(self, row_bytes_max: _Optional[int] = ..., qualifier_bytes_max: _Optional[int] = ..., cell_bytes_max: _Optional[int] = ..., request_bytes_max: _Optional[int] = ..., timestamp_ahead_ms_max: _Optional[int] = ...) -> None: ...

class ServerStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ServerStatusResponse(_message.Message):
    __slots__ = ("version", "data_folder_id", "incarnation_id", "uptime_ms", "now_ms", "memory", "disk", "log", "tables", "snapshots", "calls", "compactions", "procedures")
    class Memory(_message.Message):
        __slots__ = ("bytes_max", "bytes_held", "resident_bytes", "parts")
        BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
        BYTES_HELD_FIELD_NUMBER: _ClassVar[int]
        RESIDENT_BYTES_FIELD_NUMBER: _ClassVar[int]
        PARTS_FIELD_NUMBER: _ClassVar[int]
        bytes_max: int
        bytes_held: int
        resident_bytes: int
        parts: _containers.RepeatedCompositeFieldContainer[ServerStatusResponse.Part]
        def __init__(self, bytes_max: _Optional[int] = ..., bytes_held: _Optional[int] = ..., resident_bytes: _Optional[int] = ..., parts: _Optional[_Iterable[_Union[ServerStatusResponse.Part, _Mapping]]] = ...) -> None: ...
    class Part(_message.Message):
        __slots__ = ("setting", "bytes_max", "bytes_held", "bytes_held_peak")
        SETTING_FIELD_NUMBER: _ClassVar[int]
        BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
        BYTES_HELD_FIELD_NUMBER: _ClassVar[int]
        BYTES_HELD_PEAK_FIELD_NUMBER: _ClassVar[int]
        setting: str
        bytes_max: int
        bytes_held: int
        bytes_held_peak: int
        def __init__(self, setting: _Optional[str] = ..., bytes_max: _Optional[int] = ..., bytes_held: _Optional[int] = ..., bytes_held_peak: _Optional[int] = ...) -> None: ...
    class Disk(_message.Message):
        __slots__ = ("free_bytes", "open_store_files", "named_snapshot_count", "named_snapshot_bytes")
        FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
        OPEN_STORE_FILES_FIELD_NUMBER: _ClassVar[int]
        NAMED_SNAPSHOT_COUNT_FIELD_NUMBER: _ClassVar[int]
        NAMED_SNAPSHOT_BYTES_FIELD_NUMBER: _ClassVar[int]
        free_bytes: int
        open_store_files: int
        named_snapshot_count: int
        named_snapshot_bytes: int
        def __init__(self, free_bytes: _Optional[int] = ..., open_store_files: _Optional[int] = ..., named_snapshot_count: _Optional[int] = ..., named_snapshot_bytes: _Optional[int] = ...) -> None: ...
    class Log(_message.Message):
        __slots__ = ("segment_count", "segment_bytes", "pending_bytes", "is_full")
        SEGMENT_COUNT_FIELD_NUMBER: _ClassVar[int]
        SEGMENT_BYTES_FIELD_NUMBER: _ClassVar[int]
        PENDING_BYTES_FIELD_NUMBER: _ClassVar[int]
        IS_FULL_FIELD_NUMBER: _ClassVar[int]
        segment_count: int
        segment_bytes: int
        pending_bytes: int
        is_full: bool
        def __init__(self, segment_count: _Optional[int] = ..., segment_bytes: _Optional[int] = ..., pending_bytes: _Optional[int] = ..., is_full: bool = ...) -> None: ...
    class TableStatus(_message.Message):
        __slots__ = ("name", "region_count", "damaged_region_count", "memstore_bytes", "store_file_count", "store_file_bytes", "store_file_cells")
        NAME_FIELD_NUMBER: _ClassVar[int]
        REGION_COUNT_FIELD_NUMBER: _ClassVar[int]
        DAMAGED_REGION_COUNT_FIELD_NUMBER: _ClassVar[int]
        MEMSTORE_BYTES_FIELD_NUMBER: _ClassVar[int]
        STORE_FILE_COUNT_FIELD_NUMBER: _ClassVar[int]
        STORE_FILE_BYTES_FIELD_NUMBER: _ClassVar[int]
        STORE_FILE_CELLS_FIELD_NUMBER: _ClassVar[int]
        name: str
        region_count: int
        damaged_region_count: int
        memstore_bytes: int
        store_file_count: int
        store_file_bytes: int
        store_file_cells: int
        def __init__(self, name: _Optional[str] = ..., region_count: _Optional[int] = ..., damaged_region_count: _Optional[int] = ..., memstore_bytes: _Optional[int] = ..., store_file_count: _Optional[int] = ..., store_file_bytes: _Optional[int] = ..., store_file_cells: _Optional[int] = ...) -> None: ...
    class SnapshotStatus(_message.Message):
        __slots__ = ("snapshot", "expires_in_ms", "scan_count", "writes_since")
        SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
        EXPIRES_IN_MS_FIELD_NUMBER: _ClassVar[int]
        SCAN_COUNT_FIELD_NUMBER: _ClassVar[int]
        WRITES_SINCE_FIELD_NUMBER: _ClassVar[int]
        snapshot: Snapshot
        expires_in_ms: int
        scan_count: int
        writes_since: int
        def __init__(self, snapshot: _Optional[_Union[Snapshot, _Mapping]] = ..., expires_in_ms: _Optional[int] = ..., scan_count: _Optional[int] = ..., writes_since: _Optional[int] = ...) -> None: ...
    class Calls(_message.Message):
        __slots__ = ("connection_count", "call_count", "scan_count", "conversation_count")
        CONNECTION_COUNT_FIELD_NUMBER: _ClassVar[int]
        CALL_COUNT_FIELD_NUMBER: _ClassVar[int]
        SCAN_COUNT_FIELD_NUMBER: _ClassVar[int]
        CONVERSATION_COUNT_FIELD_NUMBER: _ClassVar[int]
        connection_count: int
        call_count: int
        scan_count: int
        conversation_count: int
        def __init__(self, connection_count: _Optional[int] = ..., call_count: _Optional[int] = ..., scan_count: _Optional[int] = ..., conversation_count: _Optional[int] = ...) -> None: ...
    class Compactions(_message.Message):
        __slots__ = ("queued_count", "working_count")
        QUEUED_COUNT_FIELD_NUMBER: _ClassVar[int]
        WORKING_COUNT_FIELD_NUMBER: _ClassVar[int]
        queued_count: int
        working_count: int
        def __init__(self, queued_count: _Optional[int] = ..., working_count: _Optional[int] = ...) -> None: ...
    class Procedure(_message.Message):
        __slots__ = ("name", "call_count", "failed_count")
        NAME_FIELD_NUMBER: _ClassVar[int]
        CALL_COUNT_FIELD_NUMBER: _ClassVar[int]
        FAILED_COUNT_FIELD_NUMBER: _ClassVar[int]
        name: str
        call_count: int
        failed_count: int
        def __init__(self, name: _Optional[str] = ..., call_count: _Optional[int] = ..., failed_count: _Optional[int] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DATA_FOLDER_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_ID_FIELD_NUMBER: _ClassVar[int]
    UPTIME_MS_FIELD_NUMBER: _ClassVar[int]
    NOW_MS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    DISK_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    COMPACTIONS_FIELD_NUMBER: _ClassVar[int]
    PROCEDURES_FIELD_NUMBER: _ClassVar[int]
    version: str
    data_folder_id: str
    incarnation_id: str
    uptime_ms: int
    now_ms: int
    memory: ServerStatusResponse.Memory
    disk: ServerStatusResponse.Disk
    log: ServerStatusResponse.Log
    tables: _containers.RepeatedCompositeFieldContainer[ServerStatusResponse.TableStatus]
    snapshots: _containers.RepeatedCompositeFieldContainer[ServerStatusResponse.SnapshotStatus]
    calls: ServerStatusResponse.Calls
    compactions: ServerStatusResponse.Compactions
    procedures: _containers.RepeatedCompositeFieldContainer[ServerStatusResponse.Procedure]
    def __init__(self, version: _Optional[str] = ..., data_folder_id: _Optional[str] = ..., incarnation_id: _Optional[str] = ..., uptime_ms: _Optional[int] = ..., now_ms: _Optional[int] = ..., memory: _Optional[_Union[ServerStatusResponse.Memory, _Mapping]] = ..., disk: _Optional[_Union[ServerStatusResponse.Disk, _Mapping]] = ..., log: _Optional[_Union[ServerStatusResponse.Log, _Mapping]] = ..., tables: _Optional[_Iterable[_Union[ServerStatusResponse.TableStatus, _Mapping]]] = ..., snapshots: _Optional[_Iterable[_Union[ServerStatusResponse.SnapshotStatus, _Mapping]]] = ..., calls: _Optional[_Union[ServerStatusResponse.Calls, _Mapping]] = ..., compactions: _Optional[_Union[ServerStatusResponse.Compactions, _Mapping]] = ..., procedures: _Optional[_Iterable[_Union[ServerStatusResponse.Procedure, _Mapping]]] = ...) -> None: ...
