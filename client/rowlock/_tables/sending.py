# Made from client/rowlock/aio/_tables/sending.py by tools/async_to_sync.py: change that, then `make faces`.
"""Sends the mutations of many rows, with retries (threads)."""

from __future__ import annotations

import time
from collections.abc import Mapping

from rowlock_proto.v1 import region_pb2

from rowlock._codec.columns import Text
from rowlock._core.batch_send import BatchSend
from rowlock._core.view import View
from rowlock._transport.servers import Servers
from rowlock.errors import RowlockError


def send_mutations(servers: Servers, view: View[Text], mutations: Mapping[bytes, region_pb2.RowMutation]) -> BatchSend:
    """Sends the mutations, at least one, until each has its outcome. `finish` of the result raises BatchError."""
    with servers.sequences.taken(len(mutations)) as sequence:
        send = BatchSend(
            view.table,
            mutations,
            sequence,
            view.durability,
            time.monotonic(),
            view.timeout_s,
            servers.repeated_for_s,
        )
        while not send.is_done:
            _send_once(servers, send)
            time.sleep(send.pause_s)
            send.set_ages()
    return send


def _send_once(servers: Servers, send: BatchSend) -> None:
    try:
        region = servers.region_of(send.table, send.first_row, send.deadline)
    except RowlockError as error:
        send.not_located(error, time.monotonic())
        return
    request = send.request_for(region)
    failure = servers.attempt_in(region, request, send.deadline)
    send.absorb(request, failure, time.monotonic())
