"""The options of `df.write.format("rowlock")`, checked.

Options of a temporary view serve reading and writing alike, so those that only reading knows are let pass.
"""

from __future__ import annotations

from collections.abc import Mapping as Dict
from dataclasses import dataclass
from typing import Literal, get_args

from rowlock.channels import given_addresses
from rowlock.cli.arguments import ArgumentError, family
from rowlock.errors import InvalidArgumentError
from rowlock.mapping import Mapping
from rowlock.schema import Durability, Family
from rowlock.view import checked_timeout

Nulls = Literal["skip", "delete"]
Duplicates = Literal["last", "fail"]

TIMEOUT_S_DEFAULT = 60.0
# Smaller than put_arrow's: several tasks write at a time, beside those who use the table.
BATCH_BYTES_DEFAULT = 2 * 1024 * 1024
# A batch may come out twice as large, and a request has 64 MiB.
BATCH_BYTES_MAX = 16 * 1024 * 1024

WRITING = (
    "server",
    "table",
    "path",
    "mapping",
    "nulls",
    "duplicates",
    "create",
    "durability",
    "batch_bytes",
    "timeout",
)
READING_ONLY = (
    "infer",
    "start",
    "stop",
    "prefix",
    "where",
    "timestamps",
    "snapshot",
    "partition_bytes",
    "malformed",
    "pushdown",
)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a job was told."""

    server: str
    table: str
    mapping: Mapping | None
    """None: the DataFrame is `row BINARY, columns MAP<STRING, BINARY>`."""
    nulls: Nulls
    duplicates: Duplicates
    creates: bool
    """Whether the table is made if there is none."""
    families: Dict[str, Family]
    """The families it is made with; empty: those of the mapping."""
    durability: Durability | None
    batch_bytes: int
    timeout_s: float


def write_options(given: Dict[str, str]) -> WriteOptions:
    """The options by their names in lower case; raises InvalidArgumentError, or MappingError for the mapping."""
    options = {name.lower(): value for name, value in given.items()}
    if not options:
        raise InvalidArgumentError(
            "no options have arrived. Of a table that CREATE TABLE ... USING rowlock made, Spark keeps OPTIONS, "
            "TBLPROPERTIES and LOCATION to itself when it is read or written: say INSERT INTO t WITH (server = '...', "
            "table = '...', mapping = '...') SELECT ..., or make a temporary view, which keeps them: CREATE TEMPORARY "
            "VIEW v USING rowlock OPTIONS (...)"
        )
    unknown = sorted(options.keys() - {*WRITING, *READING_ONLY})
    if unknown:
        raise InvalidArgumentError(
            f"unknown option {', '.join(map(repr, unknown))}; the options for writing are "
            f"{', '.join(name for name in WRITING if name != 'path')}"
        )
    creates, families = _families(options.get("create", "false"))
    mapping = options.get("mapping")
    durability = options.get("durability")
    return WriteOptions(
        server=",".join(given_addresses(options.get("server"))),
        table=_table(options),
        mapping=None if mapping is None else Mapping(mapping),
        nulls="delete" if _word(options, "nulls", get_args(Nulls)) == "delete" else "skip",
        duplicates="fail" if _word(options, "duplicates", get_args(Duplicates)) == "fail" else "last",
        creates=creates,
        families=families,
        durability=None if durability is None else _durability(durability),
        batch_bytes=_batch_bytes(options.get("batch_bytes", str(BATCH_BYTES_DEFAULT))),
        timeout_s=_timeout(options.get("timeout", str(TIMEOUT_S_DEFAULT))),
    )


def _table(options: Dict[str, str]) -> str:
    table, path = options.get("table"), options.get("path")
    if not table and not path:
        raise InvalidArgumentError("no table is named: say .option('table', 'flights')")
    if table and path and table != path:
        raise InvalidArgumentError(f"two tables are named, {table!r} by the option and {path!r} by save()")
    return table or path or ""


def _word(options: Dict[str, str], name: str, known: tuple[str, ...]) -> str:
    """One of the known words, the first of them by default."""
    word = options.get(name, known[0]).lower()
    if word not in known:
        raise InvalidArgumentError(f"the option {name!r} is {' or '.join(known)}, not {options[name]!r}")
    return word


def _families(create: str) -> tuple[bool, Dict[str, Family]]:
    if create.lower() in ("true", "false"):
        return create.lower() == "true", {}
    try:
        found = [family(text) for text in create.split()]
    except ArgumentError as error:
        raise InvalidArgumentError(f"the option 'create': {error}") from error
    families = {name: Family(**settings) for name, settings in found}
    if not families or len(families) != len(found):
        raise InvalidArgumentError(
            "the option 'create' is true, false, or families divided by spaces, each once: "
            f"'info stats,versions=3,time-to-live=7d'; not {create!r}"
        )
    return True, families


def _durability(word: str) -> Durability:
    for known in get_args(Durability):
        if word.lower() == known:
            found: Durability = known
            return found
    raise InvalidArgumentError(f"the option 'durability' is {', '.join(get_args(Durability))}, not {word!r}")


def _batch_bytes(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= BATCH_BYTES_MAX:
        raise InvalidArgumentError(f"the option 'batch_bytes' is 1 to {BATCH_BYTES_MAX}, not {text!r}")
    return int(text)


def _timeout(text: str) -> float:
    try:
        return checked_timeout(float(text))
    except ValueError as error:
        raise InvalidArgumentError(f"the option 'timeout' is a number of seconds above 0, not {text!r}") from error
