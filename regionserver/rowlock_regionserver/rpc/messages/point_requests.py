"""PointRequest messages as requests of the engine, which reads them on demand; answers are PointAnswers messages."""

from __future__ import annotations

from collections.abc import Sequence

from rowlock_proto.v1.region_pb2 import PointRequest, ScanRequest

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.interfaces import ScanToOpen
from rowlock_regionserver.errors import InvalidRequestError
from rowlock_regionserver.operations import AnswerCell, ProcedureCall, RowMutation, RowOutcome, Selection
from rowlock_regionserver.region.bulk.put_batch import PutBatch
from rowlock_regionserver.rpc.messages.answers import (
    call_answer,
    error_answer,
    get_answer,
    mutate_answer,
    opened_scan_answer,
    plain_answers,
    put_rows_answer,
)
from rowlock_regionserver.rpc.messages.enums import DURABILITIES, durability
from rowlock_regionserver.rpc.messages.mutations import (
    Mutations,
    TooLongError,
    check_client_id,
    plain_change,
    request_id,
    row_mutations,
)
from rowlock_regionserver.rpc.messages.put_rows import put_batch, rows_at_most
from rowlock_regionserver.rpc.messages.reads import rows_of, scan_plan, selection
from rowlock_regionserver.rpc.messages.row_values import values_answer
from rowlock_regionserver.rpc.messages.scan_batches import scan_message
from rowlock_regionserver.rpc.messages.sessions import session_ref


class PointGet:
    """A PointRequest with a get; a GetRequest of engine/interfaces.py."""

    __slots__ = ("_config", "_message", "region_id", "timeout_ms")

    def __init__(self, message: PointRequest, config: Config) -> None:
        self._message = message
        self._config = config
        self.region_id = message.region_id
        self.timeout_ms = message.timeout_ms

    def byte_count(self) -> int:
        return self._message.ByteSize()

    def row_count(self) -> int:
        return len(self._message.get.rows)

    def read(self, rows_max: int | None = None) -> tuple[Sequence[bytes], Selection] | None:
        get = self._message.get
        if rows_max is not None and len(get.rows) > rows_max:
            return None
        return rows_of(get, self._config), selection(get, self._config)

    def answer(self, rows: list[Sequence[AnswerCell]]) -> bytes:
        request_id, get = self._message.id, self._message.get
        values = values_answer(request_id, rows) if get.values_only and get.versions < 2 else None
        return get_answer(request_id, rows) if values is None else values

    def failure(self, error: BaseException, doing: str) -> bytes:
        return error_answer(self._message.id, error, doing)


class PointScan:
    """A PointRequest with open_scan; an OpenScanRequest of engine/interfaces.py."""

    __slots__ = ("_config", "_message", "held_scan", "region_id", "timeout_ms")

    def __init__(self, message: PointRequest, config: Config) -> None:
        self._message = message
        self._config = config
        self.region_id = message.region_id
        self.timeout_ms = message.timeout_ms
        self.held_scan = message.open_scan.held_scan

    def byte_count(self) -> int:
        return self._message.ByteSize()

    def row_count(self) -> int:
        return 0

    def read(self) -> ScanToOpen:
        return scan_to_open(self._message.open_scan, self._config)

    def answer(self, batches: Sequence[bytes], read_point: int, held_scan: int) -> bytes:
        return opened_scan_answer(self._message.id, batches, read_point, held_scan)

    def failure(self, error: BaseException, doing: str) -> bytes:
        return error_answer(self._message.id, error, doing)


def scan_to_open(message: ScanRequest, config: Config, owner: str = "") -> ScanToOpen:
    """Converts a scan. `owner`: who the client is, if the message does not say. Raises RegionServerError."""
    return ScanToOpen(
        scan_plan(message, config),
        scan_message,
        message.snapshot_id,
        session_ref(message.session) if message.HasField("session") else None,
        message.owner or owner,
    )


