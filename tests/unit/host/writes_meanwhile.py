"""Splits during which something is written, and the kinds of writes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.host.region_changes import RegionChanges
from rowlock_regionserver.operations import (
    Put,
    RowMutation,
    RowOutcome,
    RowResult,
    WriteOptions,
)
from rowlock_regionserver.region.bulk.bulk_load import BulkOutcome, BulkResult
from rowlock_regionserver.region.bulk.put_batch import PutBatch
from rowlock_regionserver.region.copied_changes import CopiedChanges

from tests.unit.region.row_batches import row_batch
from tests.waiting import WAIT_S

from .serving_table import Serving

CLIENT = b"client is 16 byt"
SNAPSHOT = b"snapshot is 16 b"

# Runs a split whose block writes.
When = Callable[[Serving, Callable[[], object]], None]


def split_and_prepare(table: Serving, write: Callable[[], object]) -> None:
    """Splits at r3. Writes when the new regions' manifests are written, before changes are copied."""
    prepare, counts = RegionChanges._successors, list[int]()

    def prepare_and_write(*arguments: object) -> object:
        made = prepare(*arguments)  # type: ignore[arg-type]
        write()
        counts.append(1)
        return made

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(RegionChanges, "_successors", prepare_and_write)
        table.split(b"r3")
    assert counts == [1]


def split_and_copy(table: Serving, write: Callable[[], object]) -> None:
    """Splits at r3. Writes when nothing is left to copy, before writes have to wait."""
    copy, counts = CopiedChanges.copy, list[int]()

    def copy_and_write(copied: CopiedChanges) -> None:
        copy(copied)
        write()
        counts.append(1)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(CopiedChanges, "copy", copy_and_write)
        table.split(b"r3")
    assert counts == [1]


def put_rows(table: Serving, rows: Sequence[bytes], value: bytes) -> None:
    """Puts rows in columns."""
    batch = PutBatch(row_batch([(b"f", b"q")], [(row, None, [value]) for row in rows]), CLIENT, [0] * len(rows), 1)
    found: list[RowOutcome] = []
    is_done = threading.Event()

    def done(outcomes: Sequence[RowOutcome]) -> None:
        found.extend(outcomes)
        is_done.set()

    options = WriteOptions(table.clock.monotonic() + WAIT_S, Durability.FSYNC)
    table.regions[0].put_rows(batch, options, done)
    assert is_done.wait(WAIT_S)
    assert [type(outcome) for outcome in found] == [RowResult] * len(rows), found


def put_bulk(table: Serving, batch: pa.Table) -> None:
    found: list[BulkOutcome] = []
    is_done = threading.Event()

    def done(outcome: BulkOutcome) -> None:
        found.append(outcome)
        is_done.set()

    options = WriteOptions(table.clock.monotonic() + WAIT_S, Durability.FSYNC)
    table.regions[0].bulk_put(batch, None, options, done)
    assert is_done.wait(WAIT_S)
    (outcome,) = found
    assert isinstance(outcome, BulkResult), outcome


def without_log(table: Serving, row: bytes, value: bytes) -> None:
    is_done = threading.Event()
    options = WriteOptions(table.clock.monotonic() + WAIT_S, Durability.SKIP)
    mutation = RowMutation(row, (Put(b"f", b"q", value),))
    table.regions[0].mutate([mutation], options, lambda _: is_done.set(), may_wait=True)
    assert is_done.wait(WAIT_S)


def memory_is_counted(table: Serving) -> bool:
    return table.server._shared.memory.bytes_held == sum(region.memstore_bytes for region in table.regions)


WHEN = pytest.mark.parametrize("when", [split_and_prepare, split_and_copy])
