"""Commands on compactions: compact, compactions."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from rowlock.cli import arguments
from rowlock.cli.aligned import aligned
from rowlock.cli.quantities import clock_text, duration_text, size_text
from rowlock.cli.session import Call
from rowlock.cli.shared_options import AnyTableArgument, PropertyOption, TableArgument, integer

if TYPE_CHECKING:
    from rowlock import Client
    from rowlock.compactions import Compaction

# Between two looks.
_BAR_PAUSE_S, _WATCH_PAUSE_S = 0.2, 1.0
_HEADING = ("id", "table", "family", "region", "kind", "state", "since", "took", "progress", "worker")
# First what happens now.
_ORDER = ("working", "queued", "succeeded", "failed", "attempted")


def compact(
    call: Call,
    table: TableArgument,
    families: Annotated[
        list[str] | None,
        typer.Option("--family", metavar="FAMILY", show_default=False, help="Only this family; may be repeated."),
    ] = None,
    major: Annotated[
        bool, typer.Option("--major", help="Rewrite all files, and remove what is deleted or expired.")
    ] = False,
    properties: PropertyOption = None,
    wait: Annotated[bool, typer.Option("--wait", help="Show the progress, and return when it is done.")] = False,
) -> None:
    """Requests compactions: fewer store files are quicker to read.

    Each family of each region is compacted on its own. The newer files become one, with --major all files. Reads and
    writes continue meanwhile. Properties given here replace the table's for this request.

    With --wait the exit code is 2 if a compaction fails. An interrupt ends the waiting, not the compactions.

    --json: {"compaction_id", "table", "family", ...}, one line per compaction, as 'rowlock compactions' shows them
    """
    named = arguments.properties(properties)
    found = call.client.compact(table, major=major, families=families, properties=named)
    if wait:
        found = _wait(call, table, [each.compaction_id for each in found])
    _show(call, found)
    if wait:
        _check(table, found)


def compactions(
    call: Call,
    table: AnyTableArgument = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show changes until interrupted.")] = False,
    cancelled: Annotated[
        list[int] | None,
        typer.Option(
            "--cancel",
            parser=integer,
            metavar="ID",
            show_default=False,
            help="Cancel a compaction; may be repeated.",
        ),
    ] = None,
) -> None:
    """Shows compactions: those that work and wait, and the last that ended, the newest first.

    A state is queued, working, succeeded, failed, or attempted. An attempted one did not start: it was cancelled, the
    disk was too full, or automatic compaction of the store has stopped after failures. A failed one has left its files
    as they were.

    With --watch a terminal shows the newest state; without a terminal, or with --json, each change is a line.

    --json: {"compaction_id", "table", "family", "region_id", "kind", "state", "requested_by_hand", "why", "error",
    "worker", "queued_ms", "started_ms", "ended_ms", "bytes_total", "bytes_read", "bytes_written", "files_in",
    "files_out", "cells_in", "cells_out"}
    """
    if cancelled:
        _cancel(call, cancelled, table=table, watch=watch)
    elif watch:
        _watch(call, table)
    else:
        _show(call, call.client.compactions(table))


def _cancel(call: Call, ids: Sequence[int], *, table: str | None, watch: bool) -> None:
    if table is not None or watch:
        raise arguments.ArgumentError("--cancel takes ids, and neither TABLE nor --watch")
    found = call.client.cancel_compactions(ids)
    _show(call, found)
    unknown = set(ids) - {each.compaction_id for each in found}
    if unknown:
        raise arguments.ArgumentError(f"there is no compaction {min(unknown)}; 'rowlock compactions' lists them")


def _watch(call: Call, table: str | None) -> None:
    client = call.client
    if call.output.is_for_people:
        with call.output.refreshing() as show:
            while True:
                show(_text(client.compactions(table)))
                time.sleep(_WATCH_PAUSE_S)
    before: dict[int, Compaction] = {}
    while True:
        now = {each.compaction_id: each for each in client.compactions(table)}
        changed = [each for number, each in now.items() if before.get(number) != each]
        _show(call, changed)
        call.output.flush()
        before = now
        time.sleep(_WATCH_PAUSE_S)


def _wait(call: Call, table: str, ids: Sequence[int]) -> list[Compaction]:
    """Shows the progress of these compactions until all are over; returns them."""
    try:
        with call.output.progress("queued", None, "bytes") as bar:
            while True:
                found = _found(call.client, table, ids)
                working = [each for each in found if each.state == "working"]
                title = ", ".join(f"{each.kind} of {each.family}" for each in working) or "queued"
                total = sum(each.bytes_total for each in found)
                bar.reach(sum(each.bytes_read for each in found), total or None, title)
                if all(each.is_over for each in found):
                    return found
                time.sleep(_BAR_PAUSE_S)
    except KeyboardInterrupt:
        words = " ".join(f"--cancel {number}" for number in ids)
        call.output.note(f"the compaction continues on the server; 'rowlock compactions {words}' cancels it")
        raise


def _found(client: Client, table: str, ids: Sequence[int]) -> list[Compaction]:
    from rowlock.errors import CompactionError

    found = client.compactions(ids=ids)
    missing = set(ids) - {each.compaction_id for each in found}
    if missing:
        raise CompactionError(
            f"compaction {min(missing)} is not known any more: the server was restarted before it ended; request it "
            "again",
            ids=sorted(missing),
            table=table,
        )
    return found


def _check(table: str, found: Sequence[Compaction]) -> None:
    from rowlock.errors import CompactionError

    failed = [each for each in found if each.state != "succeeded"]
    if failed:
        first = failed[0]
        raise CompactionError(
            f"compaction {first.compaction_id} of table {table} {_outcome(first)}: {first.error}",
            ids=[each.compaction_id for each in failed],
            table=table,
        )


def _outcome(found: Compaction) -> str:
    return "failed" if found.state == "failed" else "did not start"


def _sorted(found: Iterable[Compaction]) -> list[Compaction]:
    """Sorts working ones first, then queued ones, each by id, then the others, the newest first."""
    listed = list(found)
    active = sorted((each for each in listed if not each.is_over), key=lambda each: _ORDER.index(each.state))
    ended = sorted((each for each in listed if each.is_over), key=lambda each: each.ended_ms or 0, reverse=True)
    return [*active, *ended]


def _show(call: Call, found: Sequence[Compaction]) -> None:
    """Prints compactions: on a terminal aligned, the reason of each below it; else one line each, the reason last."""
    if call.output.is_for_people:
        call.output.record({}, _text(found))
    else:
        lines = ((asdict(each), (*_fields(each), _reason(each))) for each in _sorted(found))
        call.output.listing((*_HEADING, "why"), lines)


def _text(found: Sequence[Compaction]) -> str:
    listed = _sorted(found)
    counts = ", ".join(f"{sum(each.state == state for each in listed)} {state}" for state in _ORDER)
    if not listed:
        return counts
    lines = aligned(_HEADING, list(map(_fields, listed)), list(map(_reason, listed)), right=("id", "region"))
    return "\n".join([*lines, counts])


def _fields(found: Compaction) -> tuple[str, ...]:
    return (
        str(found.compaction_id),
        found.table,
        found.family,
        str(found.region_id),
        found.kind,
        found.state,
        clock_text(found.ended_ms or found.started_ms or found.queued_ms),
        _duration(found),
        _progress(found),
        found.worker,
    )


def _reason(found: Compaction) -> str:
    return f"{found.why}: {found.error}" if found.error else found.why


def _progress(found: Compaction) -> str:
    """How far it is, or what became of how much."""
    if found.state == "working" and found.bytes_total:
        return f"{100 * found.bytes_read // found.bytes_total} % of {size_text(found.bytes_total)}"
    if found.state == "succeeded" and found.bytes_total:
        sizes = f"{size_text(found.bytes_total)} to {size_text(found.bytes_written)}"
        return f"{found.files_in} to {found.files_out} files, {sizes}"
    return ""


def _duration(found: Compaction) -> str:
    """How long it worked, or has worked since it was started."""
    if found.started_ms is None:
        return ""
    return duration_text(((found.ended_ms or time.time() * 1000) - found.started_ms) / 1000)
