"""A comparison of a typed column selects the rows whose value compares so in Python; also of cells of former types."""

from __future__ import annotations

import datetime
import math
import operator
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
import rowlock
from rowlock import Mapping, MappingError
from rowlock._codec.column_types import codec_of
from rowlock._core.typed_changes import encoded_check
from rowlock._core.typed_filters import TypedColumn
from rowlock._core.typed_rows import RowCodec
from rowlock.checks import CompareOp
from rowlock_regionserver.operations import CompareOp as ServerOp
from rowlock_regionserver.region.mutate.conditional import COMPARISONS
from rowlock_regionserver.rpc.messages.filters import row_filter
from rowlock_regionserver.scan.filters import matches_row

from tests.seeds import generator_of

UTC = datetime.UTC
CASES = range(60)
OPS: dict[CompareOp, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
SERVER_OPS = dict(zip(OPS, ServerOp, strict=True))
MIDNIGHT = datetime.datetime(2013, 1, 31, tzinfo=UTC)
INTEGERS = [0, 1, -1, 2, 127, -128]
VALUES: dict[str, list[Any]] = {
    "TINYINT": INTEGERS,
    "SMALLINT": [*INTEGERS, 128, -129, 32767],
    "INT": [*INTEGERS, 1 << 20, -(1 << 31)],
    "BIGINT": [*INTEGERS, 1 << 31, -(1 << 31) - 1, 1 << 40],
    "FLOAT": [0.0, -0.0, 0.5, 1.0, -1.5, math.inf, math.nan],
    "DOUBLE": [0.0, -0.0, 0.1, 0.5, 1.0, 1e-300, 1e300, -1e300, 2.5, math.inf, -math.inf, math.nan],
    "DATE": [MIDNIGHT.date(), datetime.date(2013, 2, 1), datetime.date(1969, 12, 31)],
    "TIMESTAMP": [MIDNIGHT, MIDNIGHT + datetime.timedelta(hours=5), MIDNIGHT - datetime.timedelta(microseconds=1)],
    "STRING": ["", "a", "ab", "é", "z"],
    "BINARY": [b"", b"a", b"\xff"],
    "BOOLEAN": [True, False],
    "DECIMAL(5,2)": [Decimal("1.50"), Decimal("0.00"), Decimal("1.00")],
    "DECIMAL(9,4)": [Decimal("1.5000"), Decimal("0.0001"), Decimal("1.0000")],
}
COLUMNS = [
    *(f"{kind} f:c" for kind in VALUES),
    *(f"{kind} f:c text" for kind in VALUES if kind != "BOOLEAN"),
    "TIMESTAMP f:c millis",
    "BIGINT f:c was INT",
    "BIGINT f:c was TINYINT was SMALLINT was INT",
    "DOUBLE f:c was FLOAT",
    "DOUBLE f:c was SMALLINT was FLOAT",
    "DOUBLE f:c was TINYINT was INT",
    "TIMESTAMP f:c was DATE",
    "DECIMAL(9,4) f:c was TINYINT was DECIMAL(5,2)",
    "DECIMAL(9,4) f:c text was DECIMAL(5,2)",
    "TIMESTAMP f:c text was DATE",
]


def codec_for(column: str) -> RowCodec:
    return RowCodec(Mapping(f"k STRING :key, c {column}"))


def wide(value: Any) -> Any:
    """Returns a value as it compares with values of a wider type."""
    is_date = isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)
    return datetime.datetime.combine(value, datetime.time(), UTC) if is_date else value


def random_cell(generator: random.Random, codec: RowCodec) -> tuple[bytes | None, Any]:
    """Returns the bytes of a cell of the column's type or of a former one, and its value; None for an absent cell."""
    mapped = codec.cell("c").mapped
    if generator.random() < 0.1:
        return None, None
    former = generator.choice([None, *mapped.formers])
    kind = mapped.type_text if former is None else former.type.upper()
    if former is not None and pa.types.is_decimal(former.codec.arrow):
        kind = "DECIMAL(5,2)"
    # Not the last time, which has a fraction of a millisecond.
    value = generator.choice(VALUES[kind][:-1] if mapped.encoding == "millis" else VALUES[kind])
    arrow = mapped.arrow if former is None else former.codec.arrow
    encoder = codec_of(arrow, mapped.encoding, is_last_key=True)
    assert encoder is not None
    stored: bytes = encoder.encode(pa.array([value], arrow))[0].as_py()
    return stored, value


