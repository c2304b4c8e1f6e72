"""Aligned columns for a terminal, with a line of details below each row.

For lists whose rows have texts of any length: in a column of a table they would be broken into many narrow lines.
"""

from __future__ import annotations

from collections.abc import Sequence

_GAP = "  "


def aligned(
    heading: Sequence[str], rows: Sequence[Sequence[str]], details: Sequence[str], *, right: Sequence[str] = ()
) -> list[str]:
    """Returns the lines: the heading, then each row, and below it its details unless they are empty.

    right: headings of columns whose fields end at the same place, because they are numbers.
    """
    widths = [max(map(len, column)) for column in zip(heading, *rows, strict=True)]

    def line(fields: Sequence[str]) -> str:
        return _GAP.join(
            field.rjust(width) if name in right else field.ljust(width)
            for name, field, width in zip(heading, fields, widths, strict=True)
        ).rstrip()

    lines = [line(heading)]
    for fields, detail in zip(rows, details, strict=True):
        lines.append(line(fields))
        if detail:
            lines.append(" " * (2 * len(_GAP)) + detail)
    return lines
