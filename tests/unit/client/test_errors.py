"""The tree of errors: the drawing, the evidence of each error, and pickling."""

from __future__ import annotations

import pickle
import socket
from pathlib import Path

import grpc
import pytest
from rowlock import errors
from rowlock._codec.wire_errors import error_from, error_of_call
from rowlock.errors import BatchError, DeadlineError, LimitExceededError, RowlockError, ServerUnavailableError
from rowlock_proto.errors import ERRORS, ErrorRow
from rowlock_proto.v1 import types_pb2

ALL: list[type[RowlockError]] = [getattr(errors, name) for name in errors.__all__]


def drawn(kind: type[RowlockError]) -> list[str]:
    """Returns the names above a class in the module's drawing, from the class up."""
    lines = (errors.__doc__ or "").splitlines()
    depth_of = {
        line.strip("│├└─ ").split(" ")[0]: len(line) - len(line.lstrip("│├└─ ")) for line in lines if "Error" in line
    }
    names = list(depth_of)
    place = names.index(kind.__name__)
    above = [kind.__name__]
    for name in reversed(names[:place]):
        if depth_of[name] < depth_of[above[-1]]:
            above.append(name)
    return above


@pytest.mark.parametrize("kind", ALL)
def test_every_error_is_drawn_where_it_is(kind: type[RowlockError]) -> None:
    assert drawn(kind) == [base.__name__ for base in kind.__mro__ if base in ALL]


@pytest.mark.parametrize("kind", ALL)
def test_a_traceback_names_every_error_by_the_module_that_has_all(kind: type[RowlockError]) -> None:
    assert kind.__module__ == "rowlock.errors"


@pytest.mark.parametrize("kind", ALL)
def test_every_error_survives_pickling_with_its_evidence(kind: type[RowlockError]) -> None:
    error = kind("what happened")
    error.row = b"row"
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.row, again.can_retry) == (kind, "what happened", b"row", error.can_retry)


def test_errors_derive_from_the_builtin_exceptions_of_their_kind() -> None:
    assert issubclass(DeadlineError, TimeoutError)
    assert issubclass(ServerUnavailableError, ConnectionError)
    assert issubclass(errors.InvalidArgumentError, ValueError)


def test_a_servers_error_has_its_evidence() -> None:
    message = types_pb2.Error(
        code=types_pb2.Error.LIMIT_EXCEEDED,
        message="too large",
        table="t",
        row=b"r",
        family=b"f",
        qualifier=b"q",
        limit="cell_bytes_max",
        limit_value=10,
        found=11,
    )
    error = error_from(message)
    assert isinstance(error, LimitExceededError)
    assert (error.limit, error.limit_value, error.found) == ("cell_bytes_max", 10, 11)
    assert (error.table, error.row, error.column, str(error)) == ("t", b"r", b"f:q", "too large")


@pytest.mark.parametrize("row", [row for row in ERRORS if row.code], ids=lambda row: row.code.name)
def test_each_code_of_the_protocol_becomes_the_class_of_its_row(row: ErrorRow) -> None:
    assert row.code is not None
    assert row.client is not None
    kind = type(error_from(types_pb2.Error(code=row.code.name)))
    assert kind is getattr(errors, row.client.name)


@pytest.mark.parametrize("code", [types_pb2.Error.SESSION_ENDED, types_pb2.Error.SNAPSHOT_ENDED])
def test_an_end_arrives_with_when_and_why(code: types_pb2.Error.Code) -> None:
    error = error_from(types_pb2.Error(code=code, message="gone", table="t", ended_ms=7, reason="over"))
    assert isinstance(error, errors.SessionEndedError | errors.SnapshotEndedError)
    assert (error.ended_ms, error.reason, error.table, str(error)) == (7, "over", "t", "gone")


def test_a_code_of_a_newer_protocol_is_reported() -> None:
    assert type(error_from(types_pb2.Error(code=999, message="news"))) is errors.ServerError  # type: ignore[arg-type]  # on purpose


def test_malformed_details_of_a_failed_call_are_not_believed() -> None:
    class Failed:
        def code(self) -> grpc.StatusCode:
            return grpc.StatusCode.UNAVAILABLE

        def details(self) -> str:
            return "cut"

        def trailing_metadata(self) -> list[tuple[str, bytes]]:
            return [("grpc-status-details-bin", b"\xff\xff no message")]

    error = error_of_call(Failed(), "host:1")
    assert isinstance(error, ServerUnavailableError)
    assert "host:1" in str(error)


def test_where_nobody_listens_the_reason_is_the_systems_alone() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError) as failed:
            channel.unary_unary("/any/Method", request_serializer=bytes, response_deserializer=bytes)(b"", timeout=60)
    error = error_of_call(failed.value, address)
    assert str(error) == f"no server answers at {address}: Connection refused"
    assert isinstance(error, ServerUnavailableError)
    assert error.never_left


def test_a_batch_error_sorts_the_rows() -> None:
    error = BatchError("some", applied=[b"a"], failed=[(b"b", RowlockError("x"))], unknown=[])
    assert (error.applied, error.failed[0][0], error.unknown) == ([b"a"], b"b", [])


def test_only_a_data_folders_socket_is_taken_for_a_private_servers(tmp_path: Path) -> None:
    class Failed(grpc.RpcError):
        def code(self) -> grpc.StatusCode:
            return grpc.StatusCode.UNAVAILABLE

        def details(self) -> str:
            return "failed to connect to all addresses; last error: FAILED_PRECONDITION: Connection refused"

    failed = Failed()
    elsewhere = error_of_call(failed, f"unix:{tmp_path / 'socket'}")
    (tmp_path / "format").touch()
    assert "rowlock.open" not in str(elsewhere)
    for address in (f"unix:{tmp_path / 'other'}", "localhost:7460"):
        assert "rowlock.open" not in str(error_of_call(failed, address))
    assert f"call rowlock.open({str(tmp_path)!r}) again" in str(error_of_call(failed, f"unix:{tmp_path}/socket"))
