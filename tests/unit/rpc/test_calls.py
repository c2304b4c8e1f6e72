"""Calls are accepted from recovery until the server stops, and only those for its data folder."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import grpc
import pytest
from google.rpc.status_pb2 import Status
from rowlock_proto.v1.types_pb2 import Error
from rowlock_regionserver.config import Config
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.rpc.grpc.calls import Calls, Context, Method
from rowlock_regionserver.rpc.grpc.listener import CATALOG

FOLDER = "0" * 32
TO_OURS, TO_THEIRS = (("rowlock-data-folder-id", FOLDER),), (("rowlock-data-folder-id", "1" * 32),)


@dataclass
class Call:
    """The context that gRPC passes to a method."""

    metadata: Sequence[tuple[str, str]] = ()
    told: list[Error] = field(default_factory=list)
    written: list[bytes] = field(default_factory=list)

    def peer(self) -> str:
        return "ipv4:127.0.0.1:50000"

    async def read(self) -> bytes:
        return b"asked"

    async def write(self, message: bytes) -> None:
        self.written.append(message)

    def invocation_metadata(self) -> Sequence[tuple[str, str]]:
        return self.metadata

    def set_trailing_metadata(self, trailing: Sequence[tuple[str, bytes]]) -> None:
        error = Error()
        Status.FromString(trailing[0][1]).details[0].Unpack(error)
        self.told.append(error)

    async def abort(self, code: grpc.StatusCode, message: str) -> NoReturn:
        raise grpc.aio.AbortError


async def answered(data: bytes, context: Context) -> bytes:
    return data


def calls_of_a_folder() -> tuple[Calls, Method]:
    config = Config(retry_after_ms=50)
    calls = Calls(config, Ledger(config), lambda _: None, data_folder_id=FOLDER)
    details: Any = type("Details", (), {"method": "/rowlock.v1.Catalog/ListTables"})
    handler: Any = calls.handler(CATALOG).service(details)
    method: Method = handler.stream_stream
    return calls, method


def serve(calls: Calls) -> None:
    calls.serve({CATALOG: {method.name: answered for method in CATALOG.methods}})


def outcome(method: Method, metadata: Sequence[tuple[str, str]] = ()) -> bytes | Error.Code:
    """Returns the answer, or the code of the call's error."""
    call: Any = Call(metadata)
    try:
        asyncio.run(method(b"", call))  # type: ignore[arg-type]  # a coroutine
    except grpc.aio.AbortError:
        (error,) = call.told
        assert error.can_retry
        code: Error.Code = error.code
        return code
    (answer,) = call.written
    assert isinstance(answer, bytes)
    return answer


def test_calls_are_accepted_from_recovery_until_the_server_stops() -> None:
    calls, method = calls_of_a_folder()
    assert outcome(method) == Error.SERVER_RECOVERING
    serve(calls)
    assert outcome(method) == b"asked"
    calls.stop()
    assert outcome(method) == Error.SERVER_STOPPING
    assert calls.open_count == 0


def test_a_call_for_another_folder_is_refused_even_while_the_server_recovers() -> None:
    calls, method = calls_of_a_folder()
    assert outcome(method, TO_THEIRS) == Error.ANOTHER_DATA_FOLDER
    serve(calls)
    assert outcome(method, TO_THEIRS) == Error.ANOTHER_DATA_FOLDER
    assert outcome(method, TO_OURS) == b"asked"


def test_each_method_of_the_protocol_is_there() -> None:
    calls, _ = calls_of_a_folder()
    with pytest.raises(AssertionError):
        calls.serve({CATALOG: {"ListTables": answered}})