def is_met(where: rowlock.Filter, cell: bytes | None) -> bool:
    newest = {} if cell is None else {(b"f", b"c"): cell}
    return matches_row(row_filter(where.message, 32), b"row", newest)


@pytest.mark.parametrize("column", COLUMNS)
def test_a_comparison_selects_as_python_does(column: str) -> None:
    codec = codec_for(column)
    cell = codec.cell("c")
    compared = 0
    for case in CASES:
        generator = generator_of(case)
        stored, value = random_cell(generator, codec)
        operand = generator.choice(VALUES[cell.mapped.type_text])
        for op, compare in OPS.items():
            try:
                where: Any = compare(TypedColumn(cell), operand)  # Any: operators are typed as of numbers
            except MappingError as error:
                assert "the server can't compare" in str(error) or "fraction of a millisecond" in str(error)  # noqa: PT017
                continue
            compared += 1
            expected = value is not None and compare(wide(value), wide(operand))
            assert is_met(where, stored) == expected, f"case {case}: {value!r} {op} {operand!r} of {column}"
            # The same as a check of a conditional change, which is a comparison of bytes or a filter.
            check = encoded_check(codec, rowlock.Check("c", operand, op))
            if isinstance(check, rowlock.Filter):
                assert is_met(check, stored) == expected, f"case {case}: {check}"
            else:
                assert isinstance(check.expected, bytes)
                is_held = stored is not None and COMPARISONS[SERVER_OPS[op]](stored, check.expected)
                assert is_held == expected, f"case {case}: {value!r} {op} {operand!r} of {column}"
    assert compared


@pytest.mark.parametrize("column", COLUMNS)
def test_a_list_of_values_selects_those_and_no_others(column: str) -> None:
    codec = codec_for(column)
    cell = codec.cell("c")
    for case in CASES:
        generator = generator_of(case)
        stored, value = random_cell(generator, codec)
        operands = generator.sample(VALUES[cell.mapped.type_text], generator.randint(0, 2))
        try:
            where = TypedColumn(cell).is_in(operands)
        except MappingError as error:
            assert "fraction of a millisecond" in str(error)  # noqa: PT017  # the reason to skip
            continue
        expected = value is not None and any(wide(value) == wide(operand) for operand in operands)
        assert is_met(where, stored) == expected, f"case {case}: {value!r} in {operands}"


def test_what_the_server_can_not_compare_is_refused_with_a_reason() -> None:
    for column, message in (
        ("DECIMAL(5,2) f:c", r"can't compare 'c', which is DECIMAL\(5,2\) as 'binary', by <; it can test it for ="),
        ("TIMESTAMP f:c text", "can't compare 'c', which is TIMESTAMP as 'text', by <"),
    ):
        cell = codec_for(column).cell("c")
        with pytest.raises(MappingError, match=message):
            TypedColumn(cell) < VALUES[cell.mapped.type_text][0]  # noqa: B015


def test_operands_and_operators_are_those_of_the_columns_type() -> None:
    number, text = TypedColumn(codec_for("BIGINT f:c").cell("c")), TypedColumn(codec_for("STRING f:c").cell("c"))
    with pytest.raises(TypeError, match="the column 'c' is BIGINT and takes an int, not str"):
        number == "5"  # noqa: B015
    with pytest.raises(TypeError, match=r"the column 'c' can't be compared with None; use column\('c'\)\.is_absent"):
        number == None  # noqa: B015, E711
    with pytest.raises(MappingError, match="starts_with needs a STRING or BINARY, and the column 'c' is BIGINT"):
        number.starts_with("5")
    with pytest.raises(TypeError, match="a list of values"):
        text.is_in("abc")
    row = "päris".encode()
    assert all(
        is_met(where, row)
        for where in (text.starts_with("pä"), text.ends_with("is"), text.contains("är"), text.matches(r"\Ap.r"))
    )
    assert is_met(text.is_present(), row)
    assert is_met(text.is_absent(), None)
