"""The driver's plan of a write job: the table, the form of its rows, and a reserved timestamp range.

All errors that the driver can detect are raised before anything is written. The timestamps make a job idempotent:

1. The server reserves a range that begins at its time for the table. From then on it stamps only later timestamps. So
   earlier writes are older than the job and later writes are newer, independent of the machines' clocks.
2. A task writes its first batch at the first timestamp, the next batch at the next one, and so on (`timestamp_of`). A
   task that is retried, or runs twice at a time, writes the same cells at the same timestamps: the same versions.
3. So of two rows with one key in a task the later one wins, even if a second attempt writes the earlier one again and
   dies. This holds within the range: all batches beyond it share the last timestamp.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import get_args

import pyarrow as pa

from rowlock._core.bulk_input import Sizes
from rowlock._core.bulk_send import checked_sizes
from rowlock._core.kept_mapping import agreed
from rowlock._transport.server_times import reserve_times
from rowlock.client import Client
from rowlock.errors import (
    DeadlineError,
    FamilyNotFoundError,
    InvalidArgumentError,
    MappingError,
    ServerUnavailableError,
    TableNotFoundError,
    UnknownOutcomeError,
)
from rowlock.mapping import Mapping
from rowlock.schema import Durability, TableDescription
from rowlock.spark.connections import client_of
from rowlock.spark.overwrite import StagedJob, open_job
from rowlock.spark.row_forms import RowForm, form_of, is_map_form
from rowlock.spark.write_options import WriteOptions

# A mistyped address should fail soon; a restarting server is back by then.
_CONNECT_S_MAX = 20.0
BATCH_TIMES = 900
"""How many batches of a task have separate timestamps. Point writes are stamped this many milliseconds ahead."""
UNREACHED = (ServerUnavailableError, DeadlineError, UnknownOutcomeError)
"""The errors of a call whose server is unreachable."""


@dataclass(frozen=True, slots=True)
class WritePlan:
    """The plan of a job, the same for all tasks. Picklable."""

    options: WriteOptions
    form: RowForm
    families: frozenset[bytes]
    """The table's families."""
    timestamp: int
    later_ms: int
    """How many milliseconds after `timestamp` are reserved too."""
    sizes: Sizes
    """The sizes of batches, which the server accepts."""
    job: StagedJob | None = None
    """Where the rows are staged, if the job replaces all rows; None: they are written at once."""

    def timestamp_of(self, batch_number: int) -> int:
        """Returns the timestamp of the cells in a task's batch; batch_number counts from 0."""
        return self.timestamp + min(batch_number, self.later_ms)


def write_plan(options: WriteOptions, schema: pa.Schema, *, overwrites: bool = False) -> WritePlan:
    """Checks the table, or creates it. Blocks. Raises RowlockError for a job that can't write.

    overwrites: also opens the bulk write into which the tasks stage their rows.
    """
    if options.mapping is not None or options.is_raw:
        # Before anything is created.
        _check_created(options, _form(schema, options.mapping, options))
    try:
        client = client_of(options.server, min(options.timeout_s, _CONNECT_S_MAX))
        plan = _plan(client, options, schema)
        # Last: what is opened must be ended.
        return replace(plan, job=open_job(client, options.table, options.timeout_s)) if overwrites else plan
    except UNREACHED as error:
        # One short message, without the chain of attempts.
        raise ServerUnavailableError(
            f"the rowlock server at {options.server} does not answer ({error}). Is it running, and can the driver and "
            "every executor reach that address? 'rowlock-server --data FOLDER' starts one"
        ) from None


