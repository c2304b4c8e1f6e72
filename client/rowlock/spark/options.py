r"""The options of `spark.read.format("rowlock")`, checked when a DataFrame is made.

server           host:port or unix:PATH, several separated by commas; default: the driver's ROWLOCK_SERVER
table            the table's name; the same as load("table")
mapping          the DataFrame's columns as a rowlock.Mapping; default: the mapping that the table keeps. If it keeps
                 none, or with the value none: row binary, columns map<string,binary>
infer            infer a mapping from this many rows
start, stop      rows from start (inclusive) to stop (exclusive) } bytes as text: printable UTF-8 is literal,
prefix           rows that start with it                         } \xNN is any byte, \\ a backslash
where            conditions on stored columns, "info:delay as int > 15 and info:dest is present"
filter           SQL conditions on the DataFrame's columns, "delay > 15 AND id LIKE 'UA|%'", see sql_filter.py
rows             all (default), or mapped: without the rows that have none of the mapping's columns
timestamps       mapped columns, separated by commas, or *: adds the cell's timestamp, delay_timestamp for delay
snapshot         token (default): one read point for all uses of the DataFrame; latest: a new one for each query;
                 the id of a snapshot of rowlock.spark.snapshot; or @NAME: the named snapshot, and table may be left out
partition_bytes  approximate input of one task; default: one task a core of the driver's machine, 4 to 256 MiB each
batch_bytes      approximate size of the server's batches, default 4 MiB
count            true: one column `count`, with a number of rows of the table in each row; see rowlock.spark.count
malformed        fail (default) or null: the treatment of bytes that do not fit the mapping's type
timeout          seconds to wait for an unreachable server, default 60; a retried task waits a quarter of it
busy_timeout     seconds to wait for a server that reports that it is busy, default 3600
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Mapping as Dict
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rowlock_proto.nearest import did_you_mean
from rowlock_proto.prefixes import prefix_stop

from rowlock._codec.escapes import EscapeError, unescaped
from rowlock._core.catalog import SNAPSHOT_PREFIX
from rowlock._core.defaults import BUSY_TIMEOUT_S_DEFAULT
from rowlock._core.scan_plan import RowRange
from rowlock._transport.channels import given_addresses
from rowlock.cli.arguments import ArgumentError
from rowlock.cli.conditions import where
from rowlock.errors import InvalidArgumentError
from rowlock.filters import Filter
from rowlock.mapping import Mapping, is_none

READ_OPTIONS = (
    "server",
    "table",
    "mapping",
    "infer",
    "start",
    "stop",
    "prefix",
    "where",
    "filter",
    "rows",
    "timestamps",
    "snapshot",
    "partition_bytes",
    "batch_bytes",
    "count",
    "malformed",
    "timeout",
    "busy_timeout",
)
# A temporary view is read and written with the same options, so each side ignores the other's.
WRITE_ONLY_OPTIONS = ("nulls", "duplicates", "create", "durability")
# CREATE TABLE adds these when it requests the schema, and repeats each option as option.NAME.
CATALOG_PROPERTIES = ("provider", "owner", "comment", "collation", "location", "external", "is_managed_location")
_CATALOG_OPTION = "option."
# An option of earlier versions.
_PUSHDOWN = "pushdown"
# The option of load("t") and save("t").
PATH = "path"
TIMEOUT_S_DEFAULT = 60.0
BATCH_BYTES_DEFAULT = 4 << 20
BATCH_BYTES_MAX = 16 << 20
SNAPSHOT_ID_BYTES = 16

SnapshotMode: TypeAlias = Literal["token", "latest", "held"]
"""The value of the option snapshot; held stands for an id."""

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "kib": 1 << 10, "m": 1 << 20, "mib": 1 << 20, "g": 1 << 30, "gib": 1 << 30}
_AND = re.compile(r"\s+and\s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The parsed options of a read. Picklable."""

    server: str
    # `@NAME`: a named snapshot.
    table: str
    # The table that the named snapshot must be of; empty: any.
    snapshot_of: str = ""
    mapping: Mapping | None = None
    # Neither a mapping, nor none, nor infer is given.
    uses_kept_mapping: bool = False
    infer_rows: int | None = None
    row_range: RowRange = (b"", b"")
    where: Filter | None = None
    # SQL conditions on the DataFrame's columns, as text.
    filter: str | None = None
    # Omit rows without any of the mapping's columns.
    is_mapped_only: bool = False
    timestamps: tuple[str, ...] = ()
    # Count the rows instead of reading them.
    is_count: bool = False
    is_latest: bool = False
    # The id of a snapshot of rowlock.spark.snapshot.
    snapshot_id: bytes | None = None
    # None: depends on the table's size.
    part_bytes: int | None = None
    batch_bytes: int = BATCH_BYTES_DEFAULT
    malformed_is_null: bool = False
    timeout_s: float = TIMEOUT_S_DEFAULT
    busy_timeout_s: float = BUSY_TIMEOUT_S_DEFAULT

    @property
    def is_of_named_snapshot(self) -> bool:
        """Whether the table is a named snapshot, which never changes. So its reads need no snapshot of their own."""
        return self.table.startswith(SNAPSHOT_PREFIX) and self.snapshot_mode == "token"

    @property
    def snapshot_mode(self) -> SnapshotMode:
        if self.snapshot_id is not None:
            return "held"
        return "latest" if self.is_latest else "token"


