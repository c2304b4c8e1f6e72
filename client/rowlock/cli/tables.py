"""Commands on tables: create, alter, drop, truncate, tables, describe, flush."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rowlock_proto.shown_names import escaped

from rowlock.cli import arguments
from rowlock.cli.lock_waits import noting_lock_waits
from rowlock.cli.output import Record
from rowlock.cli.session import Call
from rowlock.cli.shared_options import DURABILITY, PropertyOption, TableArgument, YesOption

if TYPE_CHECKING:
    from rowlock.schema import RegionStatistics, TableDescription


def create(
    call: Call,
    table: TableArgument,
    families: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FAMILY",
            show_default=False,
            help="NAME[,SETTING=VALUE]..., see above. Default: those of the mapping.",
        ),
    ] = None,
    mapping: Annotated[
        str | None,
        typer.Option(
            "--mapping",
            "-m",
            metavar="MAPPING",
            show_default=False,
            help="The table keeps it, as in 'user STRING :key, orders BIGINT count:orders'. See docs/mapping.md.",
        ),
    ] = None,
    splits: Annotated[
        list[str] | None,
        typer.Option(
            "--split-at",
            metavar="KEY",
            show_default=False,
            help=r"First row of another region; \xNN is a byte; may be repeated. See docs/regions.md.",
        ),
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Leave an existing table as it is.")] = False,
    durability: Annotated[str, DURABILITY] = "fsync",
    properties: PropertyOption = None,
) -> None:
    r"""Creates a table.

    Settings of a family: versions=3 min-versions=1 time-to-live=7d (ms s m h d, forever) block=128KiB
    compression=none|lz4|zstd bloom=row|none. For example: rowlock create flights info stats,versions=3,compression=zstd

    --json: {"table", "durability", "mapping", "properties", "families"}, as describe shows them
    """
    import rowlock

    if not families and mapping is None:
        raise arguments.ArgumentError("give at least one FAMILY, or a --mapping")
    created = {name: rowlock.Family(**settings) for name, settings in arguments.families(families).items()}
    level = arguments.durability(durability)
    options: dict[str, Any] = {} if mapping is None else {"mapping": rowlock.Mapping(mapping)}
    call.client.create_table(
        table,
        created or None if options else created,
        if_not_exists=if_not_exists,
        durability=level,
        splits=[arguments.bytes_of(row) for row in splits or ()],
        properties=arguments.properties(properties),
        **options,
    )
    call.output.record(_record(call.client.describe(table)), "")


def alter(
    call: Call,
    table: TableArgument,
    families: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="FAMILY", show_default=False, help="Add or change a family: NAME[,SETTING=VALUE]..."
        ),
    ] = None,
    dropped: Annotated[
        list[str] | None,
        typer.Option("--drop", metavar="FAMILY", show_default=False, help="Remove a family with all of its cells."),
    ] = None,
    durability: Annotated[str | None, DURABILITY] = None,
    properties: PropertyOption = None,
    dropped_properties: Annotated[
        list[str] | None,
        typer.Option("--drop-property", metavar="NAME", show_default=False, help="Return a property to its default."),
    ] = None,
    mapping: Annotated[
        str | None,
        typer.Option(
            "--mapping",
            "-m",
            metavar="MAPPING",
            show_default=False,
            help="The mapping to keep: more columns, wider types; none: keep none. See docs/mapping.md.",
        ),
    ] = None,
    replace_mapping: Annotated[
        bool, typer.Option("--replace-mapping", help="Accept any mapping, also one that can't read existing cells.")
    ] = False,
    yes: YesOption = False,
) -> None:
    """Adds, changes and removes families, properties and the mapping.

    The whole command is one atomic change. Settings that are not given stay as they are.

    --json: {"table", "durability", "mapping", "properties", "families"}, as describe shows them
    """
    import rowlock

    wanted = arguments.families(families)
    named: dict[str, object] = {**arguments.properties(properties)}
    for name in dropped_properties or ():
        if name in named:
            raise arguments.ArgumentError(f"property {name} is both set and dropped")
        named[name] = None
    if not wanted and not dropped and durability is None and not named and mapping is None:
        raise arguments.ArgumentError("nothing to change: give --set, --drop, --durability, --property or --mapping")
    if replace_mapping and mapping is None:
        raise arguments.ArgumentError("--replace-mapping needs a --mapping")
    level = None if durability is None else arguments.durability(durability)
    client = call.client
    present = client.describe(table).families
    changed = {name: replace(present.get(name, rowlock.Family()), **settings) for name, settings in wanted.items()}
    if dropped:
        unknown = [name for name in dropped if name not in present]
        if unknown:
            raise arguments.ArgumentError(f"table {table!r} has no family {unknown[0]!r}; it has {', '.join(present)}")
        call.confirm(f"Remove {', '.join(dropped)} of table {table} with all cells?", yes=yes)
    options: dict[str, Any] = {} if mapping is None else {"mapping": mapping, "replace_mapping": replace_mapping}
    with noting_lock_waits(call, table):
        client.alter_table(
            table, set_families=changed, drop_families=dropped or [], durability=level, properties=named, **options
        )
    call.output.record(_record(client.describe(table)), "")


def drop(
    call: Call,
    table: TableArgument,
    yes: YesOption = False,
    force: Annotated[bool, typer.Option("--force", help="End the sessions that use the table.")] = False,
) -> None:
    """Removes a table and all of its rows.

    While sessions have bulk writes, locks or snapshots of the table, it is refused, and lists them.

    --json: {"table", "dropped": true}
    """
    _confirm(call, table, f"Remove table {table} with all rows?", yes=yes)
    with noting_lock_waits(call, table):
        call.client.drop_table(table, force=force)
    call.output.record({"table": table, "dropped": True}, "")


def truncate(call: Call, table: TableArgument, yes: YesOption = False) -> None:
    """Removes all rows of a table; its families stay.

    --json: {"table", "truncated": true}
    """
    _confirm(call, table, f"Remove all rows of table {table}?", yes=yes)
    with noting_lock_waits(call, table):
        call.client.truncate_table(table)
    call.output.record({"table": table, "truncated": True}, "")


def _confirm(call: Call, table: str, question: str, *, yes: bool) -> None:
    """Asks for confirmation, unless `yes`. Raises TableNotFoundError first, before it asks."""
    from rowlock import TableNotFoundError

    # `describe` would fail for a damaged table, which the user may want to drop.
    if not yes and table not in call.client.tables():
        advice = "'rowlock tables' lists the tables"
        if table.startswith("@"):
            advice = f"'rowlock snapshots drop {table[1:]}' drops the named snapshot"
        raise TableNotFoundError(f"there is no table {table!r}; {advice}", table=table)
    call.confirm(question, yes=yes)


def tables(call: Call) -> None:
    """Lists the tables.

    --json: {"table"}, one line per table
    """
    call.output.listing(("table",), (({"table": name}, (name,)) for name in call.client.tables()))


def describe(call: Call, table: TableArgument) -> None:
    """Shows a table's mapping, its properties, its families and statistics of its regions.

    Families are shown with their settings, as create takes them.

    Without a terminal each line is a name, a tab and a value: 'family info versions', 3.

    --json: {"table", "durability", "mapping": text or null, "properties": {name: value}, "families": [{"name",
    "versions", "min_versions", "time_to_live_ms", "block_bytes", "compression", "bloom_filter"}, ...],
    "regions": [{"region_id", "start", "stop", "server", "memstore_bytes", "store_file_count", "store_file_bytes",
    "store_file_cells", "read_point", "kept_answer_count", "kept_answer_bytes"}, ...]}
    """
    found = call.client.describe(table)
    if call.json_lines:
        regions = [_region_record(region) for region in found.regions]
        call.output.record({**_record(found), "regions": regions}, "")
        return
    mapping = {"mapping": found.mapping_text} if found.mapping_text else {}
    groups = [("", {"table": found.name, "durability": found.durability, **mapping, **found.properties})]
    for name, family in found.families.items():
        groups.append((f"family {escaped(name.encode())}", arguments.settings_of(family)))
    for region in map(_region_record, found.regions):
        region_id = region.pop("region_id")
        values = {name.replace("_", "-"): str(value) for name, value in region.items()}
        groups.append((f"region {region_id}", values))
    call.output.settings(groups)


def flush(call: Call, table: TableArgument) -> None:
    """Flushes a table's memstores to store files.

    --json: {"table", "store_files": number written, "cells"}
    """
    result = call.client.flush(table)
    call.output.record({"table": table, "store_files": result.store_file_count, "cells": result.cell_count}, "")


def _record(found: TableDescription) -> Record:
    families = [{"name": name, **asdict(family)} for name, family in found.families.items()]
    properties = dict(found.properties)
    return {
        "table": found.name,
        "durability": found.durability,
        "mapping": found.mapping_text or None,
        "properties": properties,
        "families": families,
    }


def _region_record(found: RegionStatistics) -> dict[str, object]:
    region = found.region
    return {
        "region_id": region.region_id,
        "start": escaped(region.start),
        "stop": escaped(region.stop),
        "server": region.server,
        "memstore_bytes": found.memstore_bytes,
        "store_file_count": found.store_file_count,
        "store_file_bytes": found.store_file_bytes,
        "store_file_cells": found.store_file_cells,
        "read_point": found.read_point,
        "kept_answer_count": found.kept_answer_count,
        "kept_answer_bytes": found.kept_answer_bytes,
    }
