"""How long writes wait while another table is flushed.

The sync of a large file makes the syncs of all other files wait, those of the log too. The pause of a flush is that of
the slowest write that overlaps it.
"""

from __future__ import annotations

import random
import time

from bench.bench import Bench
from bench.measure import Measurement
from bench.targets.compactions import ONLY_ON_REQUEST
from bench.targets.messages import FAMILY, VALUE_BYTES, row_key
from bench.targets.rowlock import RowlockStore, running_rowlock
from bench.workloads.write_pauses import CALM_SECONDS, SYNCS_MEASURED, against_syncs, during, sync_ms, writing

_ROWS = 10_000
# Of the table that is flushed: 60 MB. Compression can't shorten random values.
_FLUSHED_ROWS = 60_000
_FLUSHED_VALUE_BYTES = 1000
_ROUNDS = 20


def flush(bench: Bench) -> Measurement:
    """Measures the 99th percentile of the pause of writes, against 20 ms and three syncs."""
    row_count = bench.scaled(_ROWS, at_least=1000)
    folder = bench.fresh_folder("flush-pause")
    choice = random.Random(1)
    pauses_ms: list[float] = []
    syncs_ms: list[float] = []
    with running_rowlock(folder) as server:
        client = server.client
        for name in ("written", "flushed"):
            client.create_table(name, [FAMILY.decode()], properties=ONLY_ON_REQUEST)
        store = RowlockStore(client.table("written"))
        store.fill(row_count, bytes(VALUE_BYTES))
        client.flush("written")
        with writing(store, row_count) as writes:
            for _ in range(bench.scaled(_ROUNDS, at_least=1)):
                with client.table("flushed").batch(size=1000) as batch:
                    for number in range(bench.scaled(_FLUSHED_ROWS, at_least=1000)):
                        batch.put(row_key(number), {FAMILY + b":q": choice.randbytes(_FLUSHED_VALUE_BYTES)})
                time.sleep(CALM_SECONDS)
                syncs_ms += [sync_ms(folder) for _ in range(SYNCS_MEASURED)]
                writes.clear()
                taken = during(writes, lambda: client.flush("flushed"))
                pauses_ms.append(max(write.ms for write in taken))
                client.truncate_table("flushed")
    return against_syncs(pauses_ms, "ms pause of a flush", syncs_ms)
