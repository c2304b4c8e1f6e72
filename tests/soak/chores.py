"""What happens to the table while it is written.

Forced flushes, compactions by hand, cancellations, alters, splits and merges, and bulk writes over all slices.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence

import rowlock

from tests.soak.bulk_writes import BulkWrites
from tests.soak.drawn_cells import CellDraw
from tests.soak.model import JoinedModel
from tests.soak.region_changes import RegionChanges
from tests.soak.turnstile import Turnstile
from tests.soak.writer import Writer

# Alters change neither versions nor time to live. tests/property/test_altered_limits.py does, beside a model of them.
EXTRA = "x"
# Low, so that many compactions run, minor ones too.
PROPERTIES = {
    "compaction.minor_files_min": 2,
    "compaction.major_deltas": 6,
    "compaction.major_delta_share": 3,
    "compaction.major_dropped_share": 0.5,
    "compaction.files_max": 20,
    # Less than the warm-up, so that a table has as much of it at the beginning as at the end.
    "changes_retained_hours": 0.03,
}
_REPLACED_ROWS_MAX = 100


def families(time_to_live_ms: int, generator: random.Random | None = None) -> dict[str, rowlock.Family]:
    """Returns the families of the table, with the other settings drawn."""

    def family(versions: int, time_to_live_ms: int = 0) -> rowlock.Family:
        if generator is None:
            return rowlock.Family(versions=versions, time_to_live_ms=time_to_live_ms)
        return rowlock.Family(
            versions=versions,
            time_to_live_ms=time_to_live_ms,
            block_bytes=generator.choice([4096, 16384, 131072]),
            compression=generator.choice(["none", "lz4", "zstd"]),
            bloom_filter=generator.random() < 0.8,
        )

    return {"f": family(1), "g": family(3), "e": family(2, time_to_live_ms), "t": family(1)}


class Chores:
    """One thread that does them at random, and collects the compactions that have ended."""

    def __init__(
        self,
        client: rowlock.Client,
        table: str,
        writers: Sequence[Writer],
        turnstile: Turnstile,
        time_to_live_ms: int,
        generator: random.Random,
    ) -> None:
        self._client = client
        self._table = table
        self._writers = writers
        self._turnstile = turnstile
        self._time_to_live_ms = time_to_live_ms
        self._random = generator
        self._has_extra_family = False
        rows = [row for writer in writers for row in writer.rows]
        self._regions = RegionChanges(client, table, rows, generator)
        self._bulk_writes = BulkWrites(
            "all slices",
            table,
            rows,
            JoinedModel({writer.prefix: writer.model for writer in writers}),
            self._judge,
            CellDraw(generator, time_to_live_ms),
            generator,
            replaced_rows_max=_REPLACED_ROWS_MAX,
        )
        self._counts: Counter[str] = Counter()
        self.ended: dict[int, rowlock.Compaction] = {}
        self._actions: Sequence[tuple[int, Callable[[], None]]] = (
            (40, self._flush),
            (8, self._minor),
            (6, self._major),
            (4, self._cancel),
            (12, self._alter),
            (30, self._regions.change),
            (10, self._bulk_write),
        )

    @property
    def counts(self) -> Counter[str]:
        """How often each was done."""
        return self._counts + self._regions.counts + self._bulk_writes.counts

    @property
    def problems(self) -> Sequence[str]:
        return self._bulk_writes.problems

    def turn(self) -> None:
        """Does one of them, and pauses."""
        weights = [weight for weight, _ in self._actions]
        _, action = self._random.choices(self._actions, weights)[0]
        action()
        self.collect()
        time.sleep(self._random.uniform(0.1, 0.7))

    def collect(self) -> bool:
        """Remembers the compactions that have ended. Returns whether none waits or runs."""
        found = self._client.compactions(self._table)
        self.ended.update((each.compaction_id, each) for each in found if each.is_over)
        return all(each.is_over for each in found)

    def _flush(self) -> None:
        self._client.flush(self._table)
        self._counts["flushes by hand"] += 1

    def _minor(self) -> None:
        self._compact(major=False)

    def _major(self) -> None:
        self._compact(major=True)

    def _compact(self, *, major: bool) -> None:
        chosen = None if self._random.random() < 0.3 else [self._random.choice("fget")]
        self._client.compact(self._table, major=major, families=chosen)

    def _cancel(self) -> None:
        """Requests compactions and cancels them, in the queue or at work."""
        requested = self._client.compact(self._table, major=True)
        time.sleep(self._random.choice([0.0, 0.05]))
        self._client.cancel_compactions([each.compaction_id for each in requested])

    def _bulk_write(self) -> None:
        """Changes rows of all slices at one moment, or doesn't, while their writers stand still."""
        with self._turnstile.alone():
            self._bulk_writes.write(self._client)
        self._counts["bulk writes to all slices"] += 1

    def _judge(self, what: str, bounds: tuple[bytes, bytes]) -> None:
        for writer in self._writers:
            part = (max(bounds[0], writer.prefix), min(bounds[1], writer.prefix + b"\xff"))
            if part[0] < part[1]:
                writer.scan(part, what=f"{what} to all slices: ")

    def _alter(self) -> None:
        with self._turnstile.alone():
            self._random.choice([self._alter_families, self._alter_properties, self._alter_extra_family])()
        self._counts["alters"] += 1

    def _alter_families(self) -> None:
        chosen = families(self._time_to_live_ms, self._random)
        names = self._random.sample(sorted(chosen), 2)
        self._client.alter_table(self._table, set_families={name: chosen[name] for name in names})

    def _alter_properties(self) -> None:
        deltas, files_min = self._random.choice([3, 6, 9]), self._random.choice([2, 3, 4])
        properties = {
            "compaction.major_deltas": deltas,
            "compaction.minor_files_min": files_min,
            "compaction.major_delta_share": self._random.choice([0.3, 3, 10]),
        }
        self._client.alter_table(self._table, properties=properties)

    def _alter_extra_family(self) -> None:
        if self._has_extra_family:
            self._client.alter_table(self._table, drop_families=[EXTRA])
        else:
            self._client.alter_table(self._table, set_families={EXTRA: rowlock.Family()})
        self._has_extra_family = not self._has_extra_family
        for writer in self._writers:
            writer.has_extra_family = self._has_extra_family
            if not self._has_extra_family:
                writer.model.delete_families(EXTRA.encode())
