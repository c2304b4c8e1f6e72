"""Mutations as values: every field arrives, and an invalid one is refused without affecting the others."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from rowlock_proto.v1 import region_pb2, types_pb2
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import InvalidRequestError, LimitExceededError
from rowlock_regionserver.operations import (
    AllOf,
    Append,
    Check,
    ColumnPresence,
    CompareOp,
    Condition,
    Delete,
    DeleteKind,
    Existence,
    Increment,
    Put,
    RequestId,
    RowMutation,
    RowResult,
)
from rowlock_regionserver.rpc.messages.mutations import check_client_id, row_mutations

CLIENT = b"c" * 16
CONFIG = Config()


def unknown(number: int) -> Any:
    """Returns a number that no enum has; the generated types would reject it."""
    return number


def put(qualifier: bytes, value: bytes, timestamp: int | None = None) -> types_pb2.Change:
    return types_pb2.Change(put=types_pb2.Put(family=b"f", qualifier=qualifier, value=value, timestamp=timestamp))


def one(mutation: region_pb2.RowMutation) -> RowMutation:
    mutations = row_mutations(region_pb2.Mutate(mutations=[mutation]), CLIENT, 3, CONFIG)
    if mutations.refused:
        raise mutations.refused[0]
    return mutations.read[0]


def test_a_put_arrives_with_every_field() -> None:
    mutation = one(region_pb2.RowMutation(row=b"r", changes=[put(b"q", b"v", 17)], sequence=9))
    assert mutation == RowMutation(b"r", (Put(b"f", b"q", b"v", 17),), None, (), RequestId(CLIENT, 9, 3))


def test_timestamp_zero_is_a_timestamp_and_none_is_none() -> None:
    mutation = one(region_pb2.RowMutation(row=b"r", changes=[put(b"a", b"", 0), put(b"b", b"")]))
    assert [change.timestamp for change in mutation.changes if isinstance(change, Put)] == [0, None]


def test_every_kind_of_change_arrives_in_its_order() -> None:
    changes = [
        types_pb2.Change(increment=types_pb2.Increment(family=b"f", qualifier=b"n", amount=-7)),
        types_pb2.Change(append=types_pb2.Append(family=b"f", qualifier=b"a", suffix=b"s")),
        put(b"q", b"v"),
        types_pb2.Change(delete=types_pb2.Delete(kind=types_pb2.Delete.KIND_COLUMN, family=b"f", qualifier=b"q")),
        types_pb2.Change(
            delete=types_pb2.Delete(kind=types_pb2.Delete.KIND_VERSION, family=b"f", qualifier=b"q", timestamp=5)
        ),
        types_pb2.Change(delete=types_pb2.Delete(kind=types_pb2.Delete.KIND_FAMILY, family=b"f", qualifier=b"no")),
        types_pb2.Change(delete=types_pb2.Delete(kind=types_pb2.Delete.KIND_ROW, family=b"not read", timestamp=8)),
    ]
    assert one(region_pb2.RowMutation(row=b"r", changes=changes)).changes == (
        Increment(b"f", b"n", -7),
        Append(b"f", b"a", b"s"),
        Put(b"f", b"q", b"v"),
        Delete(DeleteKind.COLUMN, b"f", b"q"),
        Delete(DeleteKind.VERSION, b"f", b"q", 5),
        Delete(DeleteKind.FAMILY, b"f"),
        Delete(DeleteKind.ROW, timestamp=8),
    )


def test_a_condition_arrives_with_what_is_done_otherwise() -> None:
    condition = region_pb2.Condition(
        checks=[
            region_pb2.Check(family=b"f", qualifier=b"q", op=types_pb2.COMPARE_OP_LESS, operand=b""),
            region_pb2.Check(family=b"f", qualifier=b"q"),
        ],
        existence=region_pb2.Condition.EXISTENCE_PRESENT,
        filter=types_pb2.Filter(presence=types_pb2.ColumnPresence(family=b"f", qualifier=b"p", present=True)),
    )
    mutation = one(
        region_pb2.RowMutation(row=b"r", changes=[put(b"q", b"1")], condition=condition, otherwise=[put(b"q", b"2")])
    )
    assert mutation.condition == Condition(
        (Check(b"f", b"q", CompareOp.LESS, b""), Check(b"f", b"q", CompareOp.EQUAL, None)),
        Existence.PRESENT,
        ColumnPresence(b"f", b"p", True),
    )
    assert mutation.otherwise == (Put(b"f", b"q", b"2"),)


def test_an_empty_condition_differs_from_none() -> None:
    mutation = one(region_pb2.RowMutation(row=b"r", changes=[put(b"q", b"")], condition=region_pb2.Condition()))
    assert mutation.condition == Condition()


@pytest.mark.parametrize(
    ("mutation", "said"),
    [
        (region_pb2.RowMutation(changes=[types_pb2.Change()]), "a change is empty"),
        (
            region_pb2.RowMutation(changes=[types_pb2.Change(delete=types_pb2.Delete(kind=unknown(9)))]),
            "Delete.kind is 9",
        ),
        (region_pb2.RowMutation(condition=region_pb2.Condition(existence=unknown(7))), "Condition.existence is 7"),
        (
            region_pb2.RowMutation(condition=region_pb2.Condition(checks=[region_pb2.Check(op=unknown(-1))])),
            "Check.op is -1",
        ),
        (
            region_pb2.RowMutation(
                condition=region_pb2.Condition(checks=[region_pb2.Check(op=types_pb2.COMPARE_OP_LESS)])
            ),
            "no operand",
        ),
        (region_pb2.RowMutation(condition=region_pb2.Condition(filter=types_pb2.Filter())), "a filter is empty"),
    ],
)
def test_an_empty_or_unknown_part_is_refused_with_its_row(mutation: region_pb2.RowMutation, said: str) -> None:
    mutation.row = b"the row"
    with pytest.raises(InvalidRequestError, match=said) as refused:
        one(mutation)
    assert refused.value.row == b"the row"


def test_one_bad_mutation_leaves_the_others_of_its_batch() -> None:
    good = [region_pb2.RowMutation(row=row, changes=[put(b"q", b"v")]) for row in (b"a", b"c")]
    bad = region_pb2.RowMutation(row=b"b", changes=[types_pb2.Change()])
    mutations = row_mutations(region_pb2.Mutate(mutations=[bad, good[0], bad, good[1], bad]), b"", 0, CONFIG)
    assert [mutation.row for mutation in mutations.read] == [b"a", b"c"]
    assert sorted(mutations.refused) == [0, 2, 4]
    first, second = RowResult(timestamp=1), RowResult(timestamp=2)
    refused = mutations.refused
    assert mutations.outcomes_in_order([first, second]) == [refused[0], first, refused[2], second, refused[4]]


@pytest.mark.parametrize("count", [1, 2])
def test_a_refused_mutation_is_not_held_by_its_own_error(count: int) -> None:
    unreadable = region_pb2.RowMutation(row=b"b", condition=region_pb2.Condition(existence=unknown(7)))
    gc.disable()
    try:
        mutations = row_mutations(region_pb2.Mutate(mutations=[unreadable] * count), b"", 0, CONFIG)
        held = [weakref.ref(error) for error in mutations.refused.values()]
        del mutations
        # Nothing but the cyclic collector would find an error that its own frames hold.
        assert [error() for error in held] == [None] * count
    finally:
        gc.enable()


def test_a_sequence_needs_a_client() -> None:
    mutation = region_pb2.RowMutation(row=b"r", changes=[put(b"q", b"")], sequence=4)
    refused = row_mutations(region_pb2.Mutate(mutations=[mutation]), b"", 0, CONFIG).refused
    assert "without a client_id" in refused[0].message


@pytest.mark.parametrize("client_id", [b"c", b"c" * 15, b"c" * 17])
def test_a_client_id_of_another_length_is_refused(client_id: bytes) -> None:
    with pytest.raises(InvalidRequestError, match=f"client_id has {len(client_id)} bytes"):
        check_client_id(client_id)
    check_client_id(CLIENT)
    check_client_id(b"")


def test_a_batch_has_at_least_one_mutation_and_at_most_the_limit() -> None:
    config = Config(rows_per_request_max=2)
    mutation = region_pb2.RowMutation(row=b"r", changes=[put(b"q", b"")])
    assert len(row_mutations(region_pb2.Mutate(mutations=[mutation] * 2), b"", 0, config).read) == 2
    with pytest.raises(InvalidRequestError, match="no mutation"):
        row_mutations(region_pb2.Mutate(), b"", 0, config)
    with pytest.raises(LimitExceededError) as refused:
        row_mutations(region_pb2.Mutate(mutations=[mutation] * 3), b"", 0, config)
    assert (refused.value.limit, refused.value.limit_value, refused.value.found) == ("rows_per_request_max", 2, 3)


def test_a_filter_may_nest_as_deep_as_the_limit() -> None:
    def nested(depth: int) -> types_pb2.Filter:
        message = types_pb2.Filter(all=types_pb2.FilterList())
        for _ in range(depth - 1):
            message = types_pb2.Filter(all=types_pb2.FilterList(filters=[message]))
        return message

    config = Config(filter_depth_max=4)

    def read(depth: int) -> RowMutation:
        condition = region_pb2.Condition(filter=nested(depth))
        mutation = region_pb2.RowMutation(row=b"r", changes=[put(b"q", b"")], condition=condition)
        mutations = row_mutations(region_pb2.Mutate(mutations=[mutation]), b"", 0, config)
        if mutations.refused:
            raise mutations.refused[0]
        return mutations.read[0]

    condition = read(4).condition
    assert condition is not None
    assert condition.filter == AllOf((AllOf((AllOf((AllOf(()),)),)),))
    with pytest.raises(InvalidRequestError, match="nests deeper than 4"):
        read(5)
