"""Gets, scans and their filters as values."""

from __future__ import annotations

from typing import Any

import pytest
from rowlock_proto.v1 import region_pb2, types_pb2
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import InvalidRequestError, LimitExceededError
from rowlock_regionserver.operations import (
    AnyOf,
    CellFilter,
    ColumnComparison,
    ColumnIn,
    ColumnPattern,
    ColumnPresence,
    ColumnSelector,
    CompareOp,
    FormColumn,
    FormPart,
    NotOf,
    PatternKind,
    RowComparison,
    RowFilter,
    RowPattern,
    RowPrefix,
    ScanPlan,
    Selection,
    ValueType,
)
from rowlock_regionserver.rpc.messages.filters import row_filter
from rowlock_regionserver.rpc.messages.reads import (
    FORM_COLUMNS_MAX,
    SCAN_BATCH_BYTES_MAX,
    SCAN_BATCH_ROWS_MAX,
    rows_of,
    scan_plan,
    selection,
)

CONFIG = Config()


def unknown(number: int) -> Any:
    """Returns a number that no enum has; the generated types would reject it."""
    return number


def negated(message: types_pb2.Filter) -> types_pb2.Filter:
    """`not` is a Python keyword, so the field can't be a keyword argument."""
    outer = types_pb2.Filter()
    getattr(outer, "not").CopyFrom(message)
    return outer


def test_a_plain_get_asks_for_the_newest_version_of_every_column() -> None:
    get = region_pb2.Get(rows=[b"b", b"a", b"b"])
    assert rows_of(get, CONFIG) == (b"b", b"a", b"b")
    assert selection(get, CONFIG) == Selection()
    assert selection(region_pb2.Get(rows=[b"a"], versions=1), CONFIG) == Selection()


def test_every_field_of_a_get_arrives() -> None:
    get = region_pb2.Get(
        rows=[b"r"],
        columns=[
            types_pb2.Column(family=b"f"),
            types_pb2.Column(family=b"g", qualifier=b""),
            types_pb2.Column(family=b"g", qualifier=b"q"),
        ],
        time_range=types_pb2.TimeRange(start=5, stop=9),
        versions=3,
        where=types_pb2.Filter(row_prefix=b"p"),
        cells=types_pb2.CellFilter(
            qualifier_prefix=b"",
            qualifier_start=b"a",
            qualifier_stop=b"z",
            value=types_pb2.CellFilter.ValueComparison(
                op=types_pb2.COMPARE_OP_GREATER, operand=b"7", type=types_pb2.VALUE_TYPE_TEXT_INT
            ),
            keys_only=True,
            first_key_only=True,
            cell_offset=4,
            cell_limit=2,
        ),
    )
    assert selection(get, CONFIG) == Selection(
        columns=(ColumnSelector(b"f", None), ColumnSelector(b"g", b""), ColumnSelector(b"g", b"q")),
        time_start=5,
        time_stop=9,
        versions=3,
        where=RowPrefix(b"p"),
        cells=CellFilter(b"", b"a", b"z", CompareOp.GREATER, b"7", ValueType.TEXT_INT, True, True, 4, 2),
    )


@pytest.mark.parametrize(
    "get",
    [
        region_pb2.Get(columns=[types_pb2.Column(family=b"f")]),
        region_pb2.Get(time_range=types_pb2.TimeRange(start=1)),
        region_pb2.Get(versions=2),
        region_pb2.Get(where=types_pb2.Filter(all=types_pb2.FilterList())),
        region_pb2.Get(cells=types_pb2.CellFilter(keys_only=True)),
    ],
)
def test_no_selecting_field_is_lost_when_it_stands_alone(get: region_pb2.Get) -> None:
    assert selection(get, CONFIG) != Selection()


def test_a_get_names_at_least_one_row_and_at_most_the_limit() -> None:
    config = Config(rows_per_request_max=2)
    assert len(rows_of(region_pb2.Get(rows=[b"a", b"b"]), config)) == 2
    with pytest.raises(InvalidRequestError, match="names no row"):
        rows_of(region_pb2.Get(), config)
    with pytest.raises(LimitExceededError) as refused:
        rows_of(region_pb2.Get(rows=[b"a"] * 3), config)
    assert refused.value.limit == "rows_per_request_max"


def test_every_field_of_a_scan_arrives() -> None:
    scan = region_pb2.ScanRequest(
        ranges=[region_pb2.RowRange(start=b"a", stop=b"b"), region_pb2.RowRange()],
        versions=2,
        row_limit=10,
        reverse=True,
        batch_bytes=1000,
        batch_rows=20,
    )
    assert scan_plan(scan, CONFIG) == ScanPlan(
        Selection(versions=2), ((b"a", b"b"), (b"", b"")), row_limit=10, reverse=True, batch_bytes=1000, batch_rows=20
    )


def test_missing_sizes_of_a_scan_are_the_servers_and_absurd_ones_are_reduced() -> None:
    plain = scan_plan(region_pb2.ScanRequest(), CONFIG)
    assert (plain.batch_bytes, plain.batch_rows) == (CONFIG.scan_batch_bytes, CONFIG.scan_batch_rows)
    most = (1 << 32) - 1
    absurd = scan_plan(region_pb2.ScanRequest(batch_bytes=most, batch_rows=most, row_limit=(1 << 64) - 1), CONFIG)
    assert (absurd.batch_bytes, absurd.batch_rows) == (SCAN_BATCH_BYTES_MAX, SCAN_BATCH_ROWS_MAX)
    assert absurd.row_limit == (1 << 63) - 1


