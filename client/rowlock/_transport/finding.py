# Made from client/rowlock/aio/_transport/finding.py by tools/async_to_sync.py: change that, then `make faces`.
"""Finding a server to begin with (threads)."""

from __future__ import annotations

import random
import time

import grpc
from rowlock_proto.v1 import catalog_pb2

from rowlock._core.retry import repeated_for_s
from rowlock._core.search import Search
from rowlock._transport import methods
from rowlock._transport.servers import Servers


def find_server(servers: Servers, search: Search) -> None:
    """Asks each address until one answers as a rowlock server does, and notes what it says of itself.

    Closes the servers if none does, and raises what the search ends with.
    """
    try:
        while not _round(servers, search):
            time.sleep(search.pause_s(time.monotonic(), random.random()))
    except BaseException:
        servers.close()
        raise


def _round(servers: Servers, search: Search) -> bool:
    """Asks each address once; whether one answered."""
    for address in servers.addresses:
        share = search.share_s(time.monotonic())
        try:
            info = servers.call_once(address, methods.SERVER_INFO, catalog_pb2.ServerInfoRequest(), share)
        except grpc.RpcError as failed:
            search.failed(address, servers.judged(failed, address))
            continue
        if search.answered(address, info):
            servers.choose(address)
            servers.repeated_for_s = repeated_for_s(info.request_ids_remembered_ms)
            servers.request_bytes_max = info.limits.request_bytes_max or servers.request_bytes_max
            return True
    return False
