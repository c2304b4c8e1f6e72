"""Serves scans, each from its request to its last batch: calls of gRPC, and those of direct connections."""

from __future__ import annotations

from rowlock_proto.v1.region_pb2 import ScanRequest

from rowlock_regionserver.config import Config
from rowlock_regionserver.engine.engine import Engine
from rowlock_regionserver.engine.scans import BatchSender, Write
from rowlock_regionserver.rpc.messages.point_requests import scan_to_open
from rowlock_regionserver.rpc.services.large_message import parsed_by_size


class ScanCalls:
    """Used on the event loop."""

    def __init__(self, engine: Engine, config: Config) -> None:
        self._engine = engine
        self._config = config

    async def serve(self, data: bytes, peer: str, write: Write | BatchSender) -> None:
        """Writes the batches of the scan that an encoded ScanRequest begins or continues. peer: the client.

        Raises RegionServerError if the scan ends early, with its read point closed.
        """
        message = await parsed_by_size(ScanRequest, data, self._engine.workers)
        openings = self._engine.openings
        region_id = message.region_id
        if message.held_scan:
            admitted = openings.take(message.held_scan, region_id)
        else:
            admitted = openings.admit(region_id, scan_to_open(message, self._config, peer))
        await self._engine.scans.write_answers(admitted, write)