def test_a_scan_of_too_many_ranges_is_refused() -> None:
    with pytest.raises(LimitExceededError):
        scan_plan(region_pb2.ScanRequest(ranges=[region_pb2.RowRange()] * 3), Config(rows_per_request_max=2))


def row_form(*columns: tuple[bytes, bytes, region_pb2.RowFormColumn.Part]) -> region_pb2.ScanRequest:
    request = region_pb2.ScanRequest()
    request.row_form.SetInParent()
    for family, qualifier, part in columns:
        request.row_form.columns.add(family=family, qualifier=qualifier, part=part)
    return request


def test_the_row_form_arrives_in_its_order_and_none_is_not_an_empty_one() -> None:
    value, timestamp = region_pb2.RowFormColumn.PART_VALUE, region_pb2.RowFormColumn.PART_TIMESTAMP
    request = row_form((b"f", b"", timestamp), (b"f", b"", value), (b"a", b"q", value))
    assert scan_plan(request, CONFIG).row_form == (
        FormColumn(b"f", b"", FormPart.TIMESTAMP),
        FormColumn(b"f", b"", FormPart.VALUE),
        FormColumn(b"a", b"q", FormPart.VALUE),
    )
    assert scan_plan(row_form(), CONFIG).row_form == ()
    assert scan_plan(region_pb2.ScanRequest(), CONFIG).row_form is None


def test_a_row_form_of_too_many_columns_or_of_an_unknown_part_is_refused() -> None:
    value = region_pb2.RowFormColumn.PART_VALUE
    columns = [(b"f", b"%d" % number, value) for number in range(FORM_COLUMNS_MAX + 1)]
    with pytest.raises(LimitExceededError) as refused:
        scan_plan(row_form(*columns), CONFIG)
    assert (refused.value.limit_value, refused.value.found) == (10_000, 10_001)
    assert len(scan_plan(row_form(*columns[1:]), CONFIG).row_form or ()) == FORM_COLUMNS_MAX
    with pytest.raises(InvalidRequestError, match=r"RowFormColumn\.part is 9"):
        scan_plan(row_form((b"f", b"q", unknown(9))), CONFIG)


@pytest.mark.parametrize(
    ("message", "value"),
    [
        (
            types_pb2.Filter(any=types_pb2.FilterList(filters=[types_pb2.Filter(row_prefix=b"")])),
            AnyOf((RowPrefix(b""),)),
        ),
        (negated(types_pb2.Filter(row_prefix=b"a")), NotOf(RowPrefix(b"a"))),
        (
            types_pb2.Filter(
                column=types_pb2.ColumnComparison(
                    family=b"f",
                    qualifier=b"q",
                    op=types_pb2.COMPARE_OP_NOT_EQUAL,
                    operand=b"o",
                    type=types_pb2.VALUE_TYPE_FLOAT32,
                )
            ),
            ColumnComparison(b"f", b"q", CompareOp.NOT_EQUAL, b"o", ValueType.FLOAT32),
        ),
        (
            types_pb2.Filter(presence=types_pb2.ColumnPresence(family=b"f", qualifier=b"q")),
            ColumnPresence(b"f", b"q", False),
        ),
        (
            types_pb2.Filter(
                pattern=types_pb2.ColumnPattern(
                    family=b"f", qualifier=b"q", kind=types_pb2.ColumnPattern.KIND_CONTAINS, operand=b"o"
                )
            ),
            ColumnPattern(b"f", b"q", PatternKind.CONTAINS, b"o"),
        ),
        (
            types_pb2.Filter(column_in=types_pb2.ColumnIn(family=b"f", qualifier=b"q", operands=[b"b", b"a", b"b"])),
            ColumnIn(b"f", b"q", frozenset((b"a", b"b"))),
        ),
        (
            types_pb2.Filter(row=types_pb2.RowComparison(op=types_pb2.COMPARE_OP_LESS_OR_EQUAL, operand=b"r")),
            RowComparison(CompareOp.LESS_OR_EQUAL, b"r"),
        ),
        (
            types_pb2.Filter(
                row_pattern=types_pb2.RowPattern(kind=types_pb2.ColumnPattern.KIND_MATCHES_TEXT, operand=b"r")
            ),
            RowPattern(PatternKind.MATCHES_TEXT, b"r"),
        ),
    ],
)
def test_every_kind_of_filter_arrives(message: types_pb2.Filter, value: RowFilter) -> None:
    assert row_filter(message, 32) == value


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (types_pb2.Filter(row=types_pb2.RowComparison(op=unknown(6))), "RowComparison.op is 6"),
        (types_pb2.Filter(column=types_pb2.ColumnComparison(type=unknown(11))), "ColumnComparison.type is 11"),
        (types_pb2.Filter(pattern=types_pb2.ColumnPattern(kind=unknown(5))), "ColumnPattern.kind is 5"),
        (types_pb2.Filter(row_pattern=types_pb2.RowPattern(kind=unknown(5))), "RowPattern.kind is 5"),
        (negated(types_pb2.Filter()), "a filter is empty"),
    ],
)
def test_unknown_numbers_in_filters_are_refused_and_the_known_ones_listed(message: types_pb2.Filter, said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said):
        row_filter(message, 32)


def test_the_values_of_our_enums_are_the_protocols() -> None:
    for ours, theirs in (
        (CompareOp, types_pb2.CompareOp),
        (ValueType, types_pb2.ValueType),
        (PatternKind, types_pb2.ColumnPattern.Kind),
    ):
        assert [member.value for member in ours] == theirs.values()
        assert all(name.endswith(member.name) for member, name in zip(ours, theirs.keys(), strict=True))
