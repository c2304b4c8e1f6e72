"""The arguments and options that several commands share, with their help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from rowlock._codec.escapes import typed


def whole_number(text: str | int) -> int:
    """The number that a word or a default is."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{typed(str(text))} is no whole number") from None


def count_from(least: int) -> Callable[[str | int], int]:
    """What reads whole numbers that are at least so large."""

    def count(text: str | int) -> int:
        number = whole_number(text)
        if number < least:
            raise typer.BadParameter(f"{number} is less than {least}")
        return number

    return count


def seconds(text: str | float) -> float:
    """The number of seconds that a word or a default is."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{typed(str(text))} is no number of seconds") from None


TableWord = Annotated[str, typer.Argument(metavar="TABLE", show_default=False)]
RowWord = Annotated[str, typer.Argument(metavar="ROW", show_default=False, help=r"The row's key; \xNN is a byte.")]
ColumnWord = Annotated[str, typer.Argument(metavar="COLUMN", show_default=False, help="FAMILY:QUALIFIER.")]
ColumnWords = Annotated[
    list[str] | None, typer.Argument(metavar="COLUMN", show_default=False, help="FAMILY:QUALIFIER, or FAMILY.")
]
CellWords = Annotated[
    list[str], typer.Argument(metavar="CELL", show_default=False, help="FAMILY:QUALIFIER=VALUE, one or more.")
]
TimestampOption = Annotated[
    int | None,
    typer.Option("--timestamp", parser=whole_number, metavar="MILLISECONDS", help="Default: stamped by the server."),
]
YesOption = Annotated[bool, typer.Option("--yes", help="Don't ask.")]
DURABILITY = typer.Option("--durability", metavar="skip|async|os|fsync", help="What an acknowledged write survives.")
MappingOption = Annotated[
    str,
    typer.Option(
        "--mapping",
        "-m",
        metavar="MAPPING",
        show_default=False,
        help="For example 'id STRING :key, delay INT info:delay'.",
    ),
]
FormatOption = Annotated[
    str | None, typer.Option("--format", metavar="csv|parquet", help="Default: by the file's name.")
]
SeparatorOption = Annotated[
    str | None,
    typer.Option(
        "--separator",
        metavar="CHARACTER",
        show_default=False,
        help=r"CSV: what stands between fields: , (the default) ; | or \t.",
    ),
]
StartOption = Annotated[str | None, typer.Option("--start", metavar="ROW", help="The first row.")]
StopOption = Annotated[str | None, typer.Option("--stop", metavar="ROW", help="The row to stop before.")]
PrefixOption = Annotated[str | None, typer.Option("--prefix", metavar="ROW", help="Only rows that begin so.")]
WhereOption = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        show_default=False,
        help="Only rows that meet it; see 'rowlock scan --help'.",
    ),
]
ExplainedWhereOption = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="CONDITION", show_default=False, help="Only rows that meet it; see above."),
]
