from rowlock_proto.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PointRequests(_message.Message):
    __slots__ = ("client_id", "sequence_floor", "requests")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FLOOR_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    client_id: bytes
    sequence_floor: int
    requests: _containers.RepeatedCompositeFieldContainer[PointRequest]
    def __init__(self, client_id: _Optional[bytes] = ..., sequence_floor: _Optional[int] = ..., requests: _Optional[_Iterable[_Union[PointRequest, _Mapping]]] = ...) -> None: ...

class PointRequest(_message.Message):
    __slots__ = ("id", "region_id", "timeout_ms", "get", "mutate", "open_scan", "put_rows", "call")
    ID_FIELD_NUMBER: _ClassVar[int]
    REGION_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    GET_FIELD_NUMBER: _ClassVar[int]
    MUTATE_FIELD_NUMBER: _ClassVar[int]
    OPEN_SCAN_FIELD_NUMBER: _ClassVar[int]
    PUT_ROWS_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    id: int
    region_id: int
    timeout_ms: int
    get: Get
    mutate: Mutate
    open_scan: ScanRequest
    put_rows: PutRows
    call: CallProcedure
    def __init__(self, id: _Optional[int] = ..., region_id: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., get: _Optional[_Union[Get, _Mapping]] = ..., mutate: _Optional[_Union[Mutate, _Mapping]] = ..., open_scan: _Optional[_Union[ScanRequest, _Mapping]] = ..., put_rows: _Optional[_Union[PutRows, _Mapping]] = ..., call: _Optional[_Union[CallProcedure, _Mapping]] = ...) -> None: ...

class PointAnswers(_message.Message):
    __slots__ = ("answers",)
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[PointAnswer]
    def __init__(self, answers: _Optional[_Iterable[_Union[PointAnswer, _Mapping]]] = ...) -> None: ...

class PointAnswer(_message.Message):
    __slots__ = ("id", "get", "mutate", "error", "opened_scan", "put_rows", "call")
    ID_FIELD_NUMBER: _ClassVar[int]
    GET_FIELD_NUMBER: _ClassVar[int]
    MUTATE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    OPENED_SCAN_FIELD_NUMBER: _ClassVar[int]
    PUT_ROWS_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    id: int
    get: GetAnswer
    mutate: MutateAnswer
    error: _types_pb2.Error
    opened_scan: OpenedScan
    put_rows: PutRowsAnswer
    call: CallAnswer
    def __init__(self, id: _Optional[int] = ..., get: _Optional[_Union[GetAnswer, _Mapping]] = ..., mutate: _Optional[_Union[MutateAnswer, _Mapping]] = ..., error: _Optional[_Union[_types_pb2.Error, _Mapping]] = ..., opened_scan: _Optional[_Union[OpenedScan, _Mapping]] = ..., put_rows: _Optional[_Union[PutRowsAnswer, _Mapping]] = ..., call: _Optional[_Union[CallAnswer, _Mapping]] = ...) -> None: ...

class Get(_message.Message):
    __slots__ = ("rows", "columns", "time_range", "versions", "where", "cells", "values_only")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    TIME_RANGE_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    CELLS_FIELD_NUMBER: _ClassVar[int]
    VALUES_ONLY_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedScalarFieldContainer[bytes]
    columns: _containers.RepeatedCompositeFieldContainer[_types_pb2.Column]
    time_range: _types_pb2.TimeRange
    versions: int
    where: _types_pb2.Filter
    cells: _types_pb2.CellFilter
    values_only: bool
    def __init__(self, rows: _Optional[_Iterable[bytes]] = ..., columns: _Optional[_Iterable[_Union[_types_pb2.Column, _Mapping]]] = ..., time_range: _Optional[_Union[_types_pb2.TimeRange, _Mapping]] = ..., versions: _Optional[int] = ..., where: _Optional[_Union[_types_pb2.Filter, _Mapping]] = ..., cells: _Optional[_Union[_types_pb2.CellFilter, _Mapping]] = ..., values_only: bool = ...) -> None: ...

class GetAnswer(_message.Message):
    __slots__ = ("rows", "values")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[RowCells]
    values: _containers.RepeatedCompositeFieldContainer[RowValues]
    def __init__(self, rows: _Optional[_Iterable[_Union[RowCells, _Mapping]]] = ..., values: _Optional[_Iterable[_Union[RowValues, _Mapping]]] = ...) -> None: ...

