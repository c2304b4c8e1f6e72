"""The time to ready after a crash, with all writes since the last flush in the log."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import rowlock

from bench.bench import Bench
from bench.measure import Measurement, Spread
from bench.processes import start_rowlock
from bench.targets.messages import FAMILY, QUALIFIER, VALUE_BYTES, row_key
from bench.targets.rowlock import running_rowlock

_LOG_BYTES = 100_000_000
# Rows of a batch: each is a log record of its own, and one sync serves the whole batch.
_SEND_ROWS = 1000
_TABLE = "logged"
_COLUMN = FAMILY + b":" + QUALIFIER
_NEVER_FLUSH = "memstore_flush_bytes=1024GiB"

# Adds the change with this number to a batch.
AddChange = Callable[[rowlock.Batch[bytes], int], None]


def of_puts(bench: Bench) -> Measurement:
    """Measures recovery from a log of puts of 1 KiB, each to a different row."""
    data = {_COLUMN: random.Random(1).randbytes(VALUE_BYTES)}
    return _recovery(bench, lambda batch, number: batch.put(row_key(number), data))


def of_increments(bench: Bench) -> Measurement:
    """Measures recovery from a log of increments of a thousand rows: small records, and rows that change often."""
    return _recovery(bench, lambda batch, number: batch.increment(row_key(number % _SEND_ROWS), _COLUMN))


def _recovery(bench: Bench, add_change: AddChange) -> Measurement:
    folder = bench.fresh_folder("recovery")
    log_bytes_wanted = bench.scaled(_LOG_BYTES)
    with running_rowlock(folder, _NEVER_FLUSH) as server:
        table = server.store(_TABLE).table
        record_count = _fill_log(table, folder / "data", log_bytes_wanted, add_change)
        server.process.kill()
    log_bytes = bytes_written(folder / "data")
    assert log_bytes >= log_bytes_wanted, f"the log has only {log_bytes} bytes"
    samples, computed = [], []
    for number in range(min(bench.rounds, 3)):
        # A new copy for each start, because a recovered server may flush and change its log.
        copy = folder / f"copy-{number}"
        shutil.copytree(folder / "data", copy, ignore=shutil.ignore_patterns("direct"))
        with start_rowlock(copy) as recovered:
            samples.append(recovered.ready_seconds)
            computed.append(recovered.ready_cpu_seconds)
        shutil.rmtree(copy)
    return Measurement(
        Spread.of(samples),
        {
            "s computing": Spread.of(computed),
            "records": Spread.of([record_count]),
            "MB of log": Spread.of([log_bytes / 1e6]),
        },
    )


def bytes_written(folder: Path) -> int:
    """Returns the bytes of the folder's files without trailing zeros, which are preallocated space."""
    return sum(len(path.read_bytes().rstrip(b"\0")) for path in folder.rglob("*") if path.is_file())


def _fill_log(table: rowlock.Table[bytes], data: Path, byte_count: int, add_change: AddChange) -> int:
    """Makes acknowledged changes until the log has `byte_count`; returns their number."""
    done, wanted = 0, _SEND_ROWS
    while done < wanted:
        with table.batch(size=_SEND_ROWS) as batch:
            for number in range(done, wanted):
                add_change(batch, number)
        done = wanted
        # Estimates the missing changes from the size of those so far, and adds a few.
        written = bytes_written(data)
        if written < byte_count:
            missing = 1.01 * (byte_count - written) * done / written
            wanted = done + _SEND_ROWS * (int(missing / _SEND_ROWS) + 1)
    return done
