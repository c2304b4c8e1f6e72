"""Mutations: converts messages to values. The put is the hot path, so each of its fields is read only once."""

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
from rowlock_regionserver.rpc.messages.row_values import puts_count, puts_of

CLIENT_ID_BYTES = 16
# The most changes in a mutation that `plain_change` accepts.
PLAIN_CHANGES_MAX = 16


def check_client_id(client_id: bytes) -> None:
    """Refuses an id that is not 16 bytes. An empty one is valid for a client that does not number its changes."""
    if client_id and len(client_id) != CLIENT_ID_BYTES:
        raise InvalidRequestError(
            f"client_id has {len(client_id)} bytes; draw {CLIENT_ID_BYTES} random bytes when the client starts, or "
            "send neither client_id nor sequence"
        )


class Mutations(NamedTuple):
    """The valid mutations of one mutate, in order, and the errors of the others, by index."""

    read: tuple[RowMutation, ...]
    refused: Mapping[int, InvalidRequestError]

    def outcomes_in_order(self, outcomes: Sequence[RowOutcome]) -> list[RowOutcome]:
        """Returns an outcome for each mutation of the message, given the outcomes of those in `read`."""
        assert len(outcomes) == len(self.read), (len(outcomes), len(self.read))
        of_read = iter(outcomes)
        count = len(self.read) + len(self.refused)
        return [self.refused[i] if i in self.refused else next(of_read) for i in range(count)]


_NONE_REFUSED: Mapping[int, InvalidRequestError] = {}


class TooLongError(Exception):
    """The mutations have more parts, that is changes and checks, than the caller wants to convert."""


def row_mutations(
    message: region_pb2.Mutate, client_id: bytes, sequence_floor: int, config: Config, parts_max: int | None = None
) -> Mutations:
    """Converts the mutations to values; an invalid one does not affect the others. `client_id` was checked.

    Refuses only what can't be converted; CHECK validates the meaning. Raises InvalidRequestError for an error of the
    whole batch. With `parts_max`, raises TooLongError before it converts many more parts than that.
    """
    mutations = message.mutations
    count = len(mutations)
    if count == 0:
        raise InvalidRequestError("the mutate has no mutation; set Mutate.mutations")
    if count > config.rows_per_request_max:
        raise LimitExceededError(
            f"the mutate has {count} mutations, more than rows_per_request_max = {config.rows_per_request_max}; send "
            "several mutates",
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


def plain_change(message: region_pb2.Mutate, client_id: bytes, sequence_floor: int) -> RowMutation | None:
    """Returns the mutation if it is the only one, is valid, and has only a few puts and increments; else None.

    `client_id` was checked.
    """
    mutations = message.mutations
    if len(mutations) != 1:
        return None
    mutation = mutations[0]
    changes, values = mutation.changes, mutation.puts if mutation.HasField("puts") else None
    count, sequence = len(changes) + (puts_count(values) if values else 0), mutation.sequence
    if not 0 < count <= PLAIN_CHANGES_MAX or mutation.HasField("condition") or mutation.otherwise:
        return None
    if sequence and not client_id:
        return None
    puts: Sequence[Change] = ()
    if values:
        try:
            puts = puts_of(values)
        except InvalidRequestError:
            return None
    plain: list[Change] = []
    for change in changes:
        if change.HasField("put"):
            plain.append(_put(change.put))
        elif change.HasField("increment"):
            plain.append(_increment(change.increment))
        else:
            return None
    return RowMutation(
        mutation.row,
        (*puts, *plain) if plain else puts,
        request=request_id(client_id, sequence, sequence_floor, mutation.age_ms) if sequence else None,
    )


def request_id(client_id: bytes, sequence: int, sequence_floor: int, age_ms: int) -> RequestId | None:
    """Returns the request id under which the change is applied once; None if it has no sequence."""
    if not sequence:
        return None
    if not client_id:
        raise InvalidRequestError(
            f"sequence {sequence} was sent without a client_id; send the client's 16 bytes, or no sequence"
        )
    return RequestId(client_id, sequence, sequence_floor, age_ms)


def _row_mutation(
    message: region_pb2.RowMutation, client_id: bytes, sequence_floor: int, config: Config, parts_max: int | None
) -> RowMutation:
    otherwise = message.otherwise
    sequence = message.sequence
    return RowMutation(
        message.row,
        _values_and_changes(message, parts_max) if message.HasField("puts") else _changes(message.changes, parts_max),
        _condition(message.condition, config, parts_max) if message.HasField("condition") else None,
        _changes(otherwise, parts_max) if otherwise else (),
        request_id(client_id, sequence, sequence_floor, message.age_ms) if sequence else None,
    )


def _check_parts(count: int, parts_max: int | None) -> None:
    if parts_max is not None and count > parts_max:
        raise TooLongError


def _values_and_changes(message: region_pb2.RowMutation, parts_max: int | None) -> Sequence[Change]:
    changes = message.changes
    _check_parts(puts_count(message.puts) + len(changes), parts_max)
    puts = puts_of(message.puts)
    return (*puts, *_changes(changes, parts_max)) if changes else puts


def _changes(messages: Sequence[types_pb2.Change], parts_max: int | None) -> tuple[Change, ...]:
    if len(messages) == 1:
        return (_change(messages[0]),)
    _check_parts(len(messages), parts_max)
    return tuple([_change(message) for message in messages])


def _change(message: types_pb2.Change) -> Change:
    if message.HasField("put"):  # The hot path; WhichOneof would create a string to compare.
        return _put(message.put)
    match message.WhichOneof("change"):
        case "increment":
            return _increment(message.increment)
        case "append":
            append = message.append
            return Append(append.family, append.qualifier, append.suffix)
        case "delete":
            return _delete(message.delete)
        case _:
            raise InvalidRequestError(
                "a change is empty; set one of put, delete, increment, append "
                "(or it has a kind that this server is too old to know)"
            )


def _put(message: types_pb2.Put) -> Put:
    timestamp = message.timestamp if message.HasField("timestamp") else None
    return Put(message.family, message.qualifier, message.value, timestamp)


def _increment(message: types_pb2.Increment) -> Increment:
    return Increment(message.family, message.qualifier, message.amount)


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
        checks=tuple([_check_value(check) for check in message.checks]),
        existence=member_of(Existence, message.existence, "Condition.existence"),
        filter=row_filter(message.filter, config.filter_depth_max) if message.HasField("filter") else None,
        returns_filtered=message.return_filtered,
    )


def _check_value(message: region_pb2.Check) -> Check:
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
