from rowlock_proto.v1 import types_pb2 as _types_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DirectHello(_message.Message):
    __slots__ = ("mechanism", "credentials", "client", "scans", "bulk")
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    SCANS_FIELD_NUMBER: _ClassVar[int]
    BULK_FIELD_NUMBER: _ClassVar[int]
    mechanism: str
    credentials: bytes
    client: str
    scans: bool
    bulk: bool
    def __init__(self, mechanism: _Optional[str] = ..., credentials: _Optional[bytes] = ..., client: _Optional[str] = ..., scans: bool = ..., bulk: bool = ...) -> None: ...

class DirectWelcome(_message.Message):
    __slots__ = ("data_folder_id", "incarnation_id", "body_bytes_max", "protocol", "error")
    DATA_FOLDER_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_ID_FIELD_NUMBER: _ClassVar[int]
    BODY_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    data_folder_id: str
    incarnation_id: str
    body_bytes_max: int
    protocol: int
    error: _types_pb2.Error
    def __init__(self, data_folder_id: _Optional[str] = ..., incarnation_id: _Optional[str] = ..., body_bytes_max: _Optional[int] = ..., protocol: _Optional[int] = ..., error: _Optional[_Union[_types_pb2.Error, _Mapping]] = ...) -> None: ...
