"""Commands on sessions and locks: sessions, locks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from rowlock._codec.escapes import typed
from rowlock.cli.aligned import aligned
from rowlock.cli.arguments import ArgumentError
from rowlock.cli.quantities import clock_text
from rowlock.cli.session import Call
from rowlock.cli.shared_options import AnyTableArgument

if TYPE_CHECKING:
    from rowlock.session_info import LockInfo, SessionInfo

# On a terminal; what is of any length stands below.
_SESSIONS_HEADING = ("id", "state", "since", "heartbeat", "idle limit", "purpose")
_LOCKS_HEADING = ("table", "region", "mode", "state", "holder", "since")
_EXTENDED_HEADING = ("number", "heartbeat", "refused in")


def sessions(
    call: Call,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[end ID...]", show_default=False, help="End these sessions.")
    ] = None,
    ended: Annotated[bool, typer.Option("--ended", help="Show those that have ended, too, and why.")] = False,
) -> None:
    """Shows sessions: locks, bulk writes, snapshots and scans of clients, and whose they are.

    A session ends when it has had no heartbeat for its idle limit; 'heartbeat' is the time since the last one. Below
    each session stand its owner and what it holds. A snapshot or scan of a client that named no session is shown as a
    session of its own.

    'rowlock sessions end ID' ends a session and shows what was released. Its owner's next call fails with
    SessionEndedError.

    --json: {"session_id", "number", "owner", "purpose", "state", "started_ms", "heartbeat_ms", "idle_ms",
    "held": [{"kind", "table", "text"}], "is_implicit", "ended_ms", "reason"}
    """
    if words:
        if words[0] != "end" or len(words) < 2:
            raise ArgumentError("to end sessions, give their ids: rowlock sessions end ID...")
        _show(call, [_end(call, session_id) for session_id in words[1:]])
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

    A holder is a session, which 'rowlock sessions end ID' ends, or call-N, a table operation that runs now. Below each
    lock stand what it is for, whose it is, and by which holders a waiting request is blocked. Reading and changing rows
    takes no such lock.

    --json: {"table", "region_id", "mode", "is_held", "holder", "owner", "purpose", "number", "since_ms", "waits_for",
    "waits_until_ms", "heartbeat_ms"}
    """
    found = call.client.locks(table)
    if not call.output.is_for_people:
        lines = [(asdict(each), _lock_line(each, is_extended=extended)) for each in found]
        call.output.listing((), lines)
    elif not found:
        call.output.record({}, "no locks")
    else:
        heading = (*_LOCKS_HEADING, *_EXTENDED_HEADING) if extended else _LOCKS_HEADING
        rows = [(*_lock_fields(each), *(_extended_fields(each) if extended else ())) for each in found]
        shown = aligned(heading, rows, list(map(_lock_details, found)), right=("region", *_EXTENDED_HEADING))
        call.output.record({}, "\n".join(shown))


def _end(call: Call, session_id: str) -> SessionInfo:
    from rowlock.errors import SessionEndedError

    try:
        return call.client.end_session(session_id)
    except SessionEndedError as error:
        raise ArgumentError(
            f"session {typed(session_id)} is not open: {error.reason}; 'rowlock sessions' lists the open ones"
        ) from error


def _show(call: Call, found: Sequence[SessionInfo]) -> None:
    if not call.output.is_for_people:
        call.output.listing((), [(asdict(each), _session_line(each)) for each in found])
    elif not found:
        call.output.record({}, "no sessions")
    else:
        rows = list(map(_session_fields, found))
        shown = aligned(_SESSIONS_HEADING, rows, list(map(_session_details, found)), right=("heartbeat", "idle limit"))
        call.output.record({}, "\n".join(shown))


def _session_line(found: SessionInfo) -> tuple[str, ...]:
    """Returns a session as one line, for programs: of an ended one with its end in place of a heartbeat."""
    session_id, state, since, heartbeat, idle_limit, purpose = _session_fields(found)
    heartbeat_or_end = heartbeat if found.ended_ms is None else clock_text(found.ended_ms)
    return session_id, found.owner, purpose, state, since, heartbeat_or_end, idle_limit, _held(found)


def _session_fields(found: SessionInfo) -> tuple[str, ...]:
    return (
        found.session_id,
        found.state,
        clock_text(found.started_ms),
        "" if found.ended_ms is not None else _since(found.heartbeat_ms),
        _duration(found.idle_ms / 1000),
        found.purpose,
    )


def _session_details(found: SessionInfo) -> str:
    held = _held(found)
    if found.ended_ms is not None:
        return f"{found.owner}: ended {clock_text(found.ended_ms)}, {held}"
    return f"{found.owner}: {held}" if held else found.owner


def _held(found: SessionInfo) -> str:
    """Returns what it holds, or why it has ended and what was released."""
    held = ", ".join([item.text for item in found.held])
    if found.ended_ms is None:
        return held
    return f"{found.reason}{f'; released: {held}' if held else ''}"


def _lock_line(found: LockInfo, *, is_extended: bool) -> tuple[str, ...]:
    """Returns a lock as one line, for programs."""
    *place, holder, since = _lock_fields(found)
    line = (*place, holder, found.owner, since, found.purpose, ", ".join(found.waits_for))
    return (*line, *_extended_fields(found)) if is_extended else line


def _lock_fields(found: LockInfo) -> tuple[str, ...]:
    return (
        found.table,
        "" if found.region_id is None else str(found.region_id),
        found.mode,
        "held" if found.is_held else "waiting",
        found.holder,
        clock_text(found.since_ms),
    )


def _lock_details(found: LockInfo) -> str:
    whose = f"{found.purpose} ({found.owner})" if found.purpose else found.owner
    return f"{whose}, blocked by {', '.join(found.waits_for)}" if found.waits_for else whose


def _extended_fields(found: LockInfo) -> tuple[str, ...]:
    return (
        str(found.number) if found.number else "",
        "" if found.heartbeat_ms is None else _since(found.heartbeat_ms),
        "" if found.waits_until_ms is None else _duration(max(0.0, found.waits_until_ms / 1000 - time.time())),
    )


def _since(ms: int) -> str:
    return _duration(max(0.0, time.time() - ms / 1000))


def _duration(seconds: float) -> str:
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{left:02}"
