"""The passages in which the sync and the asyncio face of the client differ: the asyncio text, and the sync text.

By module, as in FACES of async_to_sync.py. Most are docstrings. Passages are replaced before anything else.
"""

from __future__ import annotations

from collections.abc import Mapping

PASSAGES: Mapping[str, Mapping[str, str]] = {
    "_transport/bulk.py": {
        "            # In a thread: encoding rows takes long enough to block the event loop.\n": "",
    },
    "_transport/scan_opening.py": {
        # A thread is seldom interrupted. The lease ends the scan.
        """\
        try:
            stream = await open_stream(servers, region, continuation, timeout_s)
        except BaseException:
            servers.link_to(region).release(region, opened.held_scan)
            raise
""": """\
        stream = await open_stream(servers, region, continuation, timeout_s)
""",
    },
    "_transport/servers.py": {
        "For tasks of one event loop. Close it before a fork, see rowlock._transport.fork.": "Thread-safe.",
        "on one row and waits for its answer": "on one row and blocks for its answer",
        "with all its rows, and waits until": "with all its rows, and blocks until",
        # A plain change passes the gate in another way; and a client that is closed has not sent it.
        "server, method, request, remaining)": "server, method, request, remaining, kind=kind)",
        """\
            except ClosedError as closed:
                error, is_in_doubt = closed, has_arrived
""": "",
    },
    "blocking/test_bulk.py": {
        '        asyncio.InvalidStateError("odd"),\n': "",
    },
    "batch.py": {
        "at the end of the block. For one task.": "at the end of the block. Not thread-safe.",
        "        async with table.batch() as batch:\n            await batch.put(": (
            "        with table.batch() as batch:\n            batch.put("
        ),
        "changes now and waits until": "changes now and blocks until",
    },
    "bulk_write.py": {
        "returned by `Client.bulk_write`. For one task at a time.": (
            "returned by `Client.bulk_write`. For one thread at a time."
        ),
    },
    "client.py": {
        """\
    For tasks of the event loop that it was opened in. Close it, or use it with `async with`. Close it before the
    process forks in any case: grpc's asyncio side does not survive a fork. Calls raise the errors of rowlock.errors.
    UnknownOutcomeError means that a change may or may not have been made; so does the cancellation of its call.
""": """\
    Thread-safe. It also works in the child of a fork, which opens its own connections. Close it, or use it with `with`.
    A call blocks for its answer, and raises the errors of rowlock.errors. UnknownOutcomeError means that a change may
    or may not have been made.
""",
        """\
        Use `async with db.snapshot(...)`, which ends it, or `await db.snapshot(...)`. It also ends after lease_s
        seconds without use, at most a day; see Snapshot. session: the snapshot lives as long as this session instead.
        Raises LockUnavailableError while others hold the table's exclusive lock.
""": """\
        Use `with db.snapshot(...)`, which ends it, or call its `end`. It also ends after lease_s seconds without use,
        at most a day; see Snapshot. session: the snapshot lives as long as this session instead. Raises
        LockUnavailableError while others hold the table's exclusive lock.
""",
    },
    "_session_calls.py": {
        # Imported at its first use there; here the annotation names it, too.
        "    from rowlock.aio.typed_table import TypedTable\n\nA =": (
            "    from rowlock.bulk_write import BulkWrite\n"
            "    from rowlock.typed_bulk_write import TypedBulkWrite\n"
            "    from rowlock.typed_table import TypedTable\n\nA ="
        ),
        'Use `async with db.bulk_write("t") as write`, which commits at its end and aborts at an exception.': (
            'Use `with db.bulk_write("t") as write`, which commits at its end and aborts at an exception.'
        ),
        "Use `async with db.session(...)`, which ends it, or `await db.session(...)`.": (
            "Use `with db.session(...)`, which ends it, or call its `end`."
        ),
    },
    "scan.py": {
        "at one read point. For one task at a time.": "at one read point. For one thread at a time.",
    },
    "table.py": {
        "returned by `Client.table`. For tasks of the client's event loop.": "returned by `Client.table`. Thread-safe.",
        """\
    A call retries where that is safe and can help, until the table's timeout. Calls raise the errors of
    rowlock.errors. TableNotFoundError,""": """\
    A call blocks for its answer. It retries where that is safe and can help, until the table's timeout. Calls raise
    the errors of rowlock.errors. TableNotFoundError,""",
    },
    "typed_batch.py": {
        "at the end of the block. For one task.": "at the end of the block. Not thread-safe.",
        "        async with features.batch() as batch:\n            await batch.put(": (
            "        with features.batch() as batch:\n            batch.put("
        ),
        "changes now and waits until": "changes now and blocks until",
    },
    "typed_bulk_write.py": {
        "for a TypedTable. For one task at a time.": "for a TypedTable. For one thread at a time.",
        "        async with db.bulk_write(features, replace=True) as write:\n            await write.put(": (
            "        with db.bulk_write(features, replace=True) as write:\n            write.put("
        ),
    },
    "typed_scan.py": {
        "at one read point. For one task at a time.": "at one read point. For one thread at a time.",
    },
    "typed_table.py": {
        "and `Client.table`. For tasks of the client's event loop.": "and `Client.table`. Thread-safe.",
    },
}
