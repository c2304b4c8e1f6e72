"""The jobs for a server of little memory: each fills a table, and later checks that the table is complete.

Jobs are deterministic, and so are the sums that they must add up to. Their sizes are those at which servers of earlier
versions were killed; `share` reduces them.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import rowlock

CLIENT_SECONDS = 600.0
_MAPPING = "id STRING :key, v BIGINT f:v"
_BYTES_MAPPING = "id BINARY :key, v BINARY f:v"
# Of the small rows: keys are out of order, and a row of the file has 18 bytes.
_KEY_STEP, _KEY_MOST, _VALUE_MOST = 7919, 100_000_007, 10_000_000
_CSV_BATCH, _LOAD_BATCH, _PUT_BATCH = 100_000, 20_000, 500
_ROUNDS, _PUTTERS = 10, 4
_LARGE_VALUE_BYTES = 1000
# Fewer rows than a block has.
_GET_STEP = 100


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a table: its number of rows, and a sum over their values."""

    rows: int
    total: int


@dataclass(frozen=True, slots=True)
class Place:
    """The server and the folder of a job."""

    address: str
    client: rowlock.Client
    folder: Path


@dataclass(frozen=True, slots=True)
class Job:
    """A job: `run` does the work, `found` reads the contents by one scan, which must equal `expected`."""

    run: Callable[[Place], None]
    found: Callable[[rowlock.Client], Contents]
    expected: Contents


def import_of_small_rows(share: float) -> Job:
    """`rowlock import` of a CSV file of 215 MB with 12 million rows, by the command."""
    count = int(12_000_000 * share)

    def run(place: Place) -> None:
        _import(place, count)

    return Job(run, _sum_of_numbers, _contents_of_csv(count))


def overwriting(share: float) -> Job:
    """100,000 rows of 1 KB, by batches of puts of four threads, ten times over."""
    count = int(100_000 * share)

    def run(place: Place) -> None:
        table = place.client.create_table("t", ["f"], durability="os")

        def put(first: int) -> None:
            for round_number in range(_ROUNDS):
                value = bytes([round_number]) * _LARGE_VALUE_BYTES
                with table.batch(size=_PUT_BATCH) as batch:
                    for number in range(first, count, _PUTTERS):
                        batch.put(b"%09d" % number, {b"f:v": value})

        _side_by_side(put, _PUTTERS)

    return Job(run, _sum_of_bytes, Contents(count, count * (_ROUNDS - 1)))


def scans(share: float) -> Job:
    """64 concurrent complete scans of a table of two million small rows, each with a mapping."""
    count = int(2_000_000 * share)
    expected = _contents_of_csv(count)

    def run(place: Place) -> None:
        _import(place, count)

        def scan(_: int) -> None:
            with rowlock.connect(place.address, timeout=CLIENT_SECONDS) as another:
                found = _sum_of_numbers(another)
            assert found == expected, (found, expected)

        _side_by_side(scan, 64)

    return Job(run, _sum_of_numbers, expected)


def load(share: float) -> Job:
    """`put_arrow` of 3 GB: three million rows of 1 KB, whose keys are out of order in each batch."""
    count = int(3_000_000 * share)

    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, count, _LOAD_BATCH):
            numbers = list(range(first, min(count, first + _LOAD_BATCH)))
            random.Random(first).shuffle(numbers)
            values = [bytes([number % 10]) * _LARGE_VALUE_BYTES for number in numbers]
            yield pa.record_batch({"id": [b"%010d" % number for number in numbers], "v": values})

    def run(place: Place) -> None:
        place.client.create_table("t", ["f"]).put_arrow(batches(), _BYTES_MAPPING)

    return Job(run, _sum_of_bytes, Contents(count, sum(number % 10 for number in range(count))))


def gets(share: float) -> Job:
    """Gets from all blocks of a table of 400 MB, which fill the block cache, and then beside overwriting and scans."""
    count = int(400_000 * share)

    def run(place: Place) -> None:
        table = place.client.create_table("t", ["f"], durability="os")
        table.put_arrow(_rows_of(0, range(count)), _BYTES_MAPPING)
        place.client.flush("t")

        def get_everywhere() -> None:
            for number in range(0, count, _GET_STEP):
                value = table.row(b"%010d" % number)[b"f:v"]
                assert value == value[:1] * _LARGE_VALUE_BYTES, value[:20]

        def work(thread: int) -> None:
            if thread < _PUTTERS:
                for first in range(thread * _PUT_BATCH, count, _PUTTERS * _PUT_BATCH):
                    with table.batch(size=_PUT_BATCH) as batch:
                        for number in range(first, min(first + _PUT_BATCH, count)):
                            batch.put(b"%010d" % number, {b"f:v": bytes([1]) * _LARGE_VALUE_BYTES})
            elif thread == _PUTTERS:
                table.put_arrow(_rows_of(2, range(count, 2 * count)), _BYTES_MAPPING)
            elif thread == _PUTTERS + 1:
                get_everywhere()
            else:
                _sum_of_bytes(place.client)

        get_everywhere()
        _side_by_side(work, _PUTTERS + 10)
        get_everywhere()

    return Job(run, _sum_of_bytes, Contents(2 * count, 3 * count))


def _rows_of(value: int, numbers: range) -> Iterator[pa.RecordBatch]:
    """Yields rows of 1 KB that all have one value, in batches."""
    for first in range(0, len(numbers), _LOAD_BATCH):
        some = numbers[first : first + _LOAD_BATCH]
        values = [bytes([value]) * _LARGE_VALUE_BYTES] * len(some)
        yield pa.record_batch({"id": [b"%010d" % number for number in some], "v": values})


def _write_csv(path: Path, count: int) -> None:
    with open(path, "w") as file:
        file.write("id,v\n")
        for first in range(0, count, _CSV_BATCH):
            numbers = range(first, min(count, first + _CSV_BATCH))
            file.writelines(f"{n * _KEY_STEP % _KEY_MOST:09d},{n % _VALUE_MOST}\n" for n in numbers)


def _contents_of_csv(count: int) -> Contents:
    assert count < _KEY_MOST, "keys would come twice"
    return Contents(count, sum(number % _VALUE_MOST for number in range(count)))


def _import(place: Place, count: int) -> None:
    file = place.folder / "rows.csv"
    _write_csv(file, count)
    place.client.create_table("t", ["f"])
    command = [str(Path(sys.executable).parent / "rowlock"), "--server", place.address]
    done = subprocess.run([*command, "import", "t", str(file), "-m", _MAPPING], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _side_by_side(work: Callable[[int], None], count: int) -> None:
    """Runs work(0) to work(count - 1), each on a thread; raises the first exception."""
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def _sum_of_numbers(client: rowlock.Client) -> Contents:
    rows = total = 0
    for batch in client.table("t").scan().to_batches(_MAPPING):
        rows += batch.num_rows
        total += pc.sum(batch["v"]).as_py() or 0
    return Contents(rows, total)


def _sum_of_bytes(client: rowlock.Client) -> Contents:
    """Returns the sum of the bytes of values that repeat one byte."""
    rows = total = 0
    for batch in client.table("t").scan().to_batches(_BYTES_MAPPING):
        rows += batch.num_rows
        for value, count in Counter(batch["v"].to_pylist()).items():
            assert isinstance(value, bytes)
            assert value == value[:1] * _LARGE_VALUE_BYTES, value[:20]
            total += value[0] * count
    return Contents(rows, total)
