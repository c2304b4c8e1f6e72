"""The passages in which the sync and the asyncio face of the client differ: the asyncio text, and the sync text.

By module, as in FACES of async_to_sync.py. Most are docstrings. Passages are replaced before anything else.
"""

from __future__ import annotations

from collections.abc import Mapping

PASSAGES: Mapping[str, Mapping[str, str]] = {
    "_transport/bulk.py": {
        "            # Making cells takes long enough to hold up the loop.\n": "",
    },
    "_transport/servers.py": {
        "For tasks of one event loop. Close it before a fork, see rowlock._transport.fork.": "Thread-safe.",
        "on one row and waits for its answer": "on one row and blocks for its answer",
        "holds all its rows, and waits until": "holds all its rows, and blocks until",
        # A fork waits until no call is under way.
        """\
        try:
            await self._stream(region.server, self._folder_of(region)).call(request, region.region_id, deadline)
        except ClosedError as error:
            # Not raised: an earlier attempt may have left the change in doubt.
            request.fail(error)
""": """\
        with gate:
            try:
                self._stream(region.server, self._folder_of(region)).call(request, region.region_id, deadline)
            except ClosedError as error:
                # Not raised: an earlier attempt may have left the change in doubt.
                request.fail(error)
""",
        "from rowlock._transport.methods import Method\n": (
            "from rowlock._transport.fork import gate\nfrom rowlock._transport.methods import Method\n"
        ),
        # A plain change passes the gate in another way; and a client that is closed has not sent it.
        "asked, method, request, remaining)": "asked, method, request, remaining, kind=kind)",
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
        "now and waits until": "now and blocks until",
    },
    "client.py": {
        """\
    For tasks of the event loop that it was opened in. Close it, or use it with `async with`, and in any case before the
    process forks: grpc's asyncio side does not survive that. Every call raises the errors of rowlock.errors; what a
    lost connection leaves in doubt raises UnknownOutcomeError, and a change whose call was cancelled may or may not
    have happened.
""": """\
    Thread-safe, and safe to use in the child of a fork, which opens connections of its own. Close it, or use it with
    `with`. Every call blocks for its answer and raises the errors of rowlock.errors; what a lost connection leaves in
    doubt raises UnknownOutcomeError.
""",
        """\
        `async with db.snapshot(...)`, which ends it, or `await db.snapshot(...)`. It ends too when nothing used it for
        lease_s seconds, at most a day; see Snapshot.
""": """\
        It ends with its `with` block, or when nothing used it for lease_s seconds, at most a day; see Snapshot.
""",
    },
    "scan.py": {
        "Read once, by one task at a time.": "Read once; one thread at a time.",
        """\
    An iterator: a second loop goes on where the first one was left, and after the end finds nothing. Nothing is asked
    of a server before the first row is. When it is left early, what the server holds for it is freed by `async with`,
    or by the garbage collector. Its timeout is for each batch of rows, or sign of life while there are none.
""": """\
    An iterator, like a file: a second loop goes on where the first one was left, and after the end finds nothing.
    Nothing is asked of a server before the first row is. Used with `with`, or left to the garbage collector, what the
    server holds for it is freed when it is left early. Its timeout is for each batch of rows, or sign of life
    while there are none.
""",
    },
    "table.py": {
        "as `Client.table` gives it. For tasks of the client's event loop.": "as `Client.table` gives it. Thread-safe.",
        """\
Every call is tried again, where
    that can help and is safe, until the table's timeout. Errors: rowlock.errors.
""": """\
Every call blocks for its answer;
    it is tried again, where that can help and is safe, until the table's timeout. Errors: rowlock.errors.
""",
    },
}
