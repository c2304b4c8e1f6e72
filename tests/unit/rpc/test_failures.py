"""Errors as messages and as the status of a call."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from google.rpc.status_pb2 import Status
from rowlock_proto.errors import ERRORS, Code, ErrorRow
from rowlock_proto.v1.region_pb2 import PointRequests
from rowlock_proto.v1.types_pb2 import Error
from rowlock_regionserver import errors
from rowlock_regionserver.errors import (
    CorruptionError,
    DiskFullError,
    InvalidRequestError,
    LimitExceededError,
    RegionServerError,
    RegionTooBusyError,
    SessionEndedError,
    SnapshotEndedError,
)
from rowlock_regionserver.rpc.messages import failures
from rowlock_regionserver.rpc.messages.failures import end_call, error_message, parsed


def kind_of(row: ErrorRow) -> type[RegionServerError]:
    assert row.server is not None
    kind: type[RegionServerError] = getattr(errors, row.server.name)
    return kind


def code_of(row: ErrorRow) -> Code:
    """Returns the code of the row, or of the nearest base class that has one."""
    if row.code is not None:
        return row.code
    assert row.server is not None
    return code_of(next(above for above in ERRORS if above.server and above.server.name == row.server.parents))


def made(kind: type[RegionServerError]) -> RegionServerError:
    if kind is LimitExceededError:
        return LimitExceededError("m", limit="row_bytes_max", limit_value=5, found=6)
    if kind is CorruptionError:
        return CorruptionError("/path", 7, "a", "b")
    return kind("m")


class FakeContext:
    """Records how a call is ended."""

    def __init__(self) -> None:
        self.metadata: dict[str, bytes] = {}
        self.code: grpc.StatusCode | None = None
        self.details = ""

    def set_trailing_metadata(self, metadata: tuple[tuple[str, bytes], ...]) -> None:
        self.metadata = dict(metadata)

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        self.code, self.details = code, details
        raise grpc.aio.AbortError


def ended(message: Error) -> tuple[FakeContext, Status, Error]:
    context: Any = FakeContext()
    with pytest.raises(grpc.aio.AbortError):
        asyncio.run(end_call(context, message))
    status = Status.FromString(context.metadata["grpc-status-details-bin"])
    evidence = Error()
    assert status.details[0].Unpack(evidence)
    return context, status, evidence


@pytest.mark.parametrize("row", [row for row in ERRORS if row.server], ids=lambda row: row.server.name)
def test_each_error_travels_under_its_code_and_status_or_those_of_its_parent(row: ErrorRow) -> None:
    code = code_of(row)
    message = error_message(made(kind_of(row)), "testing")
    assert Error.Code.Name(message.code) == code.name
    assert message.can_retry == row.can_retry
    context, status, evidence = ended(message)
    assert context.code is grpc.StatusCode[code.status]
    number: int = context.code.value[0]
    assert status.code == number != 0
    assert evidence.code == message.code


def test_an_error_that_the_table_does_not_know_travels_under_the_code_of_its_parent() -> None:
    class NarrowError(DiskFullError):
        """An error class for this test."""

    assert error_message(NarrowError("full"), "").code == Error.DISK_FULL


def test_the_evidence_arrives() -> None:
    error = LimitExceededError(
        "too long", limit="row_bytes_max", limit_value=5, found=6, row=b"r", table="t", family=b"f", qualifier=b"q"
    )
    expected = Error(
        code=Error.LIMIT_EXCEEDED,
        message="too long",
        row=b"r",
        table="t",
        family=b"f",
        qualifier=b"q",
        limit="row_bytes_max",
        limit_value=5,
        found=6,
    )
    assert error_message(error, "") == expected
    assert ended(error_message(error, ""))[2] == expected


def test_busy_has_a_retry_delay() -> None:
    message = error_message(RegionTooBusyError("busy", retry_after_ms=250), "")
    assert (message.code, message.retry_after_ms, message.can_retry) == (Error.REGION_TOO_BUSY, 250, True)
    assert ended(error_message(DiskFullError("full"), ""))[0].code is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_limit_beyond_64_bits_is_sent_as_the_greatest_number() -> None:
    error = LimitExceededError("m", limit="l", limit_value=1, found=1 << 70)
    assert error_message(error, "").found == (1 << 63) - 1


def test_a_bug_is_logged_with_its_traceback_and_sent_in_short(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise KeyError("secret")
    except KeyError as error:
        message = error_message(error, "doing this")
    assert message.code == Error.INTERNAL
    assert "KeyError" in message.message
    assert "doing this" in message.message
    assert "secret" not in message.message
    assert "Traceback" in caplog.text
    assert "secret" in caplog.text


@pytest.mark.parametrize("character", ["x", "é", "\U0001f600"])
def test_a_status_never_grows_beyond_what_metadata_may_hold(character: str) -> None:
    error = InvalidRequestError(
        character * 40_000,
        row=b"r" * 32_000,
        table=character * 32_000,
        family=b"f" * 32_000,
        qualifier=b"q" * 32_000,
    )
    context, status, evidence = ended(error_message(error, ""))
    on_the_wire = len(context.metadata["grpc-status-details-bin"]) * 4 / 3 + 3 * len(context.details.encode())
    assert on_the_wire < 8000
    assert status.message.startswith(character)
    assert evidence.row == b"r" * 512
    assert evidence.family == b"f" * 128
    assert evidence.table == character * (256 // len(character.encode()))


@pytest.mark.parametrize("kind", [SessionEndedError, SnapshotEndedError])
def test_an_end_says_when_and_why_and_a_long_reason_is_cut(
    kind: type[SessionEndedError] | type[SnapshotEndedError],
) -> None:
    context, _, evidence = ended(error_message(kind("x" * 9000, table="t", ended_ms=7, reason="é" * 9000), ""))
    assert (evidence.ended_ms, evidence.table, evidence.reason) == (7, "t", "é" * 128)
    assert len(context.metadata["grpc-status-details-bin"]) * 4 / 3 + 3 * len(context.details.encode()) < 8000


def test_bytes_that_are_no_message_are_the_callers_mistake() -> None:
    assert parsed(PointRequests, b"") == PointRequests()
    with pytest.raises(InvalidRequestError, match=r"rowlock\.v1\.PointRequests"):
        parsed(PointRequests, b"\xff\xff\xff")


def test_the_same_damage_is_logged_once_a_second(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(failures, "_log_limit", failures._LogLimit())
    monkeypatch.setattr("rowlock_regionserver.rpc.messages.failures.time.monotonic", lambda: now)
    for second in range(3):
        now = 1000.0 + second
        for number in (1, 2, 1, 2):
            error_message(errors.CorruptionError(f"cf/{number}.store", 7, "checksum 1", "2"), "scanning")
    assert len(caplog.records) == 6


def test_damage_is_logged_and_other_errors_are_not(caplog: pytest.LogCaptureFixture) -> None:
    error_message(errors.CorruptionError("cf/1.store", 7, "checksum 1", "2"), "scanning")
    error_message(errors.DiskFullError("full"), "scanning")
    assert [(record.levelname, record.message.partition(" at ")[0]) for record in caplog.records] == [
        ("ERROR", "damage found while scanning: cf/1.store is damaged")
    ]
