"""Keeps grpc from logging a traceback for a call that is cancelled before its handler begins.

That happens when a client goes away, or the server stops, right after the call came. Nothing is wrong then.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import traceback

from grpc._cython import cygrpc  # type: ignore[attr-defined]  # The stubs have only what is public.

# The module that runs handlers logs by this name.
GRPC_LOGGER = "grpc._cython.cygrpc"


class _IsNoCancelledCall(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


class _Tracebacks:
    """The module `traceback` as grpc sees it: grpc prints what it has logged to standard error, too."""

    def __getattr__(self, name: str) -> object:
        return getattr(traceback, name)

    def print_exc(self) -> None:
        if not isinstance(sys.exception(), asyncio.CancelledError):
            traceback.print_exc()


def ignore_cancelled_calls() -> None:
    """For the whole process; called once, by the command."""
    logging.getLogger(GRPC_LOGGER).addFilter(_IsNoCancelledCall())
    cygrpc.traceback = _Tracebacks()