class RowCells(_message.Message):
    __slots__ = ("cells",)
    CELLS_FIELD_NUMBER: _ClassVar[int]
    cells: _containers.RepeatedCompositeFieldContainer[_types_pb2.Cell]
    def __init__(self, cells: _Optional[_Iterable[_Union[_types_pb2.Cell, _Mapping]]] = ...) -> None: ...

class RowValues(_message.Message):
    __slots__ = ("columns", "lengths", "data")
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    LENGTHS_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    columns: bytes
    lengths: bytes
    data: bytes
    def __init__(self, columns: _Optional[bytes] = ..., lengths: _Optional[bytes] = ..., data: _Optional[bytes] = ...) -> None: ...

class Mutate(_message.Message):
    __slots__ = ("mutations", "durability")
    MUTATIONS_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    mutations: _containers.RepeatedCompositeFieldContainer[RowMutation]
    durability: _types_pb2.Durability
    def __init__(self, mutations: _Optional[_Iterable[_Union[RowMutation, _Mapping]]] = ..., durability: _Optional[_Union[_types_pb2.Durability, str]] = ...) -> None: ...

class RowMutation(_message.Message):
    __slots__ = ("row", "condition", "changes", "otherwise", "sequence", "age_ms", "puts")
    ROW_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    OTHERWISE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    PUTS_FIELD_NUMBER: _ClassVar[int]
    row: bytes
    condition: Condition
    changes: _containers.RepeatedCompositeFieldContainer[_types_pb2.Change]
    otherwise: _containers.RepeatedCompositeFieldContainer[_types_pb2.Change]
    sequence: int
    age_ms: int
    puts: RowValues
    def __init__(self, row: _Optional[bytes] = ..., condition: _Optional[_Union[Condition, _Mapping]] = ..., changes: _Optional[_Iterable[_Union[_types_pb2.Change, _Mapping]]] = ..., otherwise: _Optional[_Iterable[_Union[_types_pb2.Change, _Mapping]]] = ..., sequence: _Optional[int] = ..., age_ms: _Optional[int] = ..., puts: _Optional[_Union[RowValues, _Mapping]] = ...) -> None: ...

