"""The row form of a scan: checks its columns, and compiles them into the layout that the pivot fills.

One line a row: its key, then for each column of the form the newest answered version's value or timestamp, or null.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from rowlock_proto.shown_names import column_text

from rowlock_regionserver.arrow.columns import Column, binary_array
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import InvalidRequestError
from rowlock_regionserver.operations import ColumnSelector, FormColumn, FormPart
from rowlock_regionserver.scan.filters import check_family, check_qualifier
from rowlock_regionserver.scan.selection import requested_qualifiers


def check_row_form(
    form: Sequence[FormColumn], columns: Sequence[ColumnSelector], family_names: Collection[bytes], config: Config
) -> None:
    """Checks that the form can be made of the `columns` that the scan requests.

    Raises InvalidRequestError, FamilyNotFoundError or LimitExceededError.
    """
    requested = requested_qualifiers(columns)
    seen: set[FormColumn] = set()
    for place, column in enumerate(form):
        check_family(column.family, family_names)
        check_qualifier(column.family, column.qualifier, config)
        if column in seen:
            raise InvalidRequestError(
                f"the row form has the {column.part.name.lower()} of {_name(column)} twice, the second time as column "
                f"{place}; name each once"
            )
        seen.add(column)
        if requested is None:
            continue
        qualifiers = requested.get(column.family, frozenset())
        if qualifiers is not None and column.qualifier not in qualifiers:
            raise InvalidRequestError(
                f"column {place} of the row form is {_name(column)}, which is not among the scan's columns; add it "
                "there"
            )


def _name(column: FormColumn) -> str:
    return column_text(column.family, column.qualifier)


@dataclass(frozen=True, slots=True)
class FamilyLayout:
    """The form's columns of one family: their distinct qualifiers, and the places of their parts in the form.

    The values of the first `valued_count` qualifiers are requested. A part is (place of its qualifier in `qualifiers`,
    place in the form).
    """

    qualifiers: Column
    valued_count: int
    values: tuple[tuple[int, int], ...]
    timestamps: tuple[tuple[int, int], ...]


class RowLayout:
    """The compiled layout of a form that has passed check_row_form. Immutable.

    `fixed_size`: a column of values of one length may have a type of fixed size, other than in `schema`.
    `without_keys`: compressed rows need no keys.
    """

    def __init__(self, form: Sequence[FormColumn], *, fixed_size: bool = False, without_keys: bool = False) -> None:
        self.columns = tuple(form)
        self.fixed_size = fixed_size
        self.without_keys = without_keys
        fields: list[pa.Field[Any]] = [pa.field("row", pa.binary(), nullable=False)]
        fields += [
            pa.field(str(place), pa.binary() if column.part is FormPart.VALUE else pa.int64())
            for place, column in enumerate(form)
        ]
        self.schema = pa.schema(fields)
        self.empty = pa.Table.from_batches([], schema=self.schema)
        # Bytes of a line as Batches counts them.
        self.bytes_beside_values = sum(8 if field.type == pa.int64() else 4 for field in fields)
        self.families: Mapping[bytes, FamilyLayout] = {
            family: _family_layout(family, form) for family in {column.family for column in form}
        }


def _family_layout(family: bytes, form: Sequence[FormColumn]) -> FamilyLayout:
    of_family = [(place, column) for place, column in enumerate(form) if column.family == family]
    values, timestamps = (
        {column.qualifier: place for place, column in of_family if column.part is part}
        for part in (FormPart.VALUE, FormPart.TIMESTAMP)
    )
    numbers = {qualifier: number for number, qualifier in enumerate(dict.fromkeys([*values, *timestamps]))}
    return FamilyLayout(
        qualifiers=binary_array(list(numbers)),
        valued_count=len(values),
        values=tuple([(numbers[qualifier], place) for qualifier, place in values.items()]),
        timestamps=tuple([(numbers[qualifier], place) for qualifier, place in timestamps.items()]),
    )
