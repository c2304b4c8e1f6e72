"""The options of `df.write.format("rowlock")`, checked.

A temporary view has the same options for reading and writing, so read-only options are ignored here.
"""

from __future__ import annotations

from collections.abc import Mapping as Dict
from dataclasses import dataclass
from typing import Literal, get_args

from rowlock.cli.arguments import ArgumentError, family
from rowlock.errors import InvalidArgumentError
from rowlock.mapping import Mapping, is_none
from rowlock.schema import Durability, Family
from rowlock.spark.options import (
    PATH,
    READ_OPTIONS,
    busy_timeout_of,
    byte_count,
    mapping_of,
    server_of,
    table_of,
    timeout_of,
    unknown_options,
)

Nulls = Literal["skip", "delete"]
Duplicates = Literal["last", "fail"]

# Spark's own batches, of 10,000 rows, are combined up to this size: each one that is sent costs the server a sync.
BATCH_BYTES_DEFAULT = 8 * 1024 * 1024
# A batch may become twice as large, and a request is limited to 64 MiB.
BATCH_BYTES_MAX = 16 * 1024 * 1024

WRITE_OPTIONS = (
    "server",
    "table",
    "mapping",
    "nulls",
    "duplicates",
    "create",
    "durability",
    "batch_bytes",
    "timeout",
    "busy_timeout",
)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The parsed options of a write."""

    server: str
    table: str
    mapping: Mapping | None
    """None: the mapping that the table keeps."""
    is_raw: bool
    """Whether the DataFrame is `row BINARY, columns MAP<STRING, BINARY>`, also if the table keeps a mapping."""
    nulls: Nulls
    duplicates: Duplicates
    creates: bool
    """Whether to create a missing table."""
    families: Dict[str, Family]
    """The families of the created table; empty for those of the mapping."""
    durability: Durability | None
    batch_bytes: int
    timeout_s: float
    busy_timeout_s: float


def write_options(given: Dict[str, str]) -> WriteOptions:
    """Parses the options of a write. Raises InvalidArgumentError, or MappingError for the mapping."""
    options = {name.lower(): value for name, value in given.items()}
    unknown = sorted(options.keys() - {*WRITE_OPTIONS, *READ_OPTIONS, PATH})
    if unknown:
        raise InvalidArgumentError(
            f"rowlock has no option {unknown_options(unknown, WRITE_OPTIONS)}; the write options are "
            f"{', '.join(WRITE_OPTIONS)}"
        )
    creates, families = _families(options.get("create", "false"))
    durability = options.get("durability")
    return WriteOptions(
        server=server_of(options),
        table=table_of(options),
        mapping=mapping_of(options),
        is_raw=is_none(options.get("mapping", "")),
        nulls="delete" if _word(options, "nulls", get_args(Nulls)) == "delete" else "skip",
        duplicates="fail" if _word(options, "duplicates", get_args(Duplicates)) == "fail" else "last",
        creates=creates,
        families=families,
        durability=None if durability is None else _durability(durability),
        batch_bytes=_batch_bytes(options),
        timeout_s=timeout_of(options),
        busy_timeout_s=busy_timeout_of(options),
    )


def _word(options: Dict[str, str], name: str, known: tuple[str, ...]) -> str:
    """Returns the option's value, by default the first of the known ones."""
    word = options.get(name, known[0]).lower()
    if word not in known:
        raise InvalidArgumentError(f"the option {name} must be {' or '.join(known)}, not {options[name]!r}")
    return word


def _families(create: str) -> tuple[bool, Dict[str, Family]]:
    if create.lower() in ("true", "false"):
        return create.lower() == "true", {}
    try:
        found = [family(text) for text in create.split()]
    except ArgumentError as error:
        raise InvalidArgumentError(f"the option create can't be parsed: {error}") from error
    families = {name: Family(**settings) for name, settings in found}
    if not families or len(families) != len(found):
        raise InvalidArgumentError(
            "the option create must be true, false, or families separated by spaces, each once, as in "
            f"'info stats,versions=3,time-to-live=7d', not {create!r}"
        )
    return True, families


def _durability(word: str) -> Durability:
    for known in get_args(Durability):
        if word.lower() == known:
            found: Durability = known
            return found
    raise InvalidArgumentError(f"the option durability must be one of {', '.join(get_args(Durability))}, not {word!r}")


def _batch_bytes(options: Dict[str, str]) -> int:
    found = byte_count(options, "batch_bytes") or BATCH_BYTES_DEFAULT
    if found > BATCH_BYTES_MAX:
        raise InvalidArgumentError(f"the option batch_bytes must be at most {BATCH_BYTES_MAX}, not {found}")
    return found
