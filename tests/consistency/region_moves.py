"""Splits and merges of a table beside the operations of a campaign."""

from __future__ import annotations

import random
from collections.abc import Callable

import rowlock

from tests.consistency.worker_threads import WorkerThreads


def split_or_merge(
    workers: WorkerThreads,
    client: rowlock.Client,
    table: str,
    borders: int,
    draw_row: Callable[[], bytes],
    draw: random.Random,
) -> None:
    """Splits the table at a row if it has fewer borders between regions, else merges two regions.

    Another thread may do the same meanwhile.
    """
    starts = [region.start for region in client.regions(table)[1:]]
    try:
        if len(starts) < borders:
            row = draw_row()
            if row not in starts:
                client.split(table, row)
                workers.count("splits")
        elif starts:
            client.merge(table, draw.choice(starts))
            workers.count("merges")
    except rowlock.RowlockError as error:
        workers.count(f"splits and merges refused, {type(error).__name__}")