class Condition(_message.Message):
    __slots__ = ("checks", "existence", "filter", "return_filtered")
    class Existence(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        EXISTENCE_ANY: _ClassVar[Condition.Existence]
        EXISTENCE_ABSENT: _ClassVar[Condition.Existence]
        EXISTENCE_PRESENT: _ClassVar[Condition.Existence]
    EXISTENCE_ANY: Condition.Existence
    EXISTENCE_ABSENT: Condition.Existence
    EXISTENCE_PRESENT: Condition.Existence
    CHECKS_FIELD_NUMBER: _ClassVar[int]
    EXISTENCE_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    RETURN_FILTERED_FIELD_NUMBER: _ClassVar[int]
    checks: _containers.RepeatedCompositeFieldContainer[Check]
    existence: Condition.Existence
    filter: _types_pb2.Filter
    return_filtered: bool
    def __init__(self, checks: _Optional[_Iterable[_Union[Check, _Mapping]]] = ..., existence: _Optional[_Union[Condition.Existence, str]] = ..., filter: _Optional[_Union[_types_pb2.Filter, _Mapping]] = ..., return_filtered: bool = ...) -> None: ...

class Check(_message.Message):
    __slots__ = ("family", "qualifier", "op", "operand")
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    QUALIFIER_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    OPERAND_FIELD_NUMBER: _ClassVar[int]
    family: bytes
    qualifier: bytes
    op: _types_pb2.CompareOp
    operand: bytes
    def __init__(self, family: _Optional[bytes] = ..., qualifier: _Optional[bytes] = ..., op: _Optional[_Union[_types_pb2.CompareOp, str]] = ..., operand: _Optional[bytes] = ...) -> None: ...

class MutateAnswer(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[MutationResult]
    def __init__(self, results: _Optional[_Iterable[_Union[MutationResult, _Mapping]]] = ...) -> None: ...

class MutationResult(_message.Message):
    __slots__ = ("condition_met", "seen", "results", "timestamp", "error", "repeated_request")
    CONDITION_MET_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REPEATED_REQUEST_FIELD_NUMBER: _ClassVar[int]
    condition_met: bool
    seen: _containers.RepeatedCompositeFieldContainer[_types_pb2.Cell]
    results: _containers.RepeatedCompositeFieldContainer[_types_pb2.Cell]
    timestamp: int
    error: _types_pb2.Error
    repeated_request: bool
    def __init__(self, condition_met: bool = ..., seen: _Optional[_Iterable[_Union[_types_pb2.Cell, _Mapping]]] = ..., results: _Optional[_Iterable[_Union[_types_pb2.Cell, _Mapping]]] = ..., timestamp: _Optional[int] = ..., error: _Optional[_Union[_types_pb2.Error, _Mapping]] = ..., repeated_request: bool = ...) -> None: ...

class PutRows(_message.Message):
    __slots__ = ("rows", "sequences", "durability")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    rows: BulkRows
    sequences: _containers.RepeatedScalarFieldContainer[int]
    durability: _types_pb2.Durability
    def __init__(self, rows: _Optional[_Union[BulkRows, _Mapping]] = ..., sequences: _Optional[_Iterable[int]] = ..., durability: _Optional[_Union[_types_pb2.Durability, str]] = ...) -> None: ...

class PutRowsAnswer(_message.Message):
    __slots__ = ("results", "timestamp")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[MutationResult]
    timestamp: int
    def __init__(self, results: _Optional[_Iterable[_Union[MutationResult, _Mapping]]] = ..., timestamp: _Optional[int] = ...) -> None: ...

class CallProcedure(_message.Message):
    __slots__ = ("row", "name", "argument", "sequence", "age_ms", "durability")
    ROW_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENT_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    row: bytes
    name: str
    argument: bytes
    sequence: int
    age_ms: int
    durability: _types_pb2.Durability
    def __init__(self, row: _Optional[bytes] = ..., name: _Optional[str] = ..., argument: _Optional[bytes] = ..., sequence: _Optional[int] = ..., age_ms: _Optional[int] = ..., durability: _Optional[_Union[_types_pb2.Durability, str]] = ...) -> None: ...

class CallAnswer(_message.Message):
    __slots__ = ("answer", "timestamp", "repeated_request")
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    REPEATED_REQUEST_FIELD_NUMBER: _ClassVar[int]
    answer: bytes
    timestamp: int
    repeated_request: bool
    def __init__(self, answer: _Optional[bytes] = ..., timestamp: _Optional[int] = ..., repeated_request: bool = ...) -> None: ...

class GetCall(_message.Message):
    __slots__ = ("region_id", "get")
    REGION_ID_FIELD_NUMBER: _ClassVar[int]
    GET_FIELD_NUMBER: _ClassVar[int]
    region_id: int
    get: Get
    def __init__(self, region_id: _Optional[int] = ..., get: _Optional[_Union[Get, _Mapping]] = ...) -> None: ...

class MutateCall(_message.Message):
    __slots__ = ("region_id", "mutate", "client_id", "sequence_floor")
    REGION_ID_FIELD_NUMBER: _ClassVar[int]
    MUTATE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FLOOR_FIELD_NUMBER: _ClassVar[int]
    region_id: int
    mutate: Mutate
    client_id: bytes
    sequence_floor: int
    def __init__(self, region_id: _Optional[int] = ..., mutate: _Optional[_Union[Mutate, _Mapping]] = ..., client_id: _Optional[bytes] = ..., sequence_floor: _Optional[int] = ...) -> None: ...

class RowRange(_message.Message):
    __slots__ = ("start", "stop")
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    start: bytes
    stop: bytes
    def __init__(self, start: _Optional[bytes] = ..., stop: _Optional[bytes] = ...) -> None: ...

class ScanRequest(_message.Message):
    __slots__ = ("region_id", "ranges", "columns", "time_range", "versions", "where", "cells", "row_limit", "reverse", "batch_bytes", "batch_rows", "row_form", "snapshot_id", "session", "owner", "held_scan", "newest_rows", "lines")
    REGION_ID_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    TIME_RANGE_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    CELLS_FIELD_NUMBER: _ClassVar[int]
    ROW_LIMIT_FIELD_NUMBER: _ClassVar[int]
    REVERSE_FIELD_NUMBER: _ClassVar[int]
    BATCH_BYTES_FIELD_NUMBER: _ClassVar[int]
    BATCH_ROWS_FIELD_NUMBER: _ClassVar[int]
    ROW_FORM_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    HELD_SCAN_FIELD_NUMBER: _ClassVar[int]
    NEWEST_ROWS_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    region_id: int
    ranges: _containers.RepeatedCompositeFieldContainer[RowRange]
    columns: _containers.RepeatedCompositeFieldContainer[_types_pb2.Column]
    time_range: _types_pb2.TimeRange
    versions: int
    where: _types_pb2.Filter
    cells: _types_pb2.CellFilter
    row_limit: int
    reverse: bool
    batch_bytes: int
    batch_rows: int
    row_form: RowForm
    snapshot_id: bytes
    session: _types_pb2.SessionRef
    owner: str
    held_scan: int
    newest_rows: bool
    lines: bool
    def __init__(self, region_id: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[RowRange, _Mapping]]] = ..., columns: _Optional[_Iterable[_Union[_types_pb2.Column, _Mapping]]] = ..., time_range: _Optional[_Union[_types_pb2.TimeRange, _Mapping]] = ..., versions: _Optional[int] = ..., where: _Optional[_Union[_types_pb2.Filter, _Mapping]] = ..., cells: _Optional[_Union[_types_pb2.CellFilter, _Mapping]] = ..., row_limit: _Optional[int] = ..., reverse: bool = ..., batch_bytes: _Optional[int] = ..., batch_rows: _Optional[int] = ..., row_form: _Optional[_Union[RowForm, _Mapping]] = ..., snapshot_id: _Optional[bytes] = ..., session: _Optional[_Union[_types_pb2.SessionRef, _Mapping]] = ..., owner: _Optional[str] = ..., held_scan: _Optional[int] = ..., newest_rows: bool = ..., lines: bool = ...) -> None: ...

