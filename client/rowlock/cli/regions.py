r"""Commands on regions: regions, split, merge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rowlock_proto.shown_names import escaped

from rowlock.cli import arguments
from rowlock.cli.output import Record
from rowlock.cli.quantities import size_text
from rowlock.cli.session import Call
from rowlock.cli.shared_options import StartOption, StopOption, TableArgument, integer_from

if TYPE_CHECKING:
    from rowlock.region_info import RegionInfo
    from rowlock.schema import Region

_HEADING = ("id", "start", "stop", "size", "files", "memory", "reads", "state")
_PLACE = ("id", "start", "stop")
_NUMBERS = ("id", "size", "files", "memory", "reads")


def regions(call: Call, table: TableArgument, start: StartOption = None, stop: StopOption = None) -> None:
    r"""Shows the regions of a table: ranges of its rows, in row order, with their sizes.

    A region has the rows from 'start' on, up to those before 'stop'; empty is the first row, or the last. 'size' is
    that of its store 'files', 'memory' that of changes that are in no store file yet, and 'reads' counts the scans and
    snapshots that read it now. A damaged region is closed; its state says why.

    With --start or --stop only the regions that have rows of this range are shown.

    --json: {"region_id", "table", "start", "stop", "server", "state", "error", "store_file_count", "store_file_bytes",
    "store_file_cells", "memstore_bytes", "open_read_count"}
    """
    first, last, _ = arguments.row_range(start, stop, None)
    found = call.client.regions(table, start=first, stop=last)
    call.output.listing(_HEADING, [(_info_record(region), _info_fields(region)) for region in found], right=_NUMBERS)


def split(
    call: Call,
    table: TableArgument,
    row: Annotated[
        str | None,
        typer.Argument(
            metavar="ROW",
            show_default=False,
            help=r"First row of the second region; \xNN is a byte. Default: the middle.",
        ),
    ] = None,
    region: Annotated[
        int | None,
        typer.Option(
            "--region",
            parser=integer_from(1),
            metavar="REGION",
            show_default=False,
            help="The region. Default: the one that has ROW; without ROW the largest.",
        ),
    ] = None,
) -> None:
    r"""Splits a region of a table in two, at a row or in the middle of its data.

    Reads and changes go on meanwhile. A row that is the first one of a region already is refused.

    --json: {"region_id", "table", "start", "stop", "server"}, one line for each of the two regions
    """
    at = None if row is None else arguments.bytes_of(row)
    _show(call, call.client.split(table, at, region=region))


def merge(
    call: Call,
    table: TableArgument,
    row: Annotated[
        str, typer.Argument(metavar="ROW", show_default=False, help=r"First row of the second region; \xNN is a byte.")
    ],
) -> None:
    r"""Merges the region that begins with ROW into the one before it.

    Reads and changes go on meanwhile. 'rowlock regions TABLE' shows with which rows the regions begin.

    --json: {"region_id", "table", "start", "stop", "server"}
    """
    _show(call, [call.client.merge(table, arguments.bytes_of(row))])


def _show(call: Call, made: Sequence[Region]) -> None:
    call.output.listing(_PLACE, [(_record(region), _place(region)) for region in made], right=_NUMBERS)


def _place(region: Region) -> tuple[str, ...]:
    return str(region.region_id), escaped(region.start), escaped(region.stop)


def _record(region: Region) -> Record:
    return {
        "region_id": region.region_id,
        "table": region.table,
        "start": escaped(region.start),
        "stop": escaped(region.stop),
        "server": region.server,
    }


def _info_record(region: RegionInfo) -> Record:
    return {
        **_record(region),
        "state": region.state,
        "error": region.error,
        "store_file_count": region.store_file_count,
        "store_file_bytes": region.store_file_bytes,
        "store_file_cells": region.store_file_cells,
        "memstore_bytes": region.memstore_bytes,
        "open_read_count": region.open_read_count,
    }


def _info_fields(region: RegionInfo) -> tuple[str, ...]:
    if region.state == "damaged":  # Its sizes are not known.
        return (*_place(region), "", "", "", "", f"damaged: {region.error}")
    return (
        *_place(region),
        size_text(region.store_file_bytes),
        str(region.store_file_count),
        size_text(region.memstore_bytes),
        str(region.open_read_count),
        region.state,
    )
