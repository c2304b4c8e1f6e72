"""Commands on sessions and locks: sessions, locks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from rowlock.cli.arguments import ArgumentError
from rowlock.cli.session import Call
from rowlock.cli.shared_options import AnyTableArgument

if TYPE_CHECKING:
    from rowlock.session_info import LockInfo, SessionInfo

_SESSIONS_HEADING = ("id", "owner", "purpose", "state", "since", "heartbeat", "idle limit", "holds")
_LOCKS_HEADING = ("table", "region", "mode", "state", "session", "owner", "since", "what for", "waits for")
_EXTENDED_HEADING = ("number", "heartbeat", "refused in")


def sessions(
    call: Call,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[end ID...]", show_default=False, help="End these sessions.")
    ] = None,
    ended: Annotated[bool, typer.Option("--ended", help="Show those that have ended, too, and why.")] = False,
) -> None:
    """Shows sessions: locks, bulk writes, snapshots and scans of clients, and whose they are.

    A session ends when it has had no heartbeat for its idle limit; 'heartbeat' is the time since the last one. A
    snapshot or scan of a client that named no session is shown as a session of its own.

    'rowlock sessions end ID' ends a session and shows what was released. Its owner's next call fails with
    SessionEndedError.

    --json: {"session_id", "number", "owner", "purpose", "state", "started_ms", "heartbeat_ms", "idle_ms",
    "held": [{"kind", "table", "text"}], "is_implicit", "ended_ms", "reason"}
    """
    if words:
        if words[0] != "end" or len(words) < 2:
            raise ArgumentError("to end sessions, give their ids: rowlock sessions end ID...")
        _show(call, [call.client.end_session(session_id) for session_id in words[1:]])
        return
    _show(call, call.client.sessions(ended=ended))


def locks(
    call: Call,
    table: AnyTableArgument = None,
    extended: Annotated[
        bool, typer.Option("--extended", help="Show the lock's number, the last heartbeat, and when it is refused.")
    ] = False,
) -> None:
    """Shows the locks of tables and regions: who holds them and why, and who waits.

    A holder is a session, which 'rowlock sessions end ID' ends, or call-N, a table operation that runs now. Reading and
    changing rows takes no such lock.

    --json: {"table", "region_id", "mode", "is_held", "holder", "owner", "purpose", "number", "since_ms", "waits_for",
    "waits_until_ms", "heartbeat_ms"}
    """
    heading = (*_LOCKS_HEADING, *_EXTENDED_HEADING) if extended else _LOCKS_HEADING
    found = call.client.locks(table)
    lines = [(asdict(each), _lock_fields(each, is_extended=extended)) for each in found]
    call.output.listing(heading, lines, whole=("session",))


def _show(call: Call, found: Sequence[SessionInfo]) -> None:
    call.output.listing(_SESSIONS_HEADING, [(asdict(each), _session_fields(each)) for each in found], whole=("id",))


def _session_fields(found: SessionInfo) -> tuple[str, ...]:
    held = ", ".join([item.text for item in found.held])
    if found.ended_ms is not None:
        held = f"{found.reason}{f'; released: {held}' if held else ''}"
    return (
        found.session_id,
        found.owner,
        found.purpose,
        found.state,
        _clock(found.started_ms),
        _clock(found.ended_ms) if found.ended_ms is not None else _since(found.heartbeat_ms),
        _duration(found.idle_ms / 1000),
        held,
    )


def _lock_fields(found: LockInfo, *, is_extended: bool) -> tuple[str, ...]:
    fields = (
        found.table,
        "" if found.region_id is None else str(found.region_id),
        found.mode,
        "held" if found.is_held else "waiting",
        found.holder,
        found.owner,
        _clock(found.since_ms),
        found.purpose,
        ", ".join(found.waits_for),
    )
    if not is_extended:
        return fields
    return (
        *fields,
        str(found.number) if found.number else "",
        "" if found.heartbeat_ms is None else _since(found.heartbeat_ms),
        "" if found.waits_until_ms is None else _duration(max(0.0, found.waits_until_ms / 1000 - time.time())),
    )


def _clock(ms: int) -> str:
    """The time in this machine's zone."""
    return datetime.fromtimestamp(ms / 1000).strftime("%Y-%m-%d %H:%M:%S")


def _since(ms: int) -> str:
    return _duration(max(0.0, time.time() - ms / 1000))


def _duration(seconds: float) -> str:
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{left:02}"
