"""How long writes wait while a named snapshot of their table is taken.

The table has several regions, and all their gates are held for the moment of the cut. The pause of a snapshot is that
of the slowest write that overlaps it.
"""

from __future__ import annotations

import time

from bench.bench import Bench
from bench.measure import Measurement
from bench.targets.compactions import ONLY_ON_REQUEST
from bench.targets.messages import FAMILY, VALUE_BYTES, row_key
from bench.targets.rowlock import RowlockStore, running_rowlock
from bench.workloads.write_pauses import CALM_SECONDS, SYNCS_MEASURED, against_syncs, during, sync_ms, writing

_ROWS = 100_000
_REGIONS = 4
_ROUNDS = 50
# Else each snapshot would leave more files to link.
_COMPACTED_EVERY = 5


def create(bench: Bench) -> Measurement:
    """Measures the 99th percentile of the pause of writes, against 20 ms and three syncs a region."""
    row_count = bench.scaled(_ROWS, at_least=1000)
    folder = bench.fresh_folder("snapshot-pause")
    pauses_ms: list[float] = []
    syncs_ms: list[float] = []
    with running_rowlock(folder) as server:
        client = server.client
        splits = [row_key(row_count * place // _REGIONS) for place in range(1, _REGIONS)]
        client.create_table("t", [FAMILY.decode()], properties=ONLY_ON_REQUEST, splits=splits)
        store = RowlockStore(client.table("t"))
        store.fill(row_count, bytes(VALUE_BYTES))
        client.flush("t")
        with writing(store, row_count) as writes:
            for number in range(bench.scaled(_ROUNDS, at_least=1)):
                time.sleep(CALM_SECONDS)
                syncs_ms += [sync_ms(folder) for _ in range(SYNCS_MEASURED)]
                taken = during(writes, lambda: client.create_snapshot("s", "t"))
                pauses_ms.append(max(write.ms for write in taken))
                writes.clear()
                client.drop_snapshot("s")
                if number % _COMPACTED_EVERY == _COMPACTED_EVERY - 1:
                    client.compact("t", major=True, wait=True)
    return against_syncs(pauses_ms, "ms pause of a snapshot", syncs_ms, _REGIONS)
