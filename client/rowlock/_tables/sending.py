# Made from client/rowlock/aio/_tables/sending.py by tools/async_to_sync.py: change that, then `make faces`.
"""Sends the mutations of many rows, with retries (threads)."""

from __future__ import annotations

import time
from collections.abc import Mapping

from rowlock._codec.columns import Text
from rowlock._core.batch_send import BatchSend
from rowlock._core.put_rows import Line
from rowlock._core.view import View
from rowlock._transport.servers import Servers
from rowlock.errors import RowlockError


def send_lines(servers: Servers, view: View[Text], lines: Mapping[bytes, Line]) -> BatchSend:
    """Sends the lines, at least one, until each has its outcome. `finish` of the result raises BatchError."""
    with servers.sequences.taken(len(lines)) as sequence:
        send = BatchSend(
            view.table,
            lines,
            sequence,
            view.durability,
            time.monotonic(),
            view.timeout_s,
            servers.repeated_for_s,
            servers.request_bytes_max,
        )
        while not send.is_done:
            _send_once(servers, send)
            time.sleep(send.pause_s)
            send.prepare(time.monotonic())
    return send


def _send_once(servers: Servers, send: BatchSend) -> None:
    try:
        region = servers.region_of(send.table, send.first_row, send.deadline)
        takes_columns = servers.takes_puts_in_columns_at(region, send.deadline)
    except RowlockError as error:
        send.not_located(error, time.monotonic())
        return
    request = send.request_for(region, takes_columns=takes_columns)
    failure = servers.attempt_in(region, request, send.deadline)
    send.absorb(request, failure, time.monotonic())
    if send.has_moved:
        servers.regions.forget(region)
