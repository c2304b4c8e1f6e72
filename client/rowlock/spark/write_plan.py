"""What the driver settles before a job writes: the table, the form of its rows, and the timestamps for all it writes.

Whatever can be found wrong here is found before anything is written. The timestamps are what makes a job idempotent:

1. They begin at the server's time for the table, and nothing is stamped there from then on that is not later than all
   of them. So what was written before the job is older and what is written after it is newer, whatever clocks say.
2. The batches of a task are written at the first of them, the one after it, and so on (`timestamp_of`). A task that is
   repeated, or runs twice at a time, writes the same cells at the same timestamps, and they are the same versions.
3. So of two rows with one key in a task the later wins also if a second attempt writes the earlier one again and dies.
   That holds as far as the timestamps last: the batches beyond share the last one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import pyarrow as pa

from rowlock._transport.server_times import reserve_times
from rowlock.client import Client
from rowlock.errors import (
    DeadlineError,
    FamilyNotFoundError,
    InvalidArgumentError,
    ServerUnavailableError,
    TableNotFoundError,
    UnknownOutcomeError,
)
from rowlock.schema import Durability, Family, TableDescription
from rowlock.spark.connections import client_of
from rowlock.spark.row_forms import RowForm, form_of
from rowlock.spark.write_options import WriteOptions

# A mistyped address should be told soon; a server that is being restarted is back by then.
_CONNECT_S_MAX = 20.0
BATCH_TIMES = 900
"""How many batches of a task have timestamps of their own. Point writes are stamped so many milliseconds ahead."""
UNREACHED = (ServerUnavailableError, DeadlineError, UnknownOutcomeError)
"""What a call ends with when its server stays away."""


@dataclass(frozen=True, slots=True)
class WritePlan:
    """Picklable; all tasks of a job have the same."""

    options: WriteOptions
    form: RowForm
    families: frozenset[bytes]
    """Those of the table."""
    timestamp: int
    later_ms: int
    """How many timestamps after it are the job's too."""

    def timestamp_of(self, batch_number: int) -> int:
        """Of the cells in a task's batch of that number, from 0."""
        return self.timestamp + min(batch_number, self.later_ms)


def write_plan(options: WriteOptions, schema: pa.Schema) -> WritePlan:
    """Looks at, or makes, the table. Blocks; raises RowlockError for whatever would not be written."""
    form = form_of(schema, options.mapping, nulls_delete=options.nulls == "delete")
    _check_created(options, form)
    try:
        return _plan(client_of(options.server, min(options.timeout_s, _CONNECT_S_MAX)), options, form)
    except UNREACHED as error:
        # Short, and without the attempts that led to it.
        raise ServerUnavailableError(
            f"the rowlock server at {options.server} does not answer ({error}). Is it running, and can the driver and "
            "every executor reach that address? 'rowlock-server --data FOLDER' starts one"
        ) from None


def _plan(client: Client, options: WriteOptions, form: RowForm) -> WritePlan:
    table = _table(client, options, form)
    _check_durability(table, options)
    families = frozenset(name.encode() for name in table.families)
    missing = sorted(form.families - families)
    if missing:
        raise FamilyNotFoundError(
            f"the mapping names the family {_names(frozenset(missing))}, and the table {options.table!r} at "
            f"{options.server} has {_names(families)}",
            table=options.table,
            family=missing[0],
        )
    # Asked last: the table was there before it. The servers of a client are not for its users.
    times = reserve_times(client._servers, options.table, BATCH_TIMES, min(options.timeout_s, _CONNECT_S_MAX))
    return WritePlan(options, form, families, times.first, times.later_ms)


def _check_created(options: WriteOptions, form: RowForm) -> None:
    if not options.creates:
        return
    named = frozenset(name.encode() for name in options.families)
    if not named and not form.families:
        raise InvalidArgumentError(
            "without a mapping the option 'create' names the families: .option('create', 'info stats,versions=3')"
        )
    missing = form.families - named
    if named and missing:
        raise InvalidArgumentError(
            f"the option 'create' makes the families {_names(named)}, and the mapping names {_names(missing)} too; "
            "name them all, or say 'true', which makes the mapping's"
        )


def _table(client: Client, options: WriteOptions, form: RowForm) -> TableDescription:
    if options.creates:
        families = options.families or {name.decode(): Family() for name in form.families}
        # Of several jobs that make it at a time one does, and the others find it.
        client.create_table(options.table, families, if_not_exists=True, durability=options.durability or "fsync")
    try:
        return client.describe(options.table)
    except TableNotFoundError:
        raise TableNotFoundError(
            f"there is no table {options.table!r} at {options.server}; .option('create', 'true') makes it",
            table=options.table,
        ) from None


def _check_durability(table: TableDescription, options: WriteOptions) -> None:
    """The server would refuse each batch."""
    strongest_first = get_args(Durability)
    if options.durability is not None and strongest_first.index(options.durability) > strongest_first.index(
        table.durability
    ):
        raise InvalidArgumentError(
            f"the option 'durability' is {options.durability}, which is less than the table {options.table!r} "
            f"promises, {table.durability}; a job may ask for more, not for less: alter the table instead"
        )


def _names(families: frozenset[bytes]) -> str:
    return ", ".join(repr(name.decode(errors="backslashreplace")) for name in sorted(families))
