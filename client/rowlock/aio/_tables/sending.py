"""Sends the mutations of many rows, with retries (asyncio)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from rowlock_proto.v1 import region_pb2

from rowlock._codec.columns import Text
from rowlock._core.batch_send import BatchSend
from rowlock._core.view import View
from rowlock.aio._transport.servers import Servers
from rowlock.errors import RowlockError


async def send_mutations(
    servers: Servers, view: View[Text], mutations: Mapping[bytes, region_pb2.RowMutation]
) -> BatchSend:
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
            await _send_once(servers, send)
            await asyncio.sleep(send.pause_s)
            send.set_ages()
    return send


async def _send_once(servers: Servers, send: BatchSend) -> None:
    try:
        region = await servers.region_of(send.table, send.first_row, send.deadline)
    except RowlockError as error:
        send.not_located(error, time.monotonic())
        return
    request = send.request_for(region)
    failure = await servers.attempt_in(region, request, send.deadline)
    send.absorb(request, failure, time.monotonic())
