from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Durability(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DURABILITY_UNSPECIFIED: _ClassVar[Durability]
    DURABILITY_SKIP: _ClassVar[Durability]
    DURABILITY_ASYNC: _ClassVar[Durability]
    DURABILITY_OS: _ClassVar[Durability]
    DURABILITY_FSYNC: _ClassVar[Durability]

class Compression(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMPRESSION_NONE: _ClassVar[Compression]
    COMPRESSION_LZ4: _ClassVar[Compression]
    COMPRESSION_ZSTD: _ClassVar[Compression]

class BloomFilter(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BLOOM_FILTER_ROW: _ClassVar[BloomFilter]
    BLOOM_FILTER_NONE: _ClassVar[BloomFilter]

class CompareOp(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMPARE_OP_EQUAL: _ClassVar[CompareOp]
    COMPARE_OP_NOT_EQUAL: _ClassVar[CompareOp]
    COMPARE_OP_LESS: _ClassVar[CompareOp]
    COMPARE_OP_LESS_OR_EQUAL: _ClassVar[CompareOp]
    COMPARE_OP_GREATER: _ClassVar[CompareOp]
    COMPARE_OP_GREATER_OR_EQUAL: _ClassVar[CompareOp]

class ValueType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VALUE_TYPE_BYTES: _ClassVar[ValueType]
    VALUE_TYPE_STRING: _ClassVar[ValueType]
    VALUE_TYPE_INT64: _ClassVar[ValueType]
    VALUE_TYPE_INT32: _ClassVar[ValueType]
    VALUE_TYPE_INT16: _ClassVar[ValueType]
    VALUE_TYPE_INT8: _ClassVar[ValueType]
    VALUE_TYPE_FLOAT64: _ClassVar[ValueType]
    VALUE_TYPE_FLOAT32: _ClassVar[ValueType]
    VALUE_TYPE_BOOLEAN: _ClassVar[ValueType]
    VALUE_TYPE_TEXT_INT: _ClassVar[ValueType]
    VALUE_TYPE_TEXT_FLOAT: _ClassVar[ValueType]
DURABILITY_UNSPECIFIED: Durability
DURABILITY_SKIP: Durability
DURABILITY_ASYNC: Durability
DURABILITY_OS: Durability
DURABILITY_FSYNC: Durability
COMPRESSION_NONE: Compression
COMPRESSION_LZ4: Compression
COMPRESSION_ZSTD: Compression
BLOOM_FILTER_ROW: BloomFilter
BLOOM_FILTER_NONE: BloomFilter
COMPARE_OP_EQUAL: CompareOp
COMPARE_OP_NOT_EQUAL: CompareOp
COMPARE_OP_LESS: CompareOp
COMPARE_OP_LESS_OR_EQUAL: CompareOp
COMPARE_OP_GREATER: CompareOp
COMPARE_OP_GREATER_OR_EQUAL: CompareOp
VALUE_TYPE_BYTES: ValueType
VALUE_TYPE_STRING: ValueType
VALUE_TYPE_INT64: ValueType
VALUE_TYPE_INT32: ValueType
VALUE_TYPE_INT16: ValueType
VALUE_TYPE_INT8: ValueType
VALUE_TYPE_FLOAT64: ValueType
VALUE_TYPE_FLOAT32: ValueType
VALUE_TYPE_BOOLEAN: ValueType
VALUE_TYPE_TEXT_INT: ValueType
VALUE_TYPE_TEXT_FLOAT: ValueType

class Family(_message.Message):
    __slots__ = ("name", "versions", "min_versions", "time_to_live_ms", "block_bytes", "compression", "bloom_filter")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    MIN_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    TIME_TO_LIVE_MS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_BYTES_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    BLOOM_FILTER_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    versions: int
    min_versions: int
    time_to_live_ms: int
    block_bytes: int
    compression: Compression
    bloom_filter: BloomFilter
    def __init__(self, name: _Optional[bytes] = ..., versions: _Optional[int] = ..., min_versions: _Optional[int] = ..., time_to_live_ms: _Optional[int] = ..., block_bytes: _Optional[int] = ..., compression: _Optional[_Union[Compression, str]] = ..., bloom_filter: _Optional[_Union[BloomFilter, str]] = ...) -> None: ...

class TableDescriptor(_message.Message):
    __slots__ = ("name", "families", "durability", "table_id", "properties")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    FAMILIES_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    name: str
    families: _containers.RepeatedCompositeFieldContainer[Family]
    durability: Durability
    table_id: int
    properties: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., families: _Optional[_Iterable[_Union[Family, _Mapping]]] = ..., durability: _Optional[_Union[Durability, str]] = ..., table_id: _Optional[int] = ..., properties: _Optional[_Mapping[str, str]] = ...) -> None: ...

class RegionDescriptor(_message.Message):
    __slots__ = ("region_id", "table", "table_id", "start", "stop", "server", "descriptor", "data_folder_id")
    REGION_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    DATA_FOLDER_ID_FIELD_NUMBER: _ClassVar[int]
    region_id: int
    table: str
    table_id: int
    start: bytes
    stop: bytes
    server: str
    descriptor: TableDescriptor
    data_folder_id: str
    def __init__(self, region_id: _Optional[int] = ..., table: _Optional[str] = ..., table_id: _Optional[int] = ..., start: _Optional[bytes] = ..., stop: _Optional[bytes] = ..., server: _Optional[str] = ..., descriptor: _Optional[_Union[TableDescriptor, _Mapping]] = ..., data_folder_id: _Optional[str] = ...) -> None: ...

class SessionRef(_message.Message):
    __slots__ = ("session_id", "number")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    number: int
    def __init__(self, session_id: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class Cell(_message.Message):
    __slots__ = ("family", "qualifier", "timestamp", "value")
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    QUALIFIER_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    family: bytes
    qualifier: bytes
    timestamp: int
    value: bytes
    def __init__(self, family: _Optional[bytes] = ..., qualifier: _Optional[bytes] = ..., timestamp: _Optional[int] = ..., value: _Optional[bytes] = ...) -> None: ...

class Column(_message.Message):
    __slots__ = ("family", "qualifier")
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    QUALIFIER_FIELD_NUMBER: _ClassVar[int]
    family: bytes
    qualifier: bytes
    def __init__(self, family: _Optional[bytes] = ..., qualifier: _Optional[bytes] = ...) -> None: ...

class TimeRange(_message.Message):
    __slots__ = ("start", "stop")
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    start: int
    stop: int
    def __init__(self, start: _Optional[int] = ..., stop: _Optional[int] = ...) -> None: ...

class Put(_message.Message):
    __slots__ = ("family", "qualifier", "value", "timestamp")
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    QUALIFIER_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    family: bytes
    qualifier: bytes
    value: bytes
    timestamp: int
    def __init__(self, family: _Optional[bytes] = ..., qualifier: _Optional[bytes] = ..., value: _Optional[bytes] = ..., timestamp: _Optional[int] = ...) -> None: ...

class Delete(_message.Message):
    __slots__ = ("kind", "family", "qualifier", "timestamp")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_COLUMN: _ClassVar[Delete.Kind]
        KIND_VERSION: _ClassVar[Delete.Kind]
        KIND_FAMILY: _ClassVar[Delete.Kind]
        KIND_ROW: _ClassVar[Delete.Kind]
    KIND_COLUMN: Delete.Kind
    KIND_VERSION: Delete.Kind
    KIND_FAMILY: Delete.Kind
    KIND_ROW: Delete.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    QUALIFIER_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    kind: Delete.Kind
    family: bytes
    qualifier: bytes
    timestamp: int
    def __init__(self, kind: _Optional[_Union[Delete.Kind, str]] = ..., family: _Optional[bytes] = ..., qualifier: _Optional[bytes] = ..., timestamp: _Optional[int] = ...) -> None: ...

class Increment(_message.Message):
    __slots__ = ("family", "qualifier", "amount")
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    QUALIFIER_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    family: bytes
    qualifier: bytes
    amount: int
    def __init__(self, family: _Optional[bytes] = ..., qualifier: _Optional[bytes] = ..., amount: _Optional[int] = ...) -> None: ...

class Append(_message.Message):
    __slots__ = ("family", "qualifier", "suffix")
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    QUALIFIER_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_FIELD_NUMBER: _ClassVar[int]
    family: bytes
    qualifier: bytes
    suffix: bytes
    def __init__(self, family: _Optional[bytes] = ..., qualifier: _Optional[bytes] = ..., suffix: _Optional[bytes] = ...) -> None: ...

class Change(_message.Message):
    __slots__ = ("put", "delete", "increment", "append")
    PUT_FIELD_NUMBER: _ClassVar[int]
    DELETE_FIELD_NUMBER: _ClassVar[int]
    INCREMENT_FIELD_NUMBER: _ClassVar[int]
    APPEND_FIELD_NUMBER: _ClassVar[int]
    put: Put
    delete: Delete
    increment: Increment
    append: Append
    def __init__(self, put: _Optional[_Union[Put, _Mapping]] = ..., delete: _Optional[_Union[Delete, _Mapping]] = ..., increment: _Optional[_Union[Increment, _Mapping]] = ..., append: _Optional[_Union[Append, _Mapping]] = ...) -> None: ...

class ColumnComparison(_message.Message):
    __slots__ = ("family", "qualifier", "op", "operand", "type")
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    QUALIFIER_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    OPERAND_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    family: bytes
    qualifier: bytes
    op: CompareOp
    operand: bytes
    type: ValueType
    def __init__(self, family: _Optional[bytes] = ..., qualifier: _Optional[bytes] = ..., op: _Optional[_Union[CompareOp, str]] = ..., operand: _Optional[bytes] = ..., type: _Optional[_Union[ValueType, str]] = ...) -> None: ...

class ColumnPresence(_message.Message):
    __slots__ = ("family", "qualifier", "present")
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    QUALIFIER_FIELD_NUMBER: _ClassVar[int]
    PRESENT_FIELD_NUMBER: _ClassVar[int]
    family: bytes
    qualifier: bytes
    present: bool
    def __init__(self, family: _Optional[bytes] = ..., qualifier: _Optional[bytes] = ..., present: bool = ...) -> None: ...

class ColumnPattern(_message.Message):
    __slots__ = ("family", "qualifier", "kind", "operand")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_STARTS_WITH: _ClassVar[ColumnPattern.Kind]
        KIND_ENDS_WITH: _ClassVar[ColumnPattern.Kind]
        KIND_CONTAINS: _ClassVar[ColumnPattern.Kind]
        KIND_MATCHES: _ClassVar[ColumnPattern.Kind]
        KIND_MATCHES_TEXT: _ClassVar[ColumnPattern.Kind]
    KIND_STARTS_WITH: ColumnPattern.Kind
    KIND_ENDS_WITH: ColumnPattern.Kind
    KIND_CONTAINS: ColumnPattern.Kind
    KIND_MATCHES: ColumnPattern.Kind
    KIND_MATCHES_TEXT: ColumnPattern.Kind
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    QUALIFIER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    OPERAND_FIELD_NUMBER: _ClassVar[int]
    family: bytes
    qualifier: bytes
    kind: ColumnPattern.Kind
    operand: bytes
    def __init__(self, family: _Optional[bytes] = ..., qualifier: _Optional[bytes] = ..., kind: _Optional[_Union[ColumnPattern.Kind, str]] = ..., operand: _Optional[bytes] = ...) -> None: ...

class ColumnIn(_message.Message):
    __slots__ = ("family", "qualifier", "operands")
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    QUALIFIER_FIELD_NUMBER: _ClassVar[int]
    OPERANDS_FIELD_NUMBER: _ClassVar[int]
    family: bytes
    qualifier: bytes
    operands: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, family: _Optional[bytes] = ..., qualifier: _Optional[bytes] = ..., operands: _Optional[_Iterable[bytes]] = ...) -> None: ...

class RowComparison(_message.Message):
    __slots__ = ("op", "operand")
    OP_FIELD_NUMBER: _ClassVar[int]
    OPERAND_FIELD_NUMBER: _ClassVar[int]
    op: CompareOp
    operand: bytes
    def __init__(self, op: _Optional[_Union[CompareOp, str]] = ..., operand: _Optional[bytes] = ...) -> None: ...

class RowPattern(_message.Message):
    __slots__ = ("kind", "operand")
    KIND_FIELD_NUMBER: _ClassVar[int]
    OPERAND_FIELD_NUMBER: _ClassVar[int]
    kind: ColumnPattern.Kind
    operand: bytes
    def __init__(self, kind: _Optional[_Union[ColumnPattern.Kind, str]] = ..., operand: _Optional[bytes] = ...) -> None: ...

class FilterList(_message.Message):
    __slots__ = ("filters",)
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    filters: _containers.RepeatedCompositeFieldContainer[Filter]
    def __init__(self, filters: _Optional[_Iterable[_Union[Filter, _Mapping]]] = ...) -> None: ...

class Filter(_message.Message):
    __slots__ = ("all", "any", "column", "presence", "pattern", "column_in", "row", "row_prefix", "row_pattern")
    ALL_FIELD_NUMBER: _ClassVar[int]
    ANY_FIELD_NUMBER: _ClassVar[int]
    NOT_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    PRESENCE_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    COLUMN_IN_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    ROW_PREFIX_FIELD_NUMBER: _ClassVar[int]
    ROW_PATTERN_FIELD_NUMBER: _ClassVar[int]
    all: FilterList
    any: FilterList
    column: ColumnComparison
    presence: ColumnPresence
    pattern: ColumnPattern
    column_in: ColumnIn
    row: RowComparison
    row_prefix: bytes
    row_pattern: RowPattern
    def __init__(self, all: _Optional[_Union[FilterList, _Mapping]] = ..., any: _Optional[_Union[FilterList, _Mapping]] = ..., column: _Optional[_Union[ColumnComparison, _Mapping]] = ..., presence: _Optional[_Union[ColumnPresence, _Mapping]] = ..., pattern: _Optional[_Union[ColumnPattern, _Mapping]] = ..., column_in: _Optional[_Union[ColumnIn, _Mapping]] = ..., row: _Optional[_Union[RowComparison, _Mapping]] = ..., row_prefix: _Optional[bytes] = ..., row_pattern: _Optional[_Union[RowPattern, _Mapping]] = ..., **kwargs) -> None: ...

class CellFilter(_message.Message):
    __slots__ = ("qualifier_prefix", "qualifier_start", "qualifier_stop", "value", "keys_only", "first_key_only", "cell_offset", "cell_limit")
    class ValueComparison(_message.Message):
        __slots__ = ("op", "operand", "type")
        OP_FIELD_NUMBER: _ClassVar[int]
        OPERAND_FIELD_NUMBER: _ClassVar[int]
        TYPE_FIELD_NUMBER: _ClassVar[int]
        op: CompareOp
        operand: bytes
        type: ValueType
        def __init__(self, op: _Optional[_Union[CompareOp, str]] = ..., operand: _Optional[bytes] = ..., type: _Optional[_Union[ValueType, str]] = ...) -> None: ...
    QUALIFIER_PREFIX_FIELD_NUMBER: _ClassVar[int]
    QUALIFIER_START_FIELD_NUMBER: _ClassVar[int]
    QUALIFIER_STOP_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    KEYS_ONLY_FIELD_NUMBER: _ClassVar[int]
    FIRST_KEY_ONLY_FIELD_NUMBER: _ClassVar[int]
    CELL_OFFSET_FIELD_NUMBER: _ClassVar[int]
    CELL_LIMIT_FIELD_NUMBER: _ClassVar[int]
    qualifier_prefix: bytes
    qualifier_start: bytes
    qualifier_stop: bytes
    value: CellFilter.ValueComparison
    keys_only: bool
    first_key_only: bool
    cell_offset: int
    cell_limit: int
    def __init__(self, qualifier_prefix: _Optional[bytes] = ..., qualifier_start: _Optional[bytes] = ..., qualifier_stop: _Optional[bytes] = ..., value: _Optional[_Union[CellFilter.ValueComparison, _Mapping]] = ..., keys_only: bool = ..., first_key_only: bool = ..., cell_offset: _Optional[int] = ..., cell_limit: _Optional[int] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("code", "message", "row", "table", "family", "qualifier", "limit", "limit_value", "found", "retry_after_ms", "can_retry", "holders", "ended_ms", "reason", "rows")
    class Code(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CODE_UNSPECIFIED: _ClassVar[Error.Code]
        INVALID_ARGUMENT: _ClassVar[Error.Code]
        TABLE_NOT_FOUND: _ClassVar[Error.Code]
        TABLE_EXISTS: _ClassVar[Error.Code]
        FAMILY_NOT_FOUND: _ClassVar[Error.Code]
        LIMIT_EXCEEDED: _ClassVar[Error.Code]
        NOT_SERVING_REGION: _ClassVar[Error.Code]
        REGION_TOO_BUSY: _ClassVar[Error.Code]
        DEADLINE_EXCEEDED: _ClassVar[Error.Code]
        UNKNOWN_OUTCOME: _ClassVar[Error.Code]
        NOT_A_COUNTER: _ClassVar[Error.Code]
        COUNTER_OVERFLOW: _ClassVar[Error.Code]
        FILTER_TYPE_MISMATCH: _ClassVar[Error.Code]
        CORRUPTION: _ClassVar[Error.Code]
        LEASE_EXPIRED: _ClassVar[Error.Code]
        SERVER_STOPPING: _ClassVar[Error.Code]
        INTERNAL: _ClassVar[Error.Code]
        SNAPSHOT_ENDED: _ClassVar[Error.Code]
        DISK_FULL: _ClassVar[Error.Code]
        SERVER_RECOVERING: _ClassVar[Error.Code]
        ANOTHER_DATA_FOLDER: _ClassVar[Error.Code]
        SESSION_ENDED: _ClassVar[Error.Code]
        LOCK_UNAVAILABLE: _ClassVar[Error.Code]
        TABLE_IN_USE: _ClassVar[Error.Code]
        CONFLICT: _ClassVar[Error.Code]
        PROCEDURE_NOT_FOUND: _ClassVar[Error.Code]
        PROCEDURE_FAILED: _ClassVar[Error.Code]
        SNAPSHOT_NOT_FOUND: _ClassVar[Error.Code]
        SNAPSHOT_EXISTS: _ClassVar[Error.Code]
        CHANGES_EXPIRED: _ClassVar[Error.Code]
    CODE_UNSPECIFIED: Error.Code
    INVALID_ARGUMENT: Error.Code
    TABLE_NOT_FOUND: Error.Code
    TABLE_EXISTS: Error.Code
    FAMILY_NOT_FOUND: Error.Code
    LIMIT_EXCEEDED: Error.Code
    NOT_SERVING_REGION: Error.Code
    REGION_TOO_BUSY: Error.Code
    DEADLINE_EXCEEDED: Error.Code
    UNKNOWN_OUTCOME: Error.Code
    NOT_A_COUNTER: Error.Code
    COUNTER_OVERFLOW: Error.Code
    FILTER_TYPE_MISMATCH: Error.Code
    CORRUPTION: Error.Code
    LEASE_EXPIRED: Error.Code
    SERVER_STOPPING: Error.Code
    INTERNAL: Error.Code
    SNAPSHOT_ENDED: Error.Code
    DISK_FULL: Error.Code
    SERVER_RECOVERING: Error.Code
    ANOTHER_DATA_FOLDER: Error.Code
    SESSION_ENDED: Error.Code
    LOCK_UNAVAILABLE: Error.Code
    TABLE_IN_USE: Error.Code
    CONFLICT: Error.Code
    PROCEDURE_NOT_FOUND: Error.Code
    PROCEDURE_FAILED: Error.Code
    SNAPSHOT_NOT_FOUND: Error.Code
    SNAPSHOT_EXISTS: Error.Code
    CHANGES_EXPIRED: Error.Code
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    QUALIFIER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_VALUE_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    CAN_RETRY_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    ENDED_MS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    code: Error.Code
    message: str
    row: bytes
    table: str
    family: bytes
    qualifier: bytes
    limit: str
    limit_value: int
    found: int
    retry_after_ms: int
    can_retry: bool
    holders: _containers.RepeatedScalarFieldContainer[str]
    ended_ms: int
    reason: str
    rows: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, code: _Optional[_Union[Error.Code, str]] = ..., message: _Optional[str] = ..., row: _Optional[bytes] = ..., table: _Optional[str] = ..., family: _Optional[bytes] = ..., qualifier: _Optional[bytes] = ..., limit: _Optional[str] = ..., limit_value: _Optional[int] = ..., found: _Optional[int] = ..., retry_after_ms: _Optional[int] = ..., can_retry: bool = ..., holders: _Optional[_Iterable[str]] = ..., ended_ms: _Optional[int] = ..., reason: _Optional[str] = ..., rows: _Optional[_Iterable[bytes]] = ...) -> None: ...
