"""What a stream of grpc.aio ended with, as the error that reading it would have raised."""

from __future__ import annotations

from typing import Any

import grpc


async def ended_with(call: grpc.aio.StreamStreamCall[Any, Any]) -> grpc.aio.AioRpcError:  # Any: whatever it carries
    """Waits for the stream's status, which is there at once when a read or write has failed."""
    return grpc.aio.AioRpcError(
        await call.code(), await call.initial_metadata(), await call.trailing_metadata(), await call.details()
    )
