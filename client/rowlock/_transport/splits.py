# Made from client/rowlock/aio/_transport/splits.py by tools/async_to_sync.py: change that, then `make faces`.
"""Splits (threads): cuts a scan into parts of about equal size."""

from __future__ import annotations

import time

import grpc

from rowlock._core.scan_plan import ScanPlan
from rowlock._core.scan_progress import ScanProgress
from rowlock._transport import methods
from rowlock._transport.servers import Servers
from rowlock.errors import ClosedError, NotServingRegionError, RowlockError
from rowlock.split_plan import Split, plan_request, splits_of


def splits(servers: Servers, plan: ScanPlan, part_bytes: int, timeout_s: float) -> list[Split]:
    """Returns the splits of all regions of the scan, in row order. Looks up regions again that have moved."""
    progress = ScanProgress(plan, timeout_s)
    found: list[Split] = []
    while not progress.is_done:
        region = None
        deadline = time.monotonic() + timeout_s
        try:
            regions = servers.regions_of(plan.table, *progress.bounds, deadline)
            region, scan = progress.request_for(regions)
            request = plan_request(scan, part_bytes)
            try:
                answer = servers.call_once(
                    region.server, methods.PLAN_SCAN, request, deadline - time.monotonic(), region
                )
            except grpc.RpcError as failed:
                raise servers.error_for(failed, region.server) from None
            found += splits_of(answer)
            progress.region_is_done(region)
            continue
        except ClosedError:
            raise
        except RowlockError as error:
            failure = error
        if region is not None and isinstance(failure, NotServingRegionError):
            servers.regions.forget(region)
        time.sleep(progress.failed(failure, time.monotonic()))
    return found