def checked_names(options: Dict[str, str], known: tuple[str, ...]) -> dict[str, str]:
    """Returns the options with names in lower case. Raises InvalidArgumentError for an unknown one."""
    found = {name.lower(): value for name, value in options.items()}
    if _PUSHDOWN in found:
        raise InvalidArgumentError(
            "rowlock has no option 'pushdown': PySpark applies the filters that one query pushes to all other queries "
            "of a DataFrame or view, which would lose rows. Set a filter on the DataFrame with an option: "
            ".option('filter', \"delay > 15 AND id LIKE 'UA|%'\")"
        )
    unknown = sorted(
        name
        for name in set(found) - {*known, *WRITE_ONLY_OPTIONS, *CATALOG_PROPERTIES, PATH}
        if not name.startswith(_CATALOG_OPTION)
    )
    if unknown:
        raise InvalidArgumentError(
            f"rowlock has no option {unknown_options(unknown, known)}; the read options are {', '.join(known)}; "
            f"the write-only options are {', '.join(sorted(WRITE_ONLY_OPTIONS))}"
        )
    return found


def unknown_options(unknown: Iterable[str], known: Iterable[str]) -> str:
    """Returns the names, each with the option that was probably meant."""
    names = list(known)
    return ", ".join(f"{name!r}{did_you_mean(name, names)}" for name in unknown)


def server_of(options: Dict[str, str]) -> str:
    """Returns the addresses, of the options or the driver's environment. Raises InvalidArgumentError."""
    try:
        return ",".join(given_addresses(options.get("server")))
    except InvalidArgumentError as error:
        if options.get("server"):
            raise
        raise InvalidArgumentError(
            "no server is given: set the option server to host:port, or ROWLOCK_SERVER in the driver's environment "
            "before the session starts" + _LOST_OPTIONS
        ) from error


def table_of(options: Dict[str, str]) -> str:
    """Returns the table, of the option or the path. Raises InvalidArgumentError if there is none, or two."""
    table, path = options.get("table"), options.get(PATH)
    if table and path and table != path:
        raise InvalidArgumentError(
            f"two tables are given, {table!r} by the option table and {path!r} by the path; give one"
        )
    name = table or path
    if not name:
        raise InvalidArgumentError(
            'no table is given: set the option table, or call load("NAME") or save("NAME")' + _LOST_OPTIONS
        )
    return name


def named_snapshot(options: Dict[str, str]) -> str | None:
    """Returns the named snapshot that the option snapshot names, as `@NAME`; None if it is of another kind."""
    text = options.get("snapshot", "")
    return text if text.startswith(SNAPSHOT_PREFIX) else None


def table_to_read(options: Dict[str, str]) -> str:
    """Returns the table of a read, or the named snapshot as `@NAME`. Raises InvalidArgumentError."""
    return named_snapshot(options) or table_of(options)


_LOST_OPTIONS = (
    ". If CREATE TABLE ... USING rowlock created this table: Spark does not pass its OPTIONS when the table is read or "
    "written, so give them in the statement, SELECT * FROM t WITH (table = '...', mapping = '...') and "
    "INSERT INTO t WITH (...), or use CREATE TEMPORARY VIEW ... USING rowlock OPTIONS (...), which keeps them"
)


def read_options(options: Dict[str, str]) -> ReadOptions:
    """Parses the options of a read. Raises InvalidArgumentError, or MappingError for the mapping."""
    given = checked_names(options, READ_OPTIONS)
    mapping = mapping_of(given)
    infer_rows = _count(given, "infer")
    if "mapping" in given and infer_rows is not None:
        raise InvalidArgumentError("the options mapping and infer exclude each other: give one of them")
    named = named_snapshot(given)
    is_latest, snapshot_id = _snapshot("token" if named else given.get("snapshot", "token"))
    batch_bytes = byte_count(given, "batch_bytes") or BATCH_BYTES_DEFAULT
    if batch_bytes > BATCH_BYTES_MAX:
        raise InvalidArgumentError(f"the option batch_bytes must be at most {BATCH_BYTES_MAX}, not {batch_bytes}")
    return ReadOptions(
        server=server_of(given),
        table=table_to_read(given),
        snapshot_of=table_of(given) if named and ("table" in given or PATH in given) else "",
        mapping=mapping,
        uses_kept_mapping="mapping" not in given and infer_rows is None,
        infer_rows=infer_rows,
        row_range=_row_range(given),
        where=_where(given.get("where")),
        filter=given.get("filter"),
        is_mapped_only=_word(given, "rows", "all", ("all", "mapped")) == "mapped",
        is_count=_word(given, "count", "false", ("true", "false")) == "true",
        timestamps=_timestamps(given.get("timestamps", "")),
        is_latest=is_latest,
        snapshot_id=snapshot_id,
        part_bytes=byte_count(given, "partition_bytes"),
        batch_bytes=batch_bytes,
        malformed_is_null=_word(given, "malformed", "fail", ("fail", "null")) == "null",
        timeout_s=timeout_of(given),
        busy_timeout_s=busy_timeout_of(given),
    )


