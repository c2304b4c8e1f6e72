"""Everything that may happen to a table beside changes of its rows: bulk writes, splits and the like, snapshots."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from rowlock_regionserver.catalog.catalog import CatalogState
from rowlock_regionserver.catalog.live_catalog import LiveCatalog
from rowlock_regionserver.cells import DELETE_COLUMN, DELETE_FAMILY, PUT
from rowlock_regionserver.compaction.picker import pick, pick_requested
from rowlock_regionserver.compaction.progress import Progress
from rowlock_regionserver.compaction.settings import CompactionSettings
from rowlock_regionserver.errors import DiskFullError, InvalidRequestError, RegionTooBusyError
from rowlock_regionserver.host.bulk_commit import CommitRequest, commit_bulk_write, regions_locked
from rowlock_regionserver.locks.table_locks import Caller
from rowlock_regionserver.operations import AnswerCell, ScanPlan
from rowlock_regionserver.region.bulk.bulk_load import BulkOutcome, BulkResult
from rowlock_regionserver.region.bulk.row_batch import BulkBatch

from tests.property.altered_model import Alter
from tests.property.modelled_table import COLUMNS, FAMILY_NAMES, ROWS, ModelledTable
from tests.property.scan_model import Model
from tests.unit.region.conftest import abandon, bulk_batch
from tests.unit.region.row_batches import row_batch
from tests.waiting import WAIT_S

LATEST = 1 << 61  # a timestamp
# A cell of a bulk batch: its column, its timestamp or None, its value or None for a delete of the column.
Cells = list[tuple[bytes, bytes, bytes, int | None, bytes | None]]


class History(ModelledTable):
    """A modelled table, with what else may happen to it."""

    def __init__(self, folder: Path, generator: random.Random) -> None:
        super().__init__(folder, generator)
        self.job = self.snapshot_count = 0
        self.snapshots: dict[bytes, Model] = {}

    # ---- bulk batches and bulk writes

    def put_a_batch(self) -> None:
        region = self.generator.choice(self.regions)
        batch, cells = self.batch(self.rows_of(region))
        if batch is None:
            return
        outcomes: list[BulkOutcome] = []
        is_done = threading.Event()

        def done(outcome: BulkOutcome) -> None:
            outcomes.append(outcome)
            is_done.set()

        region.bulk_put(batch, None, self.options(), done)
        assert is_done.wait(WAIT_S)
        (outcome,) = outcomes
        assert isinstance(outcome, BulkResult)
        self.write_cells(cells, outcome.timestamp)

    def batch(self, rows: Sequence[bytes]) -> tuple[BulkBatch | None, Cells]:
        """Returns a batch of some of these rows, as cells or as rows, and its cells, each of a column of its own."""
        generator = self.generator
        if not rows:
            return None, []
        some = sorted(generator.sample(rows, generator.randint(1, min(4, len(rows)))))
        if generator.random() < 0.5:
            names = generator.sample(COLUMNS, 2)
            of_rows = [(row, self.timestamp(), [self.new_value(qualifier) for _, qualifier in names]) for row in some]
            cells: Cells = [
                (row, *column, timestamp, value)
                for row, timestamp, values in of_rows
                for column, value in zip(names, values, strict=True)
            ]
            return row_batch(names, of_rows), cells
        cells = [
            (row, *column, self.timestamp(), self.generator.choice([None, *[self.new_value(column[1])] * 3]))
            for row in some
            for column in generator.sample(COLUMNS, 2)
        ]
        return bulk_batch(*cells), cells

    def write_cells(self, cells: Cells, stamp: int) -> None:
        self.number += 1
        for row, family, qualifier, timestamp, value in cells:
            kind = DELETE_COLUMN if value is None else PUT
            self.write(row, family, qualifier, stamp if timestamp is None else timestamp, kind, value or b"")

    def commit(self) -> None:
        """Commits several batches at one moment; others change the table while they are staged."""
        generator, server = self.generator, self.server
        self.job += 1
        ref = server.clients.sessions.open(f"job-{self.job}", "ana").ref
        server.bulk_writes.open(ref, server.table("t"))
        first, last = sorted(generator.sample(ROWS, 2))
        bounds = generator.choice([(b"", b""), (b"", b""), (first, last)])
        staged: list[Cells] = []
        for _ in range(generator.choice([1, 4, 12])):
            self.server.bulk_writes.spilling.bytes_max = generator.choice([1, 5000, 1 << 30])
            region = generator.choice(self.regions)
            rows = [row for row in self.rows_of(region) if bounds[0] <= row and (not bounds[1] or row < bounds[1])]
            batch, cells = self.batch(rows)
            if batch is not None:
                server.bulk_writes.stage(ref, region, batch, None)
                staged.append(cells)
            if generator.random() < 0.3:
                generator.choice([self.change_a_row, self.split, self.merge, self.flush, self.put_a_batch])()
        replaces = generator.random() < 0.3
        request = CommitRequest(ref, "t", ranges=(bounds,), replaces=replaces)
        if generator.random() < 0.3:
            self.fail_to_commit(request)
        result = commit_bulk_write(server, request, Caller("ana", ref), regions_locked(server, request))
        server.clients.sessions.end(ref, "the job is done")
        if replaces:
            self.number += 1
            for row in {write.row for write in self.writes}:
                if bounds[0] <= row and (not bounds[1] or row < bounds[1]):
                    for family in FAMILY_NAMES:
                        self.write(row, family, b"", LATEST, DELETE_FAMILY, b"")
        for cells in staged:
            self.write_cells(cells, result.timestamp)
        self.counts["replacements" if replaces else "commits"] += 1

    def fail_to_commit(self, request: CommitRequest) -> None:
        def fail(catalog: LiveCatalog, state: CatalogState) -> None:
            raise DiskFullError("no space")

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(LiveCatalog, "commit", fail)
            with pytest.raises(DiskFullError):
                commit_bulk_write(
                    self.server, request, Caller("ana", request.session), regions_locked(self.server, request)
                )
        self.counts["failed commits"] += 1

    # ---- what happens to regions

    def flush(self) -> None:
        self.server.flush_region(self.generator.choice(self.regions))

    def compact(self) -> None:
        region, is_major = self.generator.choice(self.regions), self.generator.random() < 0.5
        for store in region.compaction_facts():
            plan = None if is_major else pick(store.files, CompactionSettings(minor_files_min=2))
            plan = plan or pick_requested(store.files, CompactionSettings(), major=is_major)
            if plan is not None:
                self.server._compact_region(region.region_id, store.family.number, plan, Progress())
                self.counts["compactions"] += 1

    def split(self) -> None:
        row = self.generator.choice(ROWS)
        if len(self.regions) < 5:
            with contextlib.suppress(InvalidRequestError):
                self.server.split_region("t", self.region_of(row).region_id, row)
                self.counts["splits"] += 1

    def merge(self) -> None:
        regions = self.regions
        if len(regions) > 1:
            place = self.generator.randrange(len(regions) - 1)
            with contextlib.suppress(RegionTooBusyError):  # They have cells from before an alter.
                self.server.merge_regions("t", regions[place].region_id, regions[place + 1].region_id)
                self.counts["merges"] += 1

    def restart(self) -> None:
        """Stops the server, or kills it. Snapshots end; what a request was refused with is not saved."""
        if self.generator.random() < 0.5:
            abandon(self.server)
        else:
            self.server.stop()
        self.server = self.open()
        assert not self.server.damaged_regions()
        self.snapshots.clear()
        self.repeatable = [each for each in self.repeatable if each.is_saved_durably]
        self.counts["restarts"] += 1

    def pass_time(self) -> None:
        self.clock.advance(self.generator.choice([1, 5, 20]))
        for region in self.regions:
            region.note_time()  # for its change feed

    def alter_limits(self) -> None:
        """Changes versions and time to live of a family; earlier writes stay under the limits of their time."""
        (before,) = self.generator.sample(self.families, 1)
        after = self.random_family(before.name)
        if after == before:
            return
        self.server.alter_table("t", set_families=[after])
        self.number += 1
        self.alters = (*self.alters, Alter(self.number, self.clock.now_ms(), before, after))
        self.families = tuple([after if family.name == after.name else family for family in self.families])
        self.counts["alters"] += 1

    def switch_feed(self) -> None:
        """Begins or ends a change feed, or retains for another time, from 36 ms on. It changes no answer."""
        hours = self.generator.choice(["0", "0.00001", "0.00002", "1"])
        self.server.alter_table("t", set_properties={"changes_retained_hours": hours})

    # ---- moments

    def make_snapshot(self) -> None:
        if len(self.snapshots) < 4:
            self.snapshot_count += 1
            snapshot_id = b"%016d" % self.snapshot_count
            self.server.make_snapshot("t", snapshot_id, 0, "")
            self.snapshots[snapshot_id] = self.model

    def end_snapshot(self) -> None:
        if self.snapshots:
            ended = self.generator.choice(list(self.snapshots))
            self.server.snapshots.end(ended)
            del self.snapshots[ended]

    def moments(self) -> Iterator[tuple[bytes, Model]]:
        """Yields a snapshot, or b"" for now, and the model of its moment."""
        yield b"", self.model
        yield from self.snapshots.items()


def expected_cells(model: Model, plan: ScanPlan) -> Iterable[tuple[bytes, AnswerCell]]:
    """Yields the cells that a scan finds."""
    return ((row, cell) for row, cells in model.scan(plan, b"", b"") for cell in cells)
