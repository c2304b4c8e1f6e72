"""Mutations: messages in, values out. The put is the hot path, so each field of it is read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rowlock_proto.v1 import region_pb2, types_pb2

from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import InvalidRequestError, LimitExceededError
from rowlock_regionserver.operations import (
    Append,
    Change,
    Check,
    CompareOp,
    Condition,
    Delete,
    DeleteKind,
    Existence,
    Increment,
    Put,
    RequestId,
    RowMutation,
    RowOutcome,
)
from rowlock_regionserver.rpc.messages.enums import member_of
from rowlock_regionserver.rpc.messages.filters import row_filter

CLIENT_ID_BYTES = 16
# The puts of one mutation that `plain_puts` takes.
PLAIN_PUTS_MAX = 4


def check_client_id(client_id: bytes) -> None:
    """Refuses an id that is not 16 bytes; none at all is fine for who numbers no changes."""
    if client_id and len(client_id) != CLIENT_ID_BYTES:
        raise InvalidRequestError(
            f"client_id is {len(client_id)} bytes; draw {CLIENT_ID_BYTES} random ones when the client starts, "
            "or leave it out and send no sequence"
        )


class Mutations(NamedTuple):
    """The mutations of one mutate that could be read, in order, and what was wrong with the others, by their index."""

    read: tuple[RowMutation, ...]
    refused: Mapping[int, InvalidRequestError]

    def outcomes_in_order(self, outcomes: Sequence[RowOutcome]) -> list[RowOutcome]:
        """One outcome for each mutation of the message, given those of the ones that could be read."""
        assert len(outcomes) == len(self.read), (len(outcomes), len(self.read))
        rest = iter(outcomes)
        count = len(self.read) + len(self.refused)
        return [self.refused[i] if i in self.refused else next(rest) for i in range(count)]


_NONE_REFUSED: Mapping[int, InvalidRequestError] = {}


class TooLongError(Exception):
    """The mutations have more parts, which are changes and checks, than whoever reads them wants to make."""


def row_mutations(
    message: region_pb2.Mutate, client_id: bytes, sequence_floor: int, config: Config, parts_max: int | None = None
) -> Mutations:
    """The mutations as values; one bad mutation doesn't spoil the others. `client_id` was checked.

    What a mutation means is judged at CHECK; here only what can't be read as a value is refused. InvalidRequestError
    concerns the whole batch. With `parts_max`, TooLongError before much more than so many parts were read.
    """
    mutations = message.mutations
    count = len(mutations)
    if count == 0:
        raise InvalidRequestError("the mutate holds no mutation; set Mutate.mutations")
    if count > config.rows_per_request_max:
        raise LimitExceededError(
            f"the mutate holds {count} mutations, at most {config.rows_per_request_max} go into one; send several",
            limit="rows_per_request_max",
            limit_value=config.rows_per_request_max,
            found=count,
        )
    if count == 1:  # The hot path: a loop over a repeated field costs more than its only element.
        mutation = mutations[0]
        try:
            return Mutations((_row_mutation(mutation, client_id, sequence_floor, config, parts_max),), _NONE_REFUSED)
        except InvalidRequestError as error:
            error.row = mutation.row
            return Mutations((), {0: error.without_frames()})
    read: list[RowMutation] = []
    refused: dict[int, InvalidRequestError] = {}
    for mutation in mutations:
        try:
            row = _row_mutation(mutation, client_id, sequence_floor, config, parts_max)
            read.append(row)
            if parts_max is not None:
                parts_max -= len(row.changes) + len(row.otherwise) + (len(row.condition.checks) if row.condition else 0)
                _check_parts(0, parts_max)
        except InvalidRequestError as error:
            error.row = mutation.row
            refused[len(read) + len(refused)] = error.without_frames()
    return Mutations(tuple(read), refused)


def plain_puts(message: region_pb2.Mutate, client_id: bytes, sequence_floor: int) -> RowMutation | None:
    """The mutation, if it is the only one, makes sense and has nothing but a few puts; else None.

    `client_id` was checked.
    """
    mutations = message.mutations
    if len(mutations) != 1:
        return None
    mutation = mutations[0]
    changes = mutation.changes
    count, sequence = len(changes), mutation.sequence
    if not 0 < count <= PLAIN_PUTS_MAX or mutation.HasField("condition") or mutation.otherwise:
        return None
    if sequence and not client_id:
        return None
    for change in changes:
        if not change.HasField("put"):
            return None
    return RowMutation(
        mutation.row,
        (_change(changes[0]),) if count == 1 else _changes(changes, None),
        request=request_id(client_id, sequence, sequence_floor, mutation.age_ms) if sequence else None,
    )


def request_id(client_id: bytes, sequence: int, sequence_floor: int, age_ms: int) -> RequestId | None:
    """The id under which the change is made once; None when it has no sequence."""
    if not sequence:
        return None
    if not client_id:
        raise InvalidRequestError(
            f"sequence {sequence} comes without a client_id; send the client's 16 bytes, or no sequence"
        )
    return RequestId(client_id, sequence, sequence_floor, age_ms)


def _row_mutation(
    message: region_pb2.RowMutation, client_id: bytes, sequence_floor: int, config: Config, parts_max: int | None
) -> RowMutation:
    changes = message.changes
    otherwise = message.otherwise
    sequence = message.sequence
    return RowMutation(
        message.row,
        (_change(changes[0]),) if len(changes) == 1 else _changes(changes, parts_max),
        _condition(message.condition, config, parts_max) if message.HasField("condition") else None,
        _changes(otherwise, parts_max) if otherwise else (),
        request_id(client_id, sequence, sequence_floor, message.age_ms) if sequence else None,
    )


def _check_parts(count: int, parts_max: int | None) -> None:
    if parts_max is not None and count > parts_max:
        raise TooLongError


def _changes(messages: Sequence[types_pb2.Change], parts_max: int | None) -> tuple[Change, ...]:
    _check_parts(len(messages), parts_max)
    return tuple([_change(message) for message in messages])


def _change(message: types_pb2.Change) -> Change:
    if message.HasField("put"):  # The hot path; WhichOneof would make a string to be compared.
        put = message.put
        timestamp = put.timestamp if put.HasField("timestamp") else None
        return Put(put.family, put.qualifier, put.value, timestamp)
    match message.WhichOneof("change"):
        case "increment":
            increment = message.increment
            return Increment(increment.family, increment.qualifier, increment.amount)
        case "append":
            append = message.append
            return Append(append.family, append.qualifier, append.suffix)
        case "delete":
            return _delete(message.delete)
        case _:
            raise InvalidRequestError(
                "a change says nothing; set one of put, delete, increment, append "
                "(a kind that this server is too old to know looks the same)"
            )


def _delete(message: types_pb2.Delete) -> Delete:
    kind = member_of(DeleteKind, message.kind, "Delete.kind")
    timestamp = message.timestamp if message.HasField("timestamp") else None
    if kind is DeleteKind.ROW:
        return Delete(kind, timestamp=timestamp)
    if kind is DeleteKind.FAMILY:
        return Delete(kind, message.family, timestamp=timestamp)
    return Delete(kind, message.family, message.qualifier, timestamp)


def _condition(message: region_pb2.Condition, config: Config, parts_max: int | None) -> Condition:
    _check_parts(len(message.checks), parts_max)
    return Condition(
        checks=tuple([_check(check) for check in message.checks]),
        existence=member_of(Existence, message.existence, "Condition.existence"),
        filter=row_filter(message.filter, config.filter_depth_max) if message.HasField("filter") else None,
    )


def _check(message: region_pb2.Check) -> Check:
    op = member_of(CompareOp, message.op, "Check.op")
    operand = message.operand if message.HasField("operand") else None
    if operand is None and op not in (CompareOp.EQUAL, CompareOp.NOT_EQUAL):
        raise InvalidRequestError(
            f"a check has op {op.name} and no operand; without an operand only EQUAL (absent) and NOT_EQUAL (present) "
            "have a meaning",
            family=message.family,
            qualifier=message.qualifier,
        )
    return Check(message.family, message.qualifier, op, operand)
