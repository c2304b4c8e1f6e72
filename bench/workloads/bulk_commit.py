"""How long the commit of a large bulk write takes, and how much memory the server has needed for all of it.

A GiB is staged into eight regions, in batches that each have rows of all regions, so that every region merges what it
gets. The commit is measured from its call to its answer, when the last batch has been staged.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import rowlock

from bench.bench import Bench
from bench.measure import Measurement, Spread
from bench.targets.compactions import ONLY_ON_REQUEST
from bench.targets.messages import FAMILY, row_key
from bench.targets.rowlock import running_rowlock

_BYTES = 1 << 30
_VALUE_BYTES = 1000
_CHUNK_ROWS = 32_000
_REGIONS = 8
_ROUNDS_MAX = 3
_MAPPING = f"id BINARY :key, v BINARY {FAMILY.decode()}:v"


def commit(bench: Bench) -> Measurement:
    """Measures the seconds of the commit of a GiB over eight regions."""
    row_count = bench.scaled(_BYTES // _VALUE_BYTES, at_least=10 * _REGIONS)
    commit_s: list[float] = []
    staging_s: list[float] = []
    resident_mib: list[float] = []
    for _ in range(min(bench.rounds, _ROUNDS_MAX)):
        with running_rowlock(bench.fresh_folder("bulk-commit")) as server:
            splits = [row_key(row_count * place // _REGIONS) for place in range(1, _REGIONS)]
            server.client.create_table("t", [FAMILY.decode()], properties=ONLY_ON_REQUEST, splits=splits)
            staging, committing = _written(server.client, row_count)
            staging_s.append(staging)
            commit_s.append(committing)
            resident_mib.append(server.process.peak_resident_mib())
            found = server.client.table("t").count()
            assert found == row_count, (found, row_count)
    return Measurement(
        Spread.of(commit_s),
        {
            "s until the last batch was staged": Spread.of(staging_s),
            "MiB of values": Spread.of([row_count * _VALUE_BYTES / (1 << 20)]),
            "MiB resident at most": Spread.of(resident_mib),
        },
    )


def _written(client: rowlock.Client, row_count: int) -> tuple[float, float]:
    """Makes the bulk write; returns the seconds of its staging and of its commit."""
    generator = np.random.default_rng(1)
    chunk_count = -(-row_count // _CHUNK_ROWS)
    began = time.perf_counter()
    with client.bulk_write("t") as write:
        for chunk in range(chunk_count):
            keys = [row_key(number) for number in range(chunk, row_count, chunk_count)]
            values = pa.Array.from_buffers(
                pa.binary(_VALUE_BYTES),
                len(keys),
                [None, pa.py_buffer(generator.bytes(_VALUE_BYTES * len(keys)))],
            )
            rows = pa.table({"id": pa.array(keys, pa.binary()), "v": values.cast(pa.binary())})
            write.write(rows, mapping=_MAPPING)
        staged = time.perf_counter()
        write.commit()
        return staged - began, time.perf_counter() - staged