def _plan(client: Client, options: WriteOptions, schema: pa.Schema) -> WritePlan:
    table = _table(client, options, schema)
    kept = table.mapping if options.mapping is None and not options.is_raw else None
    form = _form(schema, _mapping(options, table, schema), options, kept)
    _check_durability(table, options)
    families = frozenset(name.encode() for name in table.families)
    missing = sorted(form.families - families)
    if missing:
        raise FamilyNotFoundError(
            f"the mapping names {_names(frozenset(missing))}, which is not a family of table {options.table!r} at "
            f"{options.server}; its families are {_names(families)}",
            table=options.table,
            family=missing[0],
        )
    # Last, because the table must exist. A client's servers are private to the package.
    times = reserve_times(client._servers, options.table, BATCH_TIMES, min(options.timeout_s, _CONNECT_S_MAX))
    sizes = checked_sizes(options.batch_bytes, times.request_bytes_max, takes_rows=times.takes_rows)
    return WritePlan(options, form, families, times.first, times.later_ms, sizes)


def _mapping(options: WriteOptions, table: TableDescription, schema: pa.Schema) -> Mapping | None:
    """Returns the mapping to write by: the given one, or of the table's the columns that the DataFrame has."""
    if options.mapping is not None:
        return agreed(options.mapping, table.mapping_text, options.table)
    kept = None if options.is_raw else table.mapping
    if kept is None:
        return None
    if is_map_form(schema):
        raise MappingError(
            f"the DataFrame has a key and a map, and table {options.table!r} keeps a mapping, {kept.text!r}: give the "
            "DataFrame its columns, or set the option mapping to none, which writes bytes",
            table=options.table,
        )
    names = {name.lower() for name in schema.names}
    return kept.select_among([column.name for column in kept.values if column.name.lower() in names])


def _form(schema: pa.Schema, mapping: Mapping | None, options: WriteOptions, kept: Mapping | None = None) -> RowForm:
    return form_of(schema, mapping, nulls_delete=options.nulls == "delete", kept=kept)


def _check_created(options: WriteOptions, form: RowForm) -> None:
    if not options.creates:
        return
    named = frozenset(name.encode() for name in options.families)
    if not named and not form.families:
        raise InvalidArgumentError(_NO_FAMILIES)
    missing = form.families - named
    if named and missing:
        raise InvalidArgumentError(
            f"the option create names the families {_names(named)}, but the mapping also names {_names(missing)}; "
            "name them all, or set it to true to create the mapping's families"
        )


def _table(client: Client, options: WriteOptions, schema: pa.Schema) -> TableDescription:
    if options.creates:
        _create(client, options, schema)
    try:
        return client.describe(options.table)
    except TableNotFoundError:
        raise TableNotFoundError(
            f"there is no table {options.table!r} at {options.server}; .option('create', 'true') creates it",
            table=options.table,
        ) from None


def _create(client: Client, options: WriteOptions, schema: pa.Schema) -> None:
    """Creates the table, which keeps the mapping. If several jobs do so at a time, one succeeds."""
    durability = options.durability or "fsync"
    if options.mapping is not None:
        # What an existing table keeps is compared by the caller; it may keep nothing.
        with suppress(MappingError):
            client.create_table(
                options.table,
                options.families or None,
                mapping=options.mapping,
                if_not_exists=True,
                durability=durability,
            )
    elif not client.exists(options.table):
        if not options.families:
            raise InvalidArgumentError(_NO_FAMILIES)
        # Before the table is created: a DataFrame that needs a mapping would leave a table that keeps none.
        _form(schema, None, options)
        client.create_table(options.table, options.families, if_not_exists=True, durability=durability)


_NO_FAMILIES = "without a mapping the option create must name the families: .option('create', 'info stats,versions=3')"


def _check_durability(table: TableDescription, options: WriteOptions) -> None:
    """Raises InvalidArgumentError for a durability that the server would refuse in each batch."""
    strongest_first = get_args(Durability)
    if options.durability is not None and strongest_first.index(options.durability) > strongest_first.index(
        table.durability
    ):
        raise InvalidArgumentError(
            f"the option durability, {options.durability}, is less than table {options.table!r} guarantees, "
            f"{table.durability}; a job may request more, not less: alter the table instead"
        )


def _names(families: frozenset[bytes]) -> str:
    return ", ".join(repr(name.decode(errors="backslashreplace")) for name in sorted(families))