class PointChange:
    """A PointRequest with a mutate, or with nothing; a ChangeRequest of engine/interfaces.py."""

    __slots__ = ("_client_id", "_config", "_message", "_mutations", "_sequence_floor", "id", "region_id", "timeout_ms")

    def __init__(self, message: PointRequest, client_id: bytes, sequence_floor: int, config: Config) -> None:
        self._message = message
        self._client_id = client_id
        self._sequence_floor = sequence_floor
        self._config = config
        self._mutations: Mutations | None = None
        self.id = message.id
        self.region_id = message.region_id
        self.timeout_ms = message.timeout_ms

    def byte_count(self) -> int:
        return self._message.ByteSize()

    def row_count(self) -> int:
        return len(self._message.mutate.mutations)

    def read(self, rows_max: int | None = None, parts_max: int | None = None) -> Sequence[RowMutation] | None:
        if self._mutations is None:
            message = self._message
            if not message.HasField("mutate"):
                raise InvalidRequestError(
                    f"request {message.id} has no operation; set one of get, mutate, open_scan, put_rows, call "
                    "(or it has an operation that this server is too old to know)"
                )
            mutate = message.mutate
            if rows_max is not None and len(mutate.mutations) > rows_max:
                return None
            check_client_id(self._client_id)
            try:
                self._mutations = row_mutations(mutate, self._client_id, self._sequence_floor, self._config, parts_max)
            except TooLongError:
                return None
        return self._mutations.read

    def plain_change(self) -> RowMutation | None:
        mutate = self._message.mutate
        if mutate.durability not in DURABILITIES:
            return None
        mutation = plain_change(mutate, self._client_id, self._sequence_floor)
        if mutation is not None:
            self._mutations = Mutations((mutation,), {})  # `read` need not convert it again if it is made alone.
        return mutation

    def durability(self) -> Durability | None:
        value = self._message.mutate.durability
        return DURABILITIES[value] if value in DURABILITIES else durability(value)

    def answer(self, outcomes: Sequence[RowOutcome]) -> bytes:
        mutations = self._mutations
        if mutations is not None and mutations.refused:
            outcomes = mutations.outcomes_in_order(outcomes)
        return mutate_answer(self.id, outcomes)

    def failure(self, error: BaseException, doing: str) -> bytes:
        return error_answer(self._message.id, error, doing)


class PointPutRows:
    """A PointRequest with puts in columns; a PutRowsRequest of engine/interfaces.py."""

    __slots__ = ("_client_id", "_config", "_message", "_sequence_floor", "id", "region_id", "timeout_ms")

    def __init__(self, message: PointRequest, client_id: bytes, sequence_floor: int, config: Config) -> None:
        self._message = message
        self._client_id = client_id
        self._sequence_floor = sequence_floor
        self._config = config
        self.id = message.id
        self.region_id = message.region_id
        self.timeout_ms = message.timeout_ms

    def byte_count(self) -> int:
        return self._message.ByteSize()

    def row_count(self) -> int:
        return rows_at_most(self._message.put_rows, self._config)

    def read(self) -> tuple[PutBatch, Durability | None]:
        message = self._message.put_rows
        check_client_id(self._client_id)
        batch = put_batch(message, self._client_id, self._sequence_floor, self._config)
        return batch, durability(message.durability)

    def answer(self, outcomes: Sequence[RowOutcome]) -> bytes:
        return put_rows_answer(self.id, outcomes)

    def failure(self, error: BaseException, doing: str) -> bytes:
        return error_answer(self._message.id, error, doing)


class PointCall:
    """A PointRequest with the call of a procedure; a CallRequest of engine/interfaces.py."""

    __slots__ = ("_client_id", "_message", "_sequence_floor", "id", "name", "region_id", "timeout_ms")

    def __init__(self, message: PointRequest, client_id: bytes, sequence_floor: int) -> None:
        self._message = message
        self._client_id = client_id
        self._sequence_floor = sequence_floor
        self.id = message.id
        self.name = message.call.name
        self.region_id = message.region_id
        self.timeout_ms = message.timeout_ms

    def byte_count(self) -> int:
        return self._message.ByteSize()

    def row_count(self) -> int:
        return 1

    def read(self) -> tuple[ProcedureCall, Durability | None]:
        message = self._message.call
        check_client_id(self._client_id)
        request = request_id(self._client_id, message.sequence, self._sequence_floor, message.age_ms)
        return ProcedureCall(message.row, message.name, message.argument, request), durability(message.durability)

    def answer(self, outcomes: Sequence[RowOutcome]) -> bytes:
        return call_answer(self.id, outcomes[0])

    def failure(self, error: BaseException, doing: str) -> bytes:
        return error_answer(self._message.id, error, doing)


def plain_changes_answer(requests: Sequence[PointChange], outcomes: Sequence[RowOutcome]) -> bytes | None:
    """Encodes the answers of several plain changes in one message. None if one of them can't be encoded."""
    return plain_answers([request.id for request in requests], outcomes)
