"""Random tables, sources, selections and plans for reads, each from a seeded generator.

Not drawn by hypothesis: its draws were mostly thin tables and plans that answer nothing (measured: 82 of 100).
"""

from __future__ import annotations

import random

from rowlock_regionserver.cells import (
    DELETE_COLUMN,
    DELETE_FAMILY,
    DELETE_VERSION,
    NEWEST,
    PUT,
    Family,
    ReadPoint,
)
from rowlock_regionserver.operations import (
    AllOf,
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

from tests.property.list_source import ListSource, Write
from tests.property.scan_model import Model

NOW = 40
ROWS = [b"a", b"a\x00", b"ab", b"b", b"b\xff", b"c", b"\xff", b"\xff\xff"]
QUALIFIERS = [b"", b"p", b"q", b"qq", b"\xff"]
FAMILY_NAMES = [b"B", b"f", b"g"]
# By table: any bytes, or all of one type, so that typed comparisons don't meet a mismatch immediately.
VALUES = [
    [b"", b"a", b"b", b"7", b"-12", b"\x00\x01", b"\xff\xff", b"ab"],
    [b"7", b"-12", b"0", b"300"],
    [b"\x00\x01", b"\xff\xff", b"\x00\x00"],
]
# Operands by type, each fitting it.
OPERANDS = {ValueType.BYTES: VALUES[0], ValueType.TEXT_INT: VALUES[1], ValueType.INT16: VALUES[2]}


def random_model(generator: random.Random) -> Model:
    """Returns a table of up to 120 writes: dense or sparse, with or without tombstones, in time order or unordered."""
    families = tuple(
        Family(
            number,
            name,
            versions=generator.randint(1, 3),
            min_versions=generator.randint(0, 1),
            time_to_live_ms=generator.choice([0, 0, 0, 25]),
        )
        for number, name in enumerate(generator.sample(FAMILY_NAMES, generator.choice([1, 3, 3])))
    )
    kinds = generator.choice([[PUT], [PUT] * 4 + [DELETE_VERSION, DELETE_COLUMN, DELETE_FAMILY]])
    some_rows = generator.sample(ROWS, generator.randint(1, len(ROWS)))
    some_values = generator.choice(VALUES)
    is_in_order = generator.random() < 0.5
    written: dict[tuple[object, ...], Write] = {}
    for place in range(generator.choice([5, 60, 120, 120])):
        kind = generator.choice(kinds)
        number = 1 + place // 15
        write = Write(
            generator.choice(some_rows),
            generator.choice(families).name,
            b"" if kind == DELETE_FAMILY else generator.choice(QUALIFIERS),
            5 * number if is_in_order else generator.randint(0, 50),
            number if is_in_order else generator.randint(1, 8),
            kind,
            generator.choice(some_values) if kind == PUT else b"",
        )
        # A write number has one cell for each column, timestamp and kind: batches are collapsed before applying.
        written[(write.row, write.family, write.qualifier, write.timestamp, write.write_number, kind)] = write
    return Model(families, tuple(written.values()), ReadPoint(generator.choice([NEWEST, NEWEST, NEWEST, 8, 5, 0]), NOW))


def random_stores(model: Model, generator: random.Random) -> list[tuple[Family, list[ListSource]]]:
    """Returns the model's writes distributed over sources by write number or at random, families in any order."""
    result = []
    for family in generator.sample(model.families, len(model.families)):
        hands: list[list[Write]] = [[] for _ in range(generator.randint(1, 3))]
        is_by_number = generator.random() < 0.5
        for write in model.writes:
            if write.family == family.name:
                hand = write.write_number * len(hands) // 9 if is_by_number else generator.randrange(len(hands))
                hands[hand].append(write)
        of_lines = [generator.random() < 0.5 for _ in hands]
        # Lines have no tombstones, so these get a source of their own.
        tombstones = [
            write for place, hand in enumerate(hands) if of_lines[place] for write in hand if write.kind != PUT
        ]
        hands, of_lines = [*hands, tombstones], [*of_lines, False]
        sources = [
            ListSource(
                [write for write in hand if write.kind == PUT] if is_of_lines else hand,
                in_chunks=generator.random() < 0.5,
                is_eager=generator.random() < 0.5,
                away_from=1 << 30 if is_of_lines else generator.choice([0, 1, 1 << 30, 1 << 30]),
                has_lines=is_of_lines,
            )
            for hand, is_of_lines in zip(hands, of_lines, strict=True)
        ]
        result.append((family, sources))
    return result


# They mean the same to RE2 and to Python.
EXPRESSIONS = [b"", b"a", b"^a", b"[0-9]$", b"^.$", b"^(..)*$", b"(?s)^.{2}$", b"[^\\x00-\\x7f]", b"b|-"]


def random_filter(generator: random.Random, depth: int = 3) -> RowFilter:
    """Returns a filter nested up to `depth` deep."""
    if depth > 1 and generator.random() < 0.4:
        if generator.random() < 0.25:
            return NotOf(random_filter(generator, depth - 1))
        parts = tuple(random_filter(generator, depth - 1) for _ in range(generator.choice([0, 1, 2, 2, 3])))
        return AllOf(parts) if generator.random() < 0.5 else AnyOf(parts)
    family, qualifier = generator.choice(FAMILY_NAMES), generator.choice(QUALIFIERS)
    value_type = generator.choice(list(OPERANDS))
    operand = generator.choice(OPERANDS[value_type])
    op = generator.choice(list(CompareOp))
    kind = generator.choice(list(PatternKind))
    pattern = generator.choice(EXPRESSIONS if kind >= PatternKind.MATCHES else [b"", b"a", operand])
    leaves: list[RowFilter] = [
        RowPrefix(generator.choice([b"", b"a", b"b", b"\xff"])),
        RowComparison(op, generator.choice([b"", *ROWS])),
        ColumnPresence(family, qualifier, generator.random() < 0.7),
        ColumnIn(family, qualifier, frozenset(generator.sample(VALUES[0], generator.randint(0, 6)))),
        ColumnPattern(family, qualifier, kind, pattern),
        RowPattern(kind, pattern),
        ColumnComparison(family, qualifier, op, operand, value_type),
        ColumnComparison(family, qualifier, op, operand, value_type),
    ]
    return generator.choice(leaves)


def random_cell_filter(generator: random.Random) -> CellFilter:
    """Returns a CellFilter with some of its parts set."""
    value_type = generator.choice(list(OPERANDS))

    def sometimes(qualifiers: list[bytes]) -> bytes | None:
        return generator.choice(qualifiers) if generator.random() < 0.25 else None

    return CellFilter(
        qualifier_prefix=sometimes([b"", b"q"]),
        qualifier_start=sometimes(QUALIFIERS),
        qualifier_stop=sometimes(QUALIFIERS),
        value_op=generator.choice([None] * 6 + list(CompareOp)),
        value_operand=generator.choice(OPERANDS[value_type]),
        value_type=value_type,
        keys_only=generator.random() < 0.25,
        first_key_only=generator.random() < 0.25,
        cell_offset=generator.choice([0, 0, 1, 2]),
        cell_limit=generator.choice([0, 0, 1, 2]),
    )


def random_selection(generator: random.Random) -> Selection:
    """Returns a selection of a get or scan; in half of the cases with few parts set."""
    columns = [
        ColumnSelector(generator.choice(FAMILY_NAMES), generator.choice([None, None, *QUALIFIERS]))
        for _ in range(generator.choice([0, 0, 0, 2, 4, 4]))
    ]
    start, stop = generator.choice([(0, 0), (0, 0), (0, 0), (0, 0), (10, 0), (0, 30), (10, 30), (20, 20)])
    return Selection(
        tuple(columns),
        start,
        stop,
        generator.randint(1, 3),
        random_filter(generator) if generator.random() < 0.4 else None,
        random_cell_filter(generator) if generator.random() < 0.4 else CellFilter(),
    )


def random_range(generator: random.Random) -> tuple[bytes, bytes]:
    """Returns a range, which may be empty."""
    start, stop = (generator.choice([b"", generator.choice(ROWS), generator.choice(ROWS) + b"\x00"]) for _ in range(2))
    return (start, stop) if not stop or start <= stop or generator.random() < 0.2 else (stop, start)


def random_plan(generator: random.Random) -> ScanPlan:
    """Returns a plan of a scan, with batches from one cell to everything."""
    return ScanPlan(
        random_selection(generator),
        tuple(random_range(generator) for _ in range(generator.choice([0, 0, 0, 1, 3]))),
        generator.choice([0, 0, 1, 2, 5]),
        generator.random() < 0.5,
        generator.choice([1, 70, 200, 1 << 20]),
        generator.choice([1, 2, 50_000]),
    )


def random_row_form(generator: random.Random, selection: Selection) -> tuple[FormColumn, ...]:
    """Returns some of the selection's columns, in any order; perhaps none, or some that no row has."""
    candidates = [
        FormColumn(family, qualifier, part)
        for family in FAMILY_NAMES
        for qualifier in [*QUALIFIERS, b"nobody's"]
        for part in FormPart
        if not selection.columns
        or any(column.family == family and column.qualifier in (None, qualifier) for column in selection.columns)
    ]
    return tuple(generator.sample(candidates, generator.randint(0, min(len(candidates), generator.choice([3, 40])))))