def mapping_of(options: Dict[str, str]) -> Mapping | None:
    """Returns the mapping that is given; None if none is, or the word none. Raises MappingError."""
    text = options.get("mapping")
    return None if text is None or is_none(text) else Mapping(text)


def timeout_of(options: Dict[str, str]) -> float:
    """Returns how long to wait for an unreachable server. Raises InvalidArgumentError unless it is more than 0."""
    return _seconds(options, "timeout", TIMEOUT_S_DEFAULT)


def busy_timeout_of(options: Dict[str, str]) -> float:
    """Returns how long to wait for a busy server. Raises InvalidArgumentError unless it is more than 0."""
    return _seconds(options, "busy_timeout", BUSY_TIMEOUT_S_DEFAULT)


def _seconds(options: Dict[str, str], name: str, default: float) -> float:
    text = options.get(name)
    if text is None:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 1e9:
        raise InvalidArgumentError(f"the option {name} must be a number of seconds, more than 0, not {text!r}")
    return seconds


def bytes_option(name: str, text: str) -> bytes:
    r"""Decodes a text with \xNN escapes. Raises InvalidArgumentError."""
    try:
        return unescaped(text)
    except EscapeError as error:
        raise InvalidArgumentError(f"the option {name} can't be parsed: {error}") from error


def _row_range(given: Dict[str, str]) -> RowRange:
    start, stop, prefix = (bytes_option(name, given.get(name, "")) for name in ("start", "stop", "prefix"))
    if prefix:
        if start or stop:
            raise InvalidArgumentError("the option prefix excludes the options start and stop: give one or the other")
        return prefix, prefix_stop(prefix)
    if stop and start > stop:
        raise InvalidArgumentError(
            f"the option stop, {stop[:100]!r}, sorts before start, {start[:100]!r}: give the smaller key as start"
        )
    return start, stop


def _where(text: str | None) -> Filter | None:
    if text is None:
        return None
    try:
        return where(part.strip() for part in _AND.split(text))
    except (ArgumentError, TypeError) as error:
        raise InvalidArgumentError(
            f"the option where can't be parsed: {error}. Join conditions by 'and'; in a value write ' and ' as "
            r"\x20and\x20"
        ) from error


def _timestamps(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _snapshot(text: str) -> tuple[bool, bytes | None]:
    if text.lower() in ("token", "latest"):
        return text.lower() == "latest", None
    try:
        snapshot_id = bytes.fromhex(text)
    except ValueError:
        snapshot_id = b""
    if len(snapshot_id) != SNAPSHOT_ID_BYTES:
        raise InvalidArgumentError(
            "the option snapshot must be 'token', 'latest', the id of a rowlock.spark.snapshot, or '@' and the name of "
            f"a named snapshot, not {text!r}"
        )
    return False, snapshot_id


def _word(given: Dict[str, str], name: str, default: str, words: tuple[str, ...]) -> str:
    word = given.get(name, default).lower()
    if word not in words:
        raise InvalidArgumentError(f"the option {name} must be {' or '.join(words)}, not {word!r}")
    return word


def _count(given: Dict[str, str], name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"\s*[0-9]{1,18}\s*", text) or int(text) < 1:
        raise InvalidArgumentError(f"the option {name} must be a number of rows, at least 1, not {text!r:.100}")
    return int(text)


def byte_count(given: Dict[str, str], name: str) -> int | None:
    """Returns the option as a number of bytes; None without it. Raises InvalidArgumentError unless it is at least 1."""
    text = given.get(name)
    if text is None:
        return None
    match = re.fullmatch(r"\s*([0-9]{1,18})\s*([A-Za-z]*)\s*", text)
    unit = _UNITS.get(match[2].lower()) if match else None
    count = int(match[1]) * unit if match and unit else 0
    if not 1 <= count < 1 << 63:
        raise InvalidArgumentError(
            f"the option {name} must be a number of bytes, like 4194304 or 4MiB, not {text!r:.100}"
        )
    return count
