"""The row form: which columns a scan's rows are laid out in, checked, and made ready for the pivot.

One line a row: its key, then for each column of the form the newest answered version's value or timestamp, or null.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rowlock_regionserver.arrow.columns import Column, binary_array
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import InvalidRequestError
from rowlock_regionserver.operations import ColumnSelector, FormColumn, FormPart
from rowlock_regionserver.scan.filters import check_family, check_qualifier
from rowlock_regionserver.scan.selection import qualifiers_asked


def check_row_form(
    form: Sequence[FormColumn], columns: Sequence[ColumnSelector], family_names: Collection[bytes], config: Config
) -> None:
    """Refuses a form that can't be made of the `columns` that the scan asks for.

    Raises InvalidRequestError, FamilyNotFoundError or LimitExceededError.
    """
    asked = qualifiers_asked(columns)
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
        if asked is None:
            continue
        qualifiers = asked.get(column.family, frozenset())
        if qualifiers is not None and column.qualifier not in qualifiers:
            raise InvalidRequestError(
                f"column {place} of the row form is {_name(column)}, which the scan's columns do not ask for; ask for "
                "it there too"
            )


def _name(column: FormColumn) -> str:
    return f"{column.family!r}:{column.qualifier[:100]!r}"


@dataclass(frozen=True, slots=True)
class FamilyForm:
    """The form's columns of one family: distinct qualifiers, and where in the form the parts of each stand.

    The first `valued_count` qualifiers are those whose values are asked. A part is (place of its qualifier in
    `qualifiers`, place in the form).
    """

    qualifiers: Column
    valued_count: int
    values: tuple[tuple[int, int], ...]
    timestamps: tuple[tuple[int, int], ...]


class RowForm:
    """A form that has passed check_row_form. Immutable."""

    def __init__(self, form: Sequence[FormColumn]) -> None:
        fields: list[pa.Field[Any]] = [pa.field("row", pa.binary(), nullable=False)]
        fields += [
            pa.field(str(place), pa.binary() if column.part is FormPart.VALUE else pa.int64())
            for place, column in enumerate(form)
        ]
        self.schema = pa.schema(fields)
        self.empty = pa.Table.from_batches([], schema=self.schema)
        # Of a line, as Batches counts it.
        self.bytes_beside_values = sum(8 if field.type == pa.int64() else 4 for field in fields)
        self.families: Mapping[bytes, FamilyForm] = {
            family: _family_form(family, form) for family in {column.family for column in form}
        }


def _family_form(family: bytes, form: Sequence[FormColumn]) -> FamilyForm:
    of_family = [(place, column) for place, column in enumerate(form) if column.family == family]
    values, timestamps = (
        {column.qualifier: place for place, column in of_family if column.part is part}
        for part in (FormPart.VALUE, FormPart.TIMESTAMP)
    )
    numbers = {qualifier: number for number, qualifier in enumerate(dict.fromkeys([*values, *timestamps]))}
    return FamilyForm(
        qualifiers=binary_array(list(numbers)),
        valued_count=len(values),
        values=tuple([(numbers[qualifier], place) for qualifier, place in values.items()]),
        timestamps=tuple([(numbers[qualifier], place) for qualifier, place in timestamps.items()]),
    )
