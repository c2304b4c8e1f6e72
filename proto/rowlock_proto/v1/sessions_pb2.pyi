from rowlock_proto.v1 import catalog_pb2 as _catalog_pb2
from rowlock_proto.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LockMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOCK_MODE_UNSPECIFIED: _ClassVar[LockMode]
    LOCK_MODE_SHARED: _ClassVar[LockMode]
    LOCK_MODE_EXCLUSIVE: _ClassVar[LockMode]
LOCK_MODE_UNSPECIFIED: LockMode
LOCK_MODE_SHARED: LockMode
LOCK_MODE_EXCLUSIVE: LockMode

class Session(_message.Message):
    __slots__ = ("session_id", "number", "owner", "purpose", "state", "started_ms", "heartbeat_ms", "idle_ms", "held", "is_implicit", "ended_ms", "reason")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[Session.State]
        STATE_OPEN: _ClassVar[Session.State]
        STATE_ENDING: _ClassVar[Session.State]
        STATE_ENDED: _ClassVar[Session.State]
    STATE_UNSPECIFIED: Session.State
    STATE_OPEN: Session.State
    STATE_ENDING: Session.State
    STATE_ENDED: Session.State
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_MS_FIELD_NUMBER: _ClassVar[int]
    IDLE_MS_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    IS_IMPLICIT_FIELD_NUMBER: _ClassVar[int]
    ENDED_MS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    number: int
    owner: str
    purpose: str
    state: Session.State
    started_ms: int
    heartbeat_ms: int
    idle_ms: int
    held: _containers.RepeatedCompositeFieldContainer[HeldItem]
    is_implicit: bool
    ended_ms: int
    reason: str
    def __init__(self, session_id: _Optional[str] = ..., number: _Optional[int] = ..., owner: _Optional[str] = ..., purpose: _Optional[str] = ..., state: _Optional[_Union[Session.State, str]] = ..., started_ms: _Optional[int] = ..., heartbeat_ms: _Optional[int] = ..., idle_ms: _Optional[int] = ..., held: _Optional[_Iterable[_Union[HeldItem, _Mapping]]] = ..., is_implicit: bool = ..., ended_ms: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class HeldItem(_message.Message):
    __slots__ = ("kind", "table", "text")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[HeldItem.Kind]
        KIND_LOCK: _ClassVar[HeldItem.Kind]
        KIND_BULK_WRITE: _ClassVar[HeldItem.Kind]
        KIND_SNAPSHOT: _ClassVar[HeldItem.Kind]
        KIND_SCAN: _ClassVar[HeldItem.Kind]
    KIND_UNSPECIFIED: HeldItem.Kind
    KIND_LOCK: HeldItem.Kind
    KIND_BULK_WRITE: HeldItem.Kind
    KIND_SNAPSHOT: HeldItem.Kind
    KIND_SCAN: HeldItem.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    kind: HeldItem.Kind
    table: str
    text: str
    def __init__(self, kind: _Optional[_Union[HeldItem.Kind, str]] = ..., table: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class OpenSessionRequest(_message.Message):
    __slots__ = ("session_id", "owner", "purpose", "idle_ms")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    IDLE_MS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    owner: str
    purpose: str
    idle_ms: int
    def __init__(self, session_id: _Optional[str] = ..., owner: _Optional[str] = ..., purpose: _Optional[str] = ..., idle_ms: _Optional[int] = ...) -> None: ...

class OpenSessionResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: Session
    def __init__(self, session: _Optional[_Union[Session, _Mapping]] = ...) -> None: ...

class RenewSessionRequest(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: _types_pb2.SessionRef
    def __init__(self, session: _Optional[_Union[_types_pb2.SessionRef, _Mapping]] = ...) -> None: ...

class RenewSessionResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: Session
    def __init__(self, session: _Optional[_Union[Session, _Mapping]] = ...) -> None: ...

class EndSessionRequest(_message.Message):
    __slots__ = ("session", "reason")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    session: _types_pb2.SessionRef
    reason: str
    def __init__(self, session: _Optional[_Union[_types_pb2.SessionRef, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class EndSessionResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: Session
    def __init__(self, session: _Optional[_Union[Session, _Mapping]] = ...) -> None: ...

class ListSessionsRequest(_message.Message):
    __slots__ = ("ended_too",)
    ENDED_TOO_FIELD_NUMBER: _ClassVar[int]
    ended_too: bool
    def __init__(self, ended_too: bool = ...) -> None: ...

class ListSessionsResponse(_message.Message):
    __slots__ = ("sessions",)
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[Session]
    def __init__(self, sessions: _Optional[_Iterable[_Union[Session, _Mapping]]] = ...) -> None: ...

class LockTarget(_message.Message):
    __slots__ = ("table", "region_id", "mode")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    REGION_ID_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    table: str
    region_id: int
    mode: LockMode
    def __init__(self, table: _Optional[str] = ..., region_id: _Optional[int] = ..., mode: _Optional[_Union[LockMode, str]] = ...) -> None: ...

class TakeLockRequest(_message.Message):
    __slots__ = ("session", "lock_id", "targets", "wait_ms", "purpose")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    LOCK_ID_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    session: _types_pb2.SessionRef
    lock_id: str
    targets: _containers.RepeatedCompositeFieldContainer[LockTarget]
    wait_ms: int
    purpose: str
    def __init__(self, session: _Optional[_Union[_types_pb2.SessionRef, _Mapping]] = ..., lock_id: _Optional[str] = ..., targets: _Optional[_Iterable[_Union[LockTarget, _Mapping]]] = ..., wait_ms: _Optional[int] = ..., purpose: _Optional[str] = ...) -> None: ...

class TakeLockResponse(_message.Message):
    __slots__ = ("number",)
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    number: int
    def __init__(self, number: _Optional[int] = ...) -> None: ...

class ReleaseLockRequest(_message.Message):
    __slots__ = ("session", "lock_id")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    LOCK_ID_FIELD_NUMBER: _ClassVar[int]
    session: _types_pb2.SessionRef
    lock_id: str
    def __init__(self, session: _Optional[_Union[_types_pb2.SessionRef, _Mapping]] = ..., lock_id: _Optional[str] = ...) -> None: ...

class ReleaseLockResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Lock(_message.Message):
    __slots__ = ("table", "region_id", "mode", "waits", "holder", "owner", "purpose", "number", "since_ms", "waits_for", "waits_until_ms", "heartbeat_ms")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    REGION_ID_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    WAITS_UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_MS_FIELD_NUMBER: _ClassVar[int]
    table: str
    region_id: int
    mode: LockMode
    waits: bool
    holder: str
    owner: str
    purpose: str
    number: int
    since_ms: int
    waits_for: _containers.RepeatedScalarFieldContainer[str]
    waits_until_ms: int
    heartbeat_ms: int
    def __init__(self, table: _Optional[str] = ..., region_id: _Optional[int] = ..., mode: _Optional[_Union[LockMode, str]] = ..., waits: bool = ..., holder: _Optional[str] = ..., owner: _Optional[str] = ..., purpose: _Optional[str] = ..., number: _Optional[int] = ..., since_ms: _Optional[int] = ..., waits_for: _Optional[_Iterable[str]] = ..., waits_until_ms: _Optional[int] = ..., heartbeat_ms: _Optional[int] = ...) -> None: ...

class ListLocksRequest(_message.Message):
    __slots__ = ("table",)
    TABLE_FIELD_NUMBER: _ClassVar[int]
    table: str
    def __init__(self, table: _Optional[str] = ...) -> None: ...

class ListLocksResponse(_message.Message):
    __slots__ = ("locks",)
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    locks: _containers.RepeatedCompositeFieldContainer[Lock]
    def __init__(self, locks: _Optional[_Iterable[_Union[Lock, _Mapping]]] = ...) -> None: ...

class OpenBulkWriteRequest(_message.Message):
    __slots__ = ("session", "table")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    session: _types_pb2.SessionRef
    table: str
    def __init__(self, session: _Optional[_Union[_types_pb2.SessionRef, _Mapping]] = ..., table: _Optional[str] = ...) -> None: ...

class OpenBulkWriteResponse(_message.Message):
    __slots__ = ("number",)
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    number: int
    def __init__(self, number: _Optional[int] = ...) -> None: ...

class CommitBulkWriteRequest(_message.Message):
    __slots__ = ("session", "table", "start", "stop", "replace", "snapshot_id", "identity", "number", "staged_batches", "lock")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    REPLACE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    STAGED_BATCHES_FIELD_NUMBER: _ClassVar[int]
    LOCK_FIELD_NUMBER: _ClassVar[int]
    session: _types_pb2.SessionRef
    table: str
    start: bytes
    stop: bytes
    replace: bool
    snapshot_id: bytes
    identity: CommitIdentity
    number: int
    staged_batches: _containers.RepeatedScalarFieldContainer[int]
    lock: _catalog_pb2.LockOptions
    def __init__(self, session: _Optional[_Union[_types_pb2.SessionRef, _Mapping]] = ..., table: _Optional[str] = ..., start: _Optional[bytes] = ..., stop: _Optional[bytes] = ..., replace: bool = ..., snapshot_id: _Optional[bytes] = ..., identity: _Optional[_Union[CommitIdentity, _Mapping]] = ..., number: _Optional[int] = ..., staged_batches: _Optional[_Iterable[int]] = ..., lock: _Optional[_Union[_catalog_pb2.LockOptions, _Mapping]] = ...) -> None: ...

class CommitIdentity(_message.Message):
    __slots__ = ("text", "number")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    text: str
    number: int
    def __init__(self, text: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class CommitBulkWriteResponse(_message.Message):
    __slots__ = ("row_count", "cell_count", "timestamp", "is_repeated")
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    CELL_COUNT_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    IS_REPEATED_FIELD_NUMBER: _ClassVar[int]
    row_count: int
    cell_count: int
    timestamp: int
    is_repeated: bool
    def __init__(self, row_count: _Optional[int] = ..., cell_count: _Optional[int] = ..., timestamp: _Optional[int] = ..., is_repeated: bool = ...) -> None: ...

class AbortBulkWriteRequest(_message.Message):
    __slots__ = ("session", "table")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    session: _types_pb2.SessionRef
    table: str
    def __init__(self, session: _Optional[_Union[_types_pb2.SessionRef, _Mapping]] = ..., table: _Optional[str] = ...) -> None: ...

class AbortBulkWriteResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