class OpenedScan(_message.Message):
    __slots__ = ("batches", "read_point", "is_complete", "held_scan")
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    READ_POINT_FIELD_NUMBER: _ClassVar[int]
    IS_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    HELD_SCAN_FIELD_NUMBER: _ClassVar[int]
    batches: _containers.RepeatedCompositeFieldContainer[ScanBatch]
    read_point: int
    is_complete: bool
    held_scan: int
    def __init__(self, batches: _Optional[_Iterable[_Union[ScanBatch, _Mapping]]] = ..., read_point: _Optional[int] = ..., is_complete: bool = ..., held_scan: _Optional[int] = ...) -> None: ...

class RowForm(_message.Message):
    __slots__ = ("columns", "fixed_size", "compressed", "without_keys")
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    FIXED_SIZE_FIELD_NUMBER: _ClassVar[int]
    COMPRESSED_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_KEYS_FIELD_NUMBER: _ClassVar[int]
    columns: _containers.RepeatedCompositeFieldContainer[RowFormColumn]
    fixed_size: bool
    compressed: bool
    without_keys: bool
    def __init__(self, columns: _Optional[_Iterable[_Union[RowFormColumn, _Mapping]]] = ..., fixed_size: bool = ..., compressed: bool = ..., without_keys: bool = ...) -> None: ...

class RowFormColumn(_message.Message):
    __slots__ = ("family", "qualifier", "part")
    class Part(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        PART_VALUE: _ClassVar[RowFormColumn.Part]
        PART_TIMESTAMP: _ClassVar[RowFormColumn.Part]
    PART_VALUE: RowFormColumn.Part
    PART_TIMESTAMP: RowFormColumn.Part
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    QUALIFIER_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    family: bytes
    qualifier: bytes
    part: RowFormColumn.Part
    def __init__(self, family: _Optional[bytes] = ..., qualifier: _Optional[bytes] = ..., part: _Optional[_Union[RowFormColumn.Part, str]] = ...) -> None: ...

class ScanBatch(_message.Message):
    __slots__ = ("arrow", "row_continues", "read_point", "row_count", "row_reached", "compressed", "newest_rows", "line_columns")
    ARROW_FIELD_NUMBER: _ClassVar[int]
    ROW_CONTINUES_FIELD_NUMBER: _ClassVar[int]
    READ_POINT_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    ROW_REACHED_FIELD_NUMBER: _ClassVar[int]
    COMPRESSED_FIELD_NUMBER: _ClassVar[int]
    NEWEST_ROWS_FIELD_NUMBER: _ClassVar[int]
    LINE_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    arrow: bytes
    row_continues: bool
    read_point: int
    row_count: int
    row_reached: bytes
    compressed: bytes
    newest_rows: NewestRows
    line_columns: _containers.RepeatedCompositeFieldContainer[RowFormColumn]
    def __init__(self, arrow: _Optional[bytes] = ..., row_continues: bool = ..., read_point: _Optional[int] = ..., row_count: _Optional[int] = ..., row_reached: _Optional[bytes] = ..., compressed: _Optional[bytes] = ..., newest_rows: _Optional[_Union[NewestRows, _Mapping]] = ..., line_columns: _Optional[_Iterable[_Union[RowFormColumn, _Mapping]]] = ...) -> None: ...

class NewestRows(_message.Message):
    __slots__ = ("column_sets", "sets_of_rows", "lengths", "data")
    COLUMN_SETS_FIELD_NUMBER: _ClassVar[int]
    SETS_OF_ROWS_FIELD_NUMBER: _ClassVar[int]
    LENGTHS_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    column_sets: _containers.RepeatedCompositeFieldContainer[ColumnSet]
    sets_of_rows: _containers.RepeatedScalarFieldContainer[int]
    lengths: _containers.RepeatedScalarFieldContainer[int]
    data: bytes
    def __init__(self, column_sets: _Optional[_Iterable[_Union[ColumnSet, _Mapping]]] = ..., sets_of_rows: _Optional[_Iterable[int]] = ..., lengths: _Optional[_Iterable[int]] = ..., data: _Optional[bytes] = ...) -> None: ...

class ColumnSet(_message.Message):
    __slots__ = ("columns",)
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    columns: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, columns: _Optional[_Iterable[bytes]] = ...) -> None: ...

