"""The arguments and options that several commands share, with their help texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from rowlock._codec.escapes import typed

# As the client's: threads can't wait longer than about 292 years.
SECONDS_MAX = 1e9


def integer(text: str | int) -> int:
    """Parses an integer. typer also passes defaults, which are numbers already."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{typed(str(text))} is not an integer") from None


def integer_from(minimum: int) -> Callable[[str | int], int]:
    """Returns a parser of integers that are at least `minimum`."""

    def parse(text: str | int) -> int:
        number = integer(text)
        if number < minimum:
            raise typer.BadParameter(f"{number} is less than {minimum}")
        return number

    return parse


def seconds(text: str | float) -> float:
    """Parses a number of seconds that may be waited."""
    try:
        number = float(text)
    except ValueError:
        raise typer.BadParameter(f"{typed(str(text))} is not a number of seconds") from None
    if not 0 < number <= SECONDS_MAX:
        raise typer.BadParameter(f"{typed(str(text))} is not more than 0 and at most {SECONDS_MAX:g} seconds")
    return number


def address(text: str) -> str:
    """Returns the address of a server, which may not be empty."""
    if not text.strip():
        # Perhaps of a shell variable that is not set: another server than was meant must not be changed.
        raise typer.BadParameter("it is empty; name a server, or omit the option for the default")
    return text


TableArgument = Annotated[str, typer.Argument(metavar="TABLE", show_default=False)]
AnyTableArgument = Annotated[
    str | None, typer.Argument(metavar="TABLE", show_default=False, help="Default: all tables.")
]
RowArgument = Annotated[str, typer.Argument(metavar="ROW", show_default=False, help=r"The row key; \xNN is a byte.")]
ColumnArgument = Annotated[
    str,
    typer.Argument(metavar="COLUMN", show_default=False, help="FAMILY:QUALIFIER; with a mapping its name of a column."),
]
ColumnArguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="COLUMN", show_default=False, help="FAMILY:QUALIFIER, or FAMILY for all of its columns."),
]
CellArguments = Annotated[
    list[str], typer.Argument(metavar="CELL", show_default=False, help="COLUMN=VALUE, one or more.")
]
NewestOption = Annotated[
    int | None,
    typer.Option(
        "--timestamp",
        parser=integer,
        metavar="MILLISECONDS",
        help="The newest version up to this timestamp, inclusive.",
    ),
]
TimeRangeOption = Annotated[
    str | None, typer.Option("--time-range", metavar="START..STOP", help="In milliseconds; STOP is exclusive.")
]
TimestampOption = Annotated[
    int | None,
    typer.Option(
        "--timestamp",
        parser=integer,
        metavar="MILLISECONDS",
        help="Timestamp of the cells. Default: the server's clock.",
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
PropertyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        metavar="NAME=VALUE",
        show_default=False,
        help="A table property, as in compaction.automatic=false; may be repeated. See docs/compaction.md.",
    ),
]
DURABILITY = typer.Option(
    "--durability",
    metavar="skip|async|os|fsync",
    help="What acknowledged writes survive: fsync a power loss, os a crash of the server; see docs/client.md.",
)
MappingOption = Annotated[
    str | None,
    typer.Option(
        "--mapping",
        "-m",
        metavar="MAPPING",
        show_default=False,
        help="For example 'id STRING :key, delay INT info:delay'. Default: the table's mapping.",
    ),
]
TypingOption = Annotated[
    str | None,
    typer.Option(
        "--mapping",
        "-m",
        metavar="MAPPING",
        show_default=False,
        help="Typed rows, as in 'id STRING :key, delay INT info:delay'. Default: the table's mapping; none: bytes.",
    ),
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="csv|jsonl|parquet|csv.gz|jsonl.gz",
        show_default=False,
        help="Default: by the file's suffix.",
    ),
]
FileArgument = Annotated[
    str | None,
    typer.Argument(metavar="FILE", show_default=False, help="A path; - is standard input or output."),
]
OptionalTableArgument = Annotated[str | None, typer.Argument(metavar="TABLE", show_default=False)]
CellsOption = Annotated[
    bool, typer.Option("--cells", help="A line per cell, with its timestamp, instead of rows by a mapping.")
]
SeparatorOption = Annotated[
    str | None,
    typer.Option(
        "--separator",
        metavar="CHARACTER",
        show_default=False,
        help=r"CSV: the field separator, one of , ; | \t. Default: ,",
    ),
]
StartOption = Annotated[str | None, typer.Option("--start", metavar="ROW", help="First row, inclusive.")]
StopOption = Annotated[str | None, typer.Option("--stop", metavar="ROW", help="Stop row, exclusive.")]
PrefixOption = Annotated[
    str | None,
    typer.Option(
        "--prefix",
        metavar="PREFIX",
        show_default=False,
        help="Only rows whose keys begin with this; of a composite key, whole parts from the first on, as in 'UA|'.",
    ),
]
SnapshotOption = Annotated[
    str | None,
    typer.Option(
        "--snapshot",
        metavar="ID",
        show_default=False,
        help="Read this snapshot, of 'rowlock snapshot TABLE'. A named one is the table @NAME.",
    ),
]
WhereOption = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        show_default=False,
        help="Only rows that match; may be repeated; see 'rowlock scan --help'.",
    ),
]
ExplainedWhereOption = Annotated[
    list[str] | None,
    typer.Option(
        "--where", metavar="CONDITION", show_default=False, help="Only rows that match; may be repeated; see above."
    ),
]
