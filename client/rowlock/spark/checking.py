"""Whether a session's Python processes, on the driver and on the executors, can read and write tables.

They are asked in the way that a read goes: by the format, with a source that answers what its processes are like
(`CheckReader`). Where that fails, a function that needs no rowlock tells which Python the executors run.
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
"""Of the format: what it reads then is what its processes are like. Its value is JSON of `Asked`."""
CHECK_SCHEMA = StructType([StructField("place", StringType())])
_TIMEOUT_S = 10.0
# Of each slot, in case that a slot is slow to come.
_TASKS_A_SLOT = 2


@dataclass(frozen=True, slots=True)
class Asked:
    """What a check asks for."""

    server: str | None
    task_count: int
    timeout_s: float


@dataclass
class CheckPartition(InputPartition):
    """One task. planning: what the process that planned it is like, in the first."""

    planning: str | None


class CheckReader(DataSourceReader):
    """A row for each task: what its process is like."""

    def __init__(self, option: str) -> None:
        self._asked = Asked(**json.loads(option))

    def partitions(self) -> list[InputPartition]:
        asked = self._asked
        planning = probe.probed("planning", asked.server, asked.timeout_s)
        return [CheckPartition(planning), *(CheckPartition(None) for _ in range(asked.task_count - 1))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, CheckPartition), partition
        told = [probe.probed("executor", self._asked.server, self._asked.timeout_s)]
        if partition.planning is not None:
            told.append(partition.planning)
        yield pa.RecordBatch.from_pydict({"place": told}, schema=pa.schema([("place", pa.string())]))


def check(spark: SparkSession, server: str | None = None, *, timeout: float = _TIMEOUT_S) -> Report:
    """Which Python and which versions the driver and each executor run, and whether they reach the server.

        print(rowlock.spark.check(spark, "db:7460"))

    Runs a few short tasks on each executor that has a free core. server None: the environment's ROWLOCK_SERVER, or none
    is asked. timeout: seconds for reaching it. Nothing is read or written.
    """
    address = _address(server)
    asked = Asked(address, _TASKS_A_SLOT * _slot_count(spark), timeout)
    driver = place_of(probe.probed("driver", address, timeout))
    failure, told = "", []
    try:
        frame = spark.read.format("rowlock").option(OPTION, json.dumps(asdict(asked))).load()
        told = [row["place"] for row in frame.collect()]
    except Exception as error:  # Spark raises errors of many classes
        failure = f'a read by format("rowlock") fails: {_reason(error)}'
        told = _asked_without_rowlock(spark, asked)
    places = sorted(map(place_of, told), key=lambda place: (place.place != "planning", place.host, place.folder))
    problems = [failure, *_traps(places)] if failure else _traps(places)
    return report_of([driver, *places], problems)


def _traps(places: Sequence[Place]) -> list[str]:
    """What goes well here, and will not where executors have no Python of the driver's."""
    drivers, executors = (os.environ.get(name) for name in ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON"))
    if not drivers or not executors or drivers == executors:
        return []
    if all(place.python != shutil.which(drivers) for place in places if place.place == "executor"):
        return []
    return [
        f"executors run the driver's Python, {drivers}, and not {executors}: Spark starts the workers of a format that "
        "it has found by itself with PYSPARK_DRIVER_PYTHON. Call rowlock.spark.configure(spark), or leave that unset"
    ]


def _address(server: str | None) -> str | None:
    try:
        return ",".join(given_addresses(server))
    except InvalidArgumentError:
        if server is not None:
            raise
        return None


def _slot_count(spark: SparkSession) -> int:
    """How many tasks run at a time, as Spark cuts what has no parts of its own."""
    return spark.range(0, 1 << 20).selectExpr("spark_partition_id() AS part").distinct().count()


def _asked_without_rowlock(spark: SparkSession, asked: Asked) -> list[str]:
    """What executors tell that may have no rowlock; nothing if they have not even what Spark needs."""
    server, timeout_s = asked.server, asked.timeout_s
    probed = probe.probed

    def tell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow

        for _ in batches:
            yield pyarrow.RecordBatch.from_pydict({"place": [probed("executor", server, timeout_s)]})

    # Else it would be looked for in rowlock, where it comes from.
    modules = [probe, sys.modules[__name__]]
    pickling: Any = cloudpickle  # Any: it has no types
    for module in modules:
        pickling.register_pickle_by_value(module)
    try:
        frame = spark.range(asked.task_count, numPartitions=asked.task_count).mapInArrow(tell, CHECK_SCHEMA)
        return [row["place"] for row in frame.collect()]
    except Exception:  # the read has failed as well, and check() reports that
        return []
    finally:
        for module in modules:
            pickling.unregister_pickle_by_value(module)


def _reason(error: Exception) -> str:
    """The line that says it, of a text that has tracebacks of Python and of Java around it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if _TELLING.match(line)]
    if not telling:
        return (lines or [type(error).__name__])[0]
    return telling[-1 if any(line.endswith(_PYTHON_TRACEBACK) for line in lines) else 0].lstrip(": ")


_TELLING = re.compile(r"(: )?[\w.]+(Error|Exception): ")
_PYTHON_TRACEBACK = "Traceback (most recent call last):"