class PlanScanRequest(_message.Message):
    __slots__ = ("region_id", "ranges", "columns", "part_bytes")
    REGION_ID_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    PART_BYTES_FIELD_NUMBER: _ClassVar[int]
    region_id: int
    ranges: _containers.RepeatedCompositeFieldContainer[RowRange]
    columns: _containers.RepeatedCompositeFieldContainer[_types_pb2.Column]
    part_bytes: int
    def __init__(self, region_id: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[RowRange, _Mapping]]] = ..., columns: _Optional[_Iterable[_Union[_types_pb2.Column, _Mapping]]] = ..., part_bytes: _Optional[int] = ...) -> None: ...

class PlanScanResponse(_message.Message):
    __slots__ = ("parts",)
    PARTS_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedCompositeFieldContainer[ScanPart]
    def __init__(self, parts: _Optional[_Iterable[_Union[ScanPart, _Mapping]]] = ...) -> None: ...

class ScanPart(_message.Message):
    __slots__ = ("ranges", "byte_count")
    RANGES_FIELD_NUMBER: _ClassVar[int]
    BYTE_COUNT_FIELD_NUMBER: _ClassVar[int]
    ranges: _containers.RepeatedCompositeFieldContainer[RowRange]
    byte_count: int
    def __init__(self, ranges: _Optional[_Iterable[_Union[RowRange, _Mapping]]] = ..., byte_count: _Optional[int] = ...) -> None: ...

class BulkBatch(_message.Message):
    __slots__ = ("region_id", "arrow", "uncompressed_bytes", "client_id", "sequence", "sequence_floor", "durability", "age_ms", "rows", "parts_of", "stage")
    REGION_ID_FIELD_NUMBER: _ClassVar[int]
    ARROW_FIELD_NUMBER: _ClassVar[int]
    UNCOMPRESSED_BYTES_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FLOOR_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    PARTS_OF_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    region_id: int
    arrow: bytes
    uncompressed_bytes: int
    client_id: bytes
    sequence: int
    sequence_floor: int
    durability: _types_pb2.Durability
    age_ms: int
    rows: BulkRows
    parts_of: _containers.RepeatedScalarFieldContainer[int]
    stage: _types_pb2.SessionRef
    def __init__(self, region_id: _Optional[int] = ..., arrow: _Optional[bytes] = ..., uncompressed_bytes: _Optional[int] = ..., client_id: _Optional[bytes] = ..., sequence: _Optional[int] = ..., sequence_floor: _Optional[int] = ..., durability: _Optional[_Union[_types_pb2.Durability, str]] = ..., age_ms: _Optional[int] = ..., rows: _Optional[_Union[BulkRows, _Mapping]] = ..., parts_of: _Optional[_Iterable[int]] = ..., stage: _Optional[_Union[_types_pb2.SessionRef, _Mapping]] = ...) -> None: ...

class BulkRows(_message.Message):
    __slots__ = ("arrow", "uncompressed_bytes", "columns", "nulls_delete", "padding")
    ARROW_FIELD_NUMBER: _ClassVar[int]
    UNCOMPRESSED_BYTES_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    NULLS_DELETE_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    arrow: bytes
    uncompressed_bytes: int
    columns: _containers.RepeatedCompositeFieldContainer[BulkColumn]
    nulls_delete: bool
    padding: bytes
    def __init__(self, arrow: _Optional[bytes] = ..., uncompressed_bytes: _Optional[int] = ..., columns: _Optional[_Iterable[_Union[BulkColumn, _Mapping]]] = ..., nulls_delete: bool = ..., padding: _Optional[bytes] = ...) -> None: ...

