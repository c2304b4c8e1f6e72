"""Tasks that nobody waits for any more."""

from __future__ import annotations

import asyncio
from typing import Any


def cancel(task: asyncio.Future[Any]) -> None:
    """Cancels what may still run, and takes note of what it ends with: else asyncio would log that as an error of ours.

    For tasks that a client's leaving makes pointless: they fail because it left, or are cancelled.
    """
    task.add_done_callback(_noted)
    task.cancel()


def _noted(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()
