"""Checks whether a session's Python processes, on the driver and on the executors, can read and write tables.

The check takes the path of a read: through the format, with a source whose rows describe its processes
(`CheckReader`). If that fails, a function that needs no rowlock reports which Python the executors run.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from rowlock._transport.channels import given_addresses
from rowlock.errors import InvalidArgumentError
from rowlock.spark import probe
from rowlock.spark.report import Place, Report, place_of, report_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTION = "check"
"""An option of the format: its rows describe the processes. The value is JSON of `CheckRequest`."""
CHECK_SCHEMA = StructType([StructField("place", StringType())])
_TIMEOUT_S = 10.0
# More than one, in case that an executor starts slowly.
_TASKS_PER_SLOT = 2


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """The parameters of a check."""

    server: str | None
    task_count: int
    timeout_s: float


@dataclass
class CheckPartition(InputPartition):
    """One task. planning: in the first, the description of the process that planned it; else None."""

    planning: str | None


class CheckReader(DataSourceReader):
    """Reads a row for each task, which describes its process."""

    def __init__(self, option: str) -> None:
        self._request = CheckRequest(**json.loads(option))

    def partitions(self) -> list[InputPartition]:
        request = self._request
        planning = probe.describe_process("planning", request.server, request.timeout_s)
        return [CheckPartition(planning), *(CheckPartition(None) for _ in range(request.task_count - 1))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, CheckPartition), partition
        places = [probe.describe_process("executor", self._request.server, self._request.timeout_s)]
        if partition.planning is not None:
            places.append(partition.planning)
        yield pa.RecordBatch.from_pydict({"place": places}, schema=pa.schema([("place", pa.string())]))


def check(spark: SparkSession, server: str | None = None, *, timeout: float = _TIMEOUT_S) -> Report:
    """Reports which Python and which versions the driver and each executor run, and whether they reach the server.

        print(rowlock.spark.check(spark, "db:7460"))

    Runs a few short tasks on each executor that has a free core. Reads and writes no data. server: by default
    ROWLOCK_SERVER of the environment; without either no server is contacted. timeout: seconds to wait for the server.
    """
    address = _address(server)
    request = CheckRequest(address, _TASKS_PER_SLOT * _slot_count(spark), timeout)
    driver = place_of(probe.describe_process("driver", address, timeout))
    failure, described = "", []
    try:
        frame = spark.read.format("rowlock").option(OPTION, json.dumps(asdict(request))).load()
        described = [row["place"] for row in frame.collect()]
    except Exception as error:  # Spark raises errors of many classes
        failure = f'a read by format("rowlock") fails: {_reason(error)}'
        described = _describe_without_rowlock(spark, request)
    places = sorted(map(place_of, described), key=lambda place: (place.place != "planning", place.host, place.folder))
    problems = [failure, *_python_problems(places)] if failure else _python_problems(places)
    return report_of([driver, *places], problems)


def _python_problems(places: Sequence[Place]) -> list[str]:
    """Returns a problem that shows only where executors don't have the driver's Python."""
    drivers, executors = (os.environ.get(name) for name in ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON"))
    if not drivers or not executors or drivers == executors:
        return []
    if all(place.python != shutil.which(drivers) for place in places if place.place == "executor"):
        return []
    return [
        f"executors run the driver's Python, {drivers}, instead of {executors}: Spark uses PYSPARK_DRIVER_PYTHON for "
        "the workers of a format that it found by itself. Call rowlock.spark.configure(spark), or unset that variable"
    ]


def _address(server: str | None) -> str | None:
    try:
        return ",".join(given_addresses(server))
    except InvalidArgumentError:
        if server is not None:
            raise
        return None


def _slot_count(spark: SparkSession) -> int:
    """Returns how many tasks run at a time: the number of partitions that spark.range gets by default."""
    return spark.range(0, 1 << 20).selectExpr("spark_partition_id() AS part").distinct().count()


def _describe_without_rowlock(spark: SparkSession, request: CheckRequest) -> list[str]:
    """Describes executors that may lack rowlock. Returns nothing if they lack packages that Spark needs."""
    server, timeout_s = request.server, request.timeout_s
    describe_process = probe.describe_process

    def describe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow

        for _ in batches:
            yield pyarrow.RecordBatch.from_pydict({"place": [describe_process("executor", server, timeout_s)]})

    # By reference, the executor would import it from rowlock.
    modules = [probe, sys.modules[__name__]]
    pickling: Any = cloudpickle  # Any: it has no types
    for module in modules:
        pickling.register_pickle_by_value(module)
    try:
        frame = spark.range(request.task_count, numPartitions=request.task_count).mapInArrow(describe, CHECK_SCHEMA)
        return [row["place"] for row in frame.collect()]
    except Exception:  # check() reports the failure of the read
        return []
    finally:
        for module in modules:
            pickling.unregister_pickle_by_value(module)


def _reason(error: Exception) -> str:
    """Returns the line with the error, from a text with tracebacks of Python and of Java."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR_LINE.match(line)]
    if not errors:
        return (lines or [type(error).__name__])[0]
    return errors[-1 if any(line.endswith(_PYTHON_TRACEBACK) for line in lines) else 0].lstrip(": ")


_ERROR_LINE = re.compile(r"(: )?[\w.]+(Error|Exception): ")
_PYTHON_TRACEBACK = "Traceback (most recent call last):"