class BulkColumn(_message.Message):
    __slots__ = ("family", "qualifier")
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    QUALIFIER_FIELD_NUMBER: _ClassVar[int]
    family: bytes
    qualifier: bytes
    def __init__(self, family: _Optional[bytes] = ..., qualifier: _Optional[bytes] = ...) -> None: ...

class BulkAnswer(_message.Message):
    __slots__ = ("cell_count", "row_count", "timestamp", "error", "repeated_request", "staged_batch")
    CELL_COUNT_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REPEATED_REQUEST_FIELD_NUMBER: _ClassVar[int]
    STAGED_BATCH_FIELD_NUMBER: _ClassVar[int]
    cell_count: int
    row_count: int
    timestamp: int
    error: _types_pb2.Error
    repeated_request: bool
    staged_batch: int
    def __init__(self, cell_count: _Optional[int] = ..., row_count: _Optional[int] = ..., timestamp: _Optional[int] = ..., error: _Optional[_Union[_types_pb2.Error, _Mapping]] = ..., repeated_request: bool = ..., staged_batch: _Optional[int] = ...) -> None: ...

class FlushRequest(_message.Message):
    __slots__ = ("table",)
    TABLE_FIELD_NUMBER: _ClassVar[int]
    table: str
    def __init__(self, table: _Optional[str] = ...) -> None: ...

class FlushResponse(_message.Message):
    __slots__ = ("store_file_count", "cell_count")
    STORE_FILE_COUNT_FIELD_NUMBER: _ClassVar[int]
    CELL_COUNT_FIELD_NUMBER: _ClassVar[int]
    store_file_count: int
    cell_count: int
    def __init__(self, store_file_count: _Optional[int] = ..., cell_count: _Optional[int] = ...) -> None: ...

class ChangesRead(_message.Message):
    __slots__ = ("region_id", "write_number")
    REGION_ID_FIELD_NUMBER: _ClassVar[int]
    WRITE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    region_id: int
    write_number: int
    def __init__(self, region_id: _Optional[int] = ..., write_number: _Optional[int] = ...) -> None: ...

class ReadChangesRequest(_message.Message):
    __slots__ = ("table", "start", "offset", "row", "region_id", "until", "position", "bytes_max")
    class Start(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        START_UNSPECIFIED: _ClassVar[ReadChangesRequest.Start]
        START_OLDEST: _ClassVar[ReadChangesRequest.Start]
        START_NEWEST: _ClassVar[ReadChangesRequest.Start]
    START_UNSPECIFIED: ReadChangesRequest.Start
    START_OLDEST: ReadChangesRequest.Start
    START_NEWEST: ReadChangesRequest.Start
    TABLE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    REGION_ID_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    table: str
    start: ReadChangesRequest.Start
    offset: _containers.RepeatedCompositeFieldContainer[ChangesRead]
    row: bytes
    region_id: int
    until: int
    position: bytes
    bytes_max: int
    def __init__(self, table: _Optional[str] = ..., start: _Optional[_Union[ReadChangesRequest.Start, str]] = ..., offset: _Optional[_Iterable[_Union[ChangesRead, _Mapping]]] = ..., row: _Optional[bytes] = ..., region_id: _Optional[int] = ..., until: _Optional[int] = ..., position: _Optional[bytes] = ..., bytes_max: _Optional[int] = ...) -> None: ...

class ReadChangesResponse(_message.Message):
    __slots__ = ("arrow", "region_id", "stop", "offset", "until", "is_done", "position")
    ARROW_FIELD_NUMBER: _ClassVar[int]
    REGION_ID_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    IS_DONE_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    arrow: bytes
    region_id: int
    stop: bytes
    offset: _containers.RepeatedCompositeFieldContainer[ChangesRead]
    until: int
    is_done: bool
    position: bytes
    def __init__(self, arrow: _Optional[bytes] = ..., region_id: _Optional[int] = ..., stop: _Optional[bytes] = ..., offset: _Optional[_Iterable[_Union[ChangesRead, _Mapping]]] = ..., until: _Optional[int] = ..., is_done: bool = ..., position: _Optional[bytes] = ...) -> None: ...
