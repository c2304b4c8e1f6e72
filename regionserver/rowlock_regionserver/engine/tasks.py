"""Cancels tasks whose result is no longer needed."""

from __future__ import annotations

import asyncio
from typing import Any


def cancel(task: asyncio.Future[Any]) -> None:
    """Cancels a task that may still run, and retrieves its exception, which asyncio would otherwise log as an error.

    For tasks that have no purpose after their client has disconnected: they fail for that reason, or are cancelled.
    """
    task.add_done_callback(_retrieve_exception)
    task.cancel()


def _retrieve_exception(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()
