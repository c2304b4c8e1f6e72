"""The data source behind `format("rowlock")`.

Spark creates a source on the driver for each load() or save(), requests the schema unless the user gave one, and
pickles it. Each scan is planned with a copy of it. So __init__ draws the state that all scans share.
"""

from __future__ import annotations

from collections.abc import Mapping as Dict
from contextlib import suppress
from dataclasses import replace

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamWriter
from pyspark.sql.types import StructType
from pyspark_rowlock import DefaultSource

from rowlock._core.kept_mapping import agreed
from rowlock._transport.kept_mapping import kept_mapping_text
from rowlock.client import Client
from rowlock.errors import FamilyNotFoundError, InvalidArgumentError, RowlockError, TableNotFoundError
from rowlock.mapping import Mapping, parsed_kept
from rowlock.spark.checking import CHECK_SCHEMA, OPTION, CheckReader
from rowlock.spark.connections import client_of
from rowlock.spark.explanations import explained
from rowlock.spark.frame import Frame, count_frame, mapped_frame, plain_frame
from rowlock.spark.inference import inferred_mapping
from rowlock.spark.options import ReadOptions, read_options, server_of, table_to_read, timeout_of
from rowlock.spark.pushdown import rows_of
from rowlock.spark.reader import Reading, RowlockReader
from rowlock.spark.snapshots import LATEST_LEASE_MS, SnapshotRef, check_named_snapshot, new_snapshot_ref
from rowlock.spark.streaming import CHECKPOINT, RefusingStreamReader, no_streaming
from rowlock.spark.worker_process import exclude_modules
from rowlock.spark.write_options import write_options
from rowlock.spark.writer import RowlockWriter

# How long making a DataFrame waits for an unreachable server.
_LOAD_S_MAX = 20.0


class RowlockSource(DefaultSource):
    """A table of a rowlock server, to read or to write."""

    def __init__(self, options: Dict[str, str]) -> None:
        self.options = {name.lower(): value for name, value in options.items()}
        self._inferred: Mapping | None = None
        # The mapping that the table kept when the DataFrame was made; it stays the DataFrame's.
        self._kept_text = ""
        self._snapshot: SnapshotRef | None = None
        if not self.options or self._is_check:
            # Without options it is a table of CREATE TABLE: schema, reader and writer report what to do.
            return
        if CHECKPOINT in self.options:
            raise no_streaming()
        _check_either(self.options)
        server = server_of(self.options)
        try:
            client = client_of(server, self._patience_s)
            self._snapshot = new_snapshot_ref(client)
            if not {"mapping", "infer"} & self.options.keys():
                self._kept_text = _kept_mapping_text(client, table_to_read(self.options), self._patience_s)
        except RowlockError as error:
            raise explained(error, server, self.options.get("table", ""), self._patience_s) from None
        if "infer" in self.options:
            # Infer once, even if the user gives a schema and Spark does not request ours. The read raises the errors: a
            # temporary view that is only written needs no inferred mapping.
            with suppress(RowlockError):
                self._infer(read_options(self.options))
        exclude_modules()

    @property
    def _is_check(self) -> bool:
        """Whether check() created this source. Besides other options the option is unknown, and refused."""
        return self.options.keys() == {OPTION}

    @property
    def _patience_s(self) -> float:
        """How long making a DataFrame waits for a server. A plan or a task waits for the full timeout."""
        return min(timeout_of(self.options), _LOAD_S_MAX)

    def schema(self) -> StructType:
        """Returns the schema of all columns. Raises, when the DataFrame is made, the errors that a read would raise."""
        if self._is_check:
            return CHECK_SCHEMA
        options = read_options(self.options)
        frame = self._frame(options, self._patience_s)
        rows_of(frame, options)
        return _returned(frame, options).schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """schema: that of schema(), or the user's selection of its columns."""
        if self._is_check:
            return CheckReader(self.options[OPTION])
        options = read_options(self.options)
        frame = self._frame(options, options.timeout_s)
        exclude_modules()
        return RowlockReader(
            Reading(
                options,
                _returned(frame, options).narrowed(schema),
                rows_of(frame, options),
                self._snapshot_of(options),
            )
        )

    def writer(self, schema: StructType, overwrite: bool) -> RowlockWriter:
        return RowlockWriter(self.options, schema, overwrite)

    def streamReader(self, schema: StructType) -> RefusingStreamReader:  # noqa: N802
        return RefusingStreamReader()

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        raise no_streaming()

    def _frame(self, options: ReadOptions, wait_s: float) -> Frame:
        try:
            client = client_of(options.server, wait_s)
            check_named_snapshot(client, options)
            table = client.describe(options.table)
            frame = self._requested_frame(options, table.mapping_text)
            families = table.families
        except RowlockError as error:
            raise explained(error, options.server, options.table, wait_s) from None
        missing = sorted(family.decode() for family in frame.families if family.decode() not in families)
        if missing:
            raise FamilyNotFoundError(
                f"the mapping names {', '.join(map(repr, missing))}, which is not a family of table {options.table!r}; "
                f"its families are {', '.join(sorted(families))}",
                table=options.table,
            )
        return frame

    def _requested_frame(self, options: ReadOptions, kept_text: str) -> Frame:
        mapping: Mapping | None = None
        if options.infer_rows is not None:
            mapping = self._inferred or self._infer(options)
        elif options.mapping is not None:
            mapping = agreed(options.mapping, kept_text, options.table)
        elif options.uses_kept_mapping and self._kept_text:
            # Also if the table's has changed since: it reads what was written before.
            mapping = parsed_kept(self._kept_text, options.table)
        if mapping is None:
            if options.timestamps:
                raise InvalidArgumentError(
                    "the option timestamps names columns of a mapping, but there is no mapping; set the option mapping"
                )
            return plain_frame()
        return mapped_frame(mapping, options.timestamps, options.malformed_is_null)

    def _infer(self, options: ReadOptions) -> Mapping:
        client = client_of(options.server, self._patience_s)
        self._inferred = inferred_mapping(client.table(options.table), options)
        return self._inferred

    def _snapshot_of(self, options: ReadOptions) -> SnapshotRef:
        if options.snapshot_id is not None:
            return SnapshotRef(options.snapshot_id, "", is_held=True)
        assert self._snapshot is not None, self.options
        return replace(self._snapshot, lease_ms=LATEST_LEASE_MS) if options.is_latest else self._snapshot


def _kept_mapping_text(client: Client, table: str, timeout_s: float) -> str:
    """Returns the mapping that the table keeps; empty if it keeps none, or does not exist yet."""
    try:
        # A client's servers are private to the package. The client lives as long as the process, and so does its cache.
        client._servers.regions.forget_table(table)
        return kept_mapping_text(client._servers, table, timeout_s)
    except TableNotFoundError:
        return ""


def _returned(frame: Frame, options: ReadOptions) -> Frame:
    return count_frame(frame) if options.is_count else frame


def _check_either(options: Dict[str, str]) -> None:
    """Raises InvalidArgumentError for options that are invalid both for a read and for a write.

    It is not known yet which of them follows. If the user gives a schema, Spark does not request ours, and an error
    that is not found here appears much later.
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
