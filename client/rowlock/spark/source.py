"""The data source behind `format("rowlock")`.

Spark makes one on the driver for each load() or save(), asks it for the schema unless the user gave one, and pickles
it; from then on every scan that is planned begins with a copy of it. So what all scans share is drawn in __init__.
"""

from __future__ import annotations

from collections.abc import Mapping as Dict
from contextlib import suppress
from dataclasses import replace

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamWriter
from pyspark.sql.types import StructType
from pyspark_rowlock import DefaultSource

from rowlock.errors import FamilyNotFoundError, InvalidArgumentError, RowlockError
from rowlock.mapping import Mapping
from rowlock.spark.checking import CHECK_SCHEMA, OPTION, CheckReader
from rowlock.spark.connections import client_of
from rowlock.spark.explanations import explained
from rowlock.spark.frame import Frame, mapped_frame, plain_frame
from rowlock.spark.inference import inferred_mapping
from rowlock.spark.options import ReadOptions, read_options, server_of, timeout_of
from rowlock.spark.pushdown import rows_of
from rowlock.spark.read_points import LATEST_LEASE_MS, ReadPoint, new_read_point
from rowlock.spark.reader import Reading, RowlockReader
from rowlock.spark.streaming import CHECKPOINT, RefusingStreamReader, no_streaming
from rowlock.spark.write_options import write_options
from rowlock.spark.writer import RowlockWriter

_MAKING_S_MAX = 20.0


class RowlockSource(DefaultSource):
    """A table of a rowlock server, to read or to write."""

    def __init__(self, options: Dict[str, str]) -> None:
        self.options = {name.lower(): value for name, value in options.items()}
        self._inferred: Mapping | None = None
        self._drawn: ReadPoint | None = None
        if not self.options or self._is_check:
            # Of a table that CREATE TABLE made: schema, reader and writer say what to do. Or a check.
            return
        if CHECKPOINT in self.options:
            raise no_streaming()
        _check_either(self.options)
        server = server_of(self.options)
        try:
            self._drawn = new_read_point(client_of(server, self._patience_s))
        except RowlockError as error:
            raise explained(error, server, self.options.get("table", ""), self._patience_s) from None
        if "infer" in self.options:
            # Once, also where a schema of the user's keeps Spark from asking for ours. What is wrong is told when it is
            # read: a temporary view that is written to has no need of it.
            with suppress(RowlockError):
                self._infer(read_options(self.options))

    @property
    def _is_check(self) -> bool:
        """Whether check() asks. Beside other options it is none that a read has, and refused."""
        return self.options.keys() == {OPTION}

    @property
    def _patience_s(self) -> float:
        """How long making a DataFrame waits for a server; a plan or a task waits for the whole timeout."""
        return min(timeout_of(self.options), _MAKING_S_MAX)

    def schema(self) -> StructType:
        """Of all columns. Refuses here, when the DataFrame is made, what could not be read."""
        if self._is_check:
            return CHECK_SCHEMA
        options = read_options(self.options)
        frame = self._frame(options, self._patience_s)
        rows_of(frame, options)
        return frame.schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """schema: what schema() gave, or the user's choice of its columns."""
        if self._is_check:
            return CheckReader(self.options[OPTION])
        options = read_options(self.options)
        frame = self._frame(options, options.timeout_s)
        return RowlockReader(Reading(options, frame.narrowed(schema), rows_of(frame, options), self._point(options)))

    def writer(self, schema: StructType, overwrite: bool) -> RowlockWriter:
        return RowlockWriter(self.options, schema, overwrite)

    def streamReader(self, schema: StructType) -> RefusingStreamReader:  # noqa: N802
        return RefusingStreamReader()

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        raise no_streaming()

    def _frame(self, options: ReadOptions, waits_s: float) -> Frame:
        try:
            frame = self._wanted(options)
            families = client_of(options.server, waits_s).describe(options.table).families
        except RowlockError as error:
            raise explained(error, options.server, options.table, waits_s) from None
        missing = sorted(family.decode() for family in frame.families if family.decode() not in families)
        if missing:
            raise FamilyNotFoundError(
                f"the mapping names {', '.join(map(repr, missing))}, which is no family of table {options.table!r}; "
                f"its families are {', '.join(sorted(families))}",
                table=options.table,
            )
        return frame

    def _wanted(self, options: ReadOptions) -> Frame:
        mapping = options.mapping if options.infer_rows is None else self._inferred or self._infer(options)
        if mapping is None:
            return plain_frame()
        return mapped_frame(mapping, options.timestamps, options.malformed_is_null)

    def _infer(self, options: ReadOptions) -> Mapping:
        client = client_of(options.server, self._patience_s)
        self._inferred = inferred_mapping(client.table(options.table), options)
        return self._inferred

    def _point(self, options: ReadOptions) -> ReadPoint:
        if options.snapshot_id is not None:
            return ReadPoint(options.snapshot_id, "", is_held=True)
        assert self._drawn is not None, self.options
        return replace(self._drawn, lease_ms=LATEST_LEASE_MS) if options.is_latest else self._drawn


def _check_either(options: Dict[str, str]) -> None:
    """Raises InvalidArgumentError for options that neither reading nor writing takes: which it will be is not known.

    A schema that the user gives keeps Spark from asking for ours: what is wrong is found here or much later.
    """
    try:
        read_options(options)
    except InvalidArgumentError:
        try:
            write_options(options)
        except InvalidArgumentError:
            pass
        else:
            return
        raise
