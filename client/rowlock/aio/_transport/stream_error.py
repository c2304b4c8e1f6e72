"""The error of a stream of grpc.aio that has ended, as reading the stream would raise it."""

from __future__ import annotations

from typing import Any

import grpc


async def stream_error(call: grpc.aio.StreamStreamCall[Any, Any]) -> grpc.aio.AioRpcError:  # Any: of any messages
    """Returns the stream's error. Waits for its status, which is available as soon as a read or write has failed."""
    return grpc.aio.AioRpcError(
        await call.code(), await call.initial_metadata(), await call.trailing_metadata(), await call.details()
    )
