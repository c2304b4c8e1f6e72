# Made from client/rowlock/aio/_transport/finding.py by tools/async_to_sync.py: change that, then `make faces`.
"""Finds a server to connect to (threads)."""

from __future__ import annotations

import random
import time

import grpc
from rowlock_proto.v1 import catalog_pb2

from rowlock._core.features import PROTOCOL
from rowlock._core.retry import repeated_for_s
from rowlock._core.search import Search
from rowlock._transport import methods
from rowlock._transport.servers import Servers


def find_server(servers: Servers, search: Search) -> None:
    """Tries the addresses until a rowlock server answers, and stores what it says of itself.

    Then opens the connection that is held open, if one is. If no server answers, closes the servers and raises the
    error of the search.
    """
    try:
        while not _round(servers, search):
            time.sleep(search.pause_s(time.monotonic(), random.random()))
        if servers.is_held_open:
            servers.hold_open()
    except BaseException:
        servers.close()
        raise


def _round(servers: Servers, search: Search) -> bool:
    """Tries each address once. Returns whether one answered."""
    for address in servers.addresses:
        share = search.share_s(time.monotonic())
        request = catalog_pb2.ServerInfoRequest(protocol=PROTOCOL)
        try:
            info = servers.call_once(address, methods.SERVER_INFO, request, share)
        except grpc.RpcError as failed:
            search.failed(address, servers.error_for(failed, address))
            continue
        if search.answered(address, info):
            servers.choose(address)
            servers.protocols[address] = info.protocol
            servers.infos[address] = info
            servers.repeated_for_s = repeated_for_s(info.request_ids_remembered_ms)
            servers.request_bytes_max = info.limits.request_bytes_max or servers.request_bytes_max
            return True
    return False
