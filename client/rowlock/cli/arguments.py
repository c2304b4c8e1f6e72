"""Parses arguments of the command line: columns, cells, time ranges, families with their settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypedDict

from rowlock._codec.escapes import EscapeError, typed, unescaped

if TYPE_CHECKING:
    from rowlock.checks import CompareOp
    from rowlock.schema import Compression, Durability, Family

# From text to the literal types of the client.
_DURABILITIES: dict[str, Durability] = {"skip": "skip", "async": "async", "os": "os", "fsync": "fsync"}
_COMPARE_OPS: dict[str, CompareOp] = {"=": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_COMPRESSIONS: dict[str, Compression] = {"none": "none", "lz4": "lz4", "zstd": "zstd"}
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_UNIT_BYTES = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20}
_SHOWN_UNIT_BYTES = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20}


class ArgumentError(ValueError):
    """An argument is invalid. The message names it and the accepted form."""


class FamilySettings(TypedDict, total=False):
    """Fields of rowlock.Family."""

    versions: int
    min_versions: int
    time_to_live_ms: int
    block_bytes: int
    compression: Compression
    bloom_filter: bool


def bytes_of(text: str) -> bytes:
    """Returns the key or value that the text stands for, escapes decoded."""
    try:
        return unescaped(text)
    except EscapeError as error:
        raise ArgumentError(str(error)) from error


def bound(text: str | None) -> bytes | None:
    """Returns the key or value of an optional option; None without it."""
    return None if text is None else bytes_of(text)


def row_range(
    start: str | None, stop: str | None, prefix: str | None, hint: str = ""
) -> tuple[bytes | None, bytes | None, bytes | None]:
    """Returns start, stop and prefix as keys. `hint` ends the message of the error for a stop before the start."""
    if prefix is not None and (start is not None or stop is not None):
        raise ArgumentError("--prefix excludes --start and --stop: give one or the other")
    first, last = bound(start), bound(stop)
    check_order(first, last, start, stop, hint)
    return first, last, bound(prefix)


def check_order(first: bytes | None, last: bytes | None, start: str | None, stop: str | None, hint: str = "") -> None:
    """Raises ArgumentError if the key `last`, of the option `stop`, sorts before the key `first`, of `start`."""
    if first and last and first > last:
        raise ArgumentError(
            f"--stop {typed(stop or '')} sorts before --start {typed(start or '')}: give the smaller key as --start"
            f"{hint}"
        )


def column(text: str) -> bytes:
    """Parses FAMILY:QUALIFIER. The qualifier may be empty, the family not."""
    data = bytes_of(text)
    if data.find(b":") < 1:
        raise ArgumentError(f"{typed(text)} is not a column: write FAMILY:QUALIFIER")
    return data


def columns(texts: Iterable[str] | None) -> list[bytes] | None:
    """Parses columns and families to read. Returns None, which means all, if there are none."""
    found = []
    for text in texts or ():
        data = bytes_of(text)
        if not data or data.startswith(b":"):
            raise ArgumentError(
                f"{typed(text)} has no family: write FAMILY:QUALIFIER, or FAMILY for all of its columns"
            )
        found.append(data)
    return found or None


def assignments(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Splits COLUMN=VALUE arguments at their first '='. Raises ArgumentError for one without, and a repeated column."""
    found: dict[bytes, tuple[str, str]] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator:
            raise ArgumentError(rf"{typed(text)} has no value: write COLUMN=VALUE ('=' in a qualifier is \x3d)")
        key = bytes_of(name)
        bytes_of(value)
        if key in found:
            raise ArgumentError(f"column {typed(name)} is given twice")
        found[key] = (name, value)
    return list(found.values())


def time_range(text: str | None) -> tuple[int, int | None] | None:
    """Parses START..STOP into [start, stop) in milliseconds. A missing start is 0, a missing stop None."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d*)\.\.(\d*)", text)
    if match is None:
        raise ArgumentError(
            f"{typed(text)} is not a time range: write START..STOP in milliseconds; either may be omitted"
        )
    start, stop = match.groups()
    found = (int(start or 0), int(stop) if stop else None)
    if found[1] is not None and found[1] < found[0]:
        raise ArgumentError(f"the time range {typed(text)} stops before it starts")
    return found


def family(text: str) -> tuple[str, FamilySettings]:
    """Parses NAME[,SETTING=VALUE]... into the name and the settings that the text names."""
    name, *words = text.split(",")
    settings: FamilySettings = {}
    seen = set()
    for word in words:
        key, separator, value = word.partition("=")
        if not separator:
            raise ArgumentError(f"{typed(word)} in family {typed(text)} is not SETTING=VALUE")
        if key in seen:
            raise ArgumentError(f"family {typed(text)} sets {key} twice")
        seen.add(key)
        _set(settings, key, value)
    try:
        return bytes_of(name).decode(), settings
    except UnicodeDecodeError as error:
        raise ArgumentError(f"the family name {typed(name)} is not UTF-8") from error


def families(texts: Iterable[str] | None) -> dict[str, FamilySettings]:
    """Parses several families; None: none. Raises ArgumentError if one is given twice."""
    found: dict[str, FamilySettings] = {}
    for name, settings in map(family, texts or ()):
        if name in found:
            raise ArgumentError(f"family {name!r} is given twice")
        found[name] = settings
    return found


def settings_of(found: Family) -> dict[str, str]:
    """Returns all settings of a family, in the form that `family` parses."""
    return {
        "versions": str(found.versions),
        "min-versions": str(found.min_versions),
        "time-to-live": _in_unit(found.time_to_live_ms, _UNIT_MS) if found.time_to_live_ms else "forever",
        "block": _in_unit(found.block_bytes, _SHOWN_UNIT_BYTES),
        "compression": found.compression,
        "bloom": "row" if found.bloom_filter else "none",
    }


def properties(texts: Iterable[str] | None) -> dict[str, str]:
    """Parses NAME=VALUE arguments of a table's properties. The server knows which there are."""
    found: dict[str, str] = {}
    for text in texts or ():
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise ArgumentError(f"{typed(text)} is not NAME=VALUE, as in compaction.automatic=false")
        if name in found:
            raise ArgumentError(f"property {name} is given twice")
        found[name] = value
    return found


def snapshot_id(text: str) -> bytes:
    """Parses the id of a snapshot: 32 hexadecimal digits."""
    if text.startswith("@"):
        raise ArgumentError(f"a named snapshot is read as a table: write {typed(text)} as TABLE, without --snapshot")
    if re.fullmatch(r"[0-9A-Fa-f]{32}", text) is None:
        raise ArgumentError(f"{typed(text)} is not the id of a snapshot, which 'rowlock snapshot TABLE' prints")
    return bytes.fromhex(text)


def durability(text: str) -> Durability:
    """Parses a durability level."""
    if text not in _DURABILITIES:
        raise ArgumentError(f"durability must be one of {', '.join(_DURABILITIES)}, not {typed(text)}")
    return _DURABILITIES[text]


def compare_op(text: str) -> CompareOp:
    """Parses a comparison operator."""
    if text not in _COMPARE_OPS:
        raise ArgumentError(f"--op must be one of {' '.join(_COMPARE_OPS)}, not {typed(text)}")
    return _COMPARE_OPS[text]


def _set(settings: FamilySettings, key: str, value: str) -> None:
    match key:
        case "versions":
            settings["versions"] = _count(key, value)
        case "min-versions":
            settings["min_versions"] = _count(key, value)
        case "time-to-live":
            settings["time_to_live_ms"] = _milliseconds(value)
        case "block":
            settings["block_bytes"] = _bytes(value)
        case "compression":
            if value not in _COMPRESSIONS:
                raise ArgumentError(f"compression must be none, lz4 or zstd, not {typed(value)}")
            settings["compression"] = _COMPRESSIONS[value]
        case "bloom":
            if value not in ("row", "none"):
                raise ArgumentError(f"bloom must be row or none, not {typed(value)}")
            settings["bloom_filter"] = value == "row"
        case _:
            raise ArgumentError(
                f"unknown family setting {typed(key)}: the settings are versions, min-versions, time-to-live, block, "
                "compression and bloom"
            )


def _count(key: str, value: str) -> int:
    if not re.fullmatch(r"\d{1,9}", value):
        raise ArgumentError(f"{key} must be a number, not {typed(value)}")
    return int(value)


def _milliseconds(value: str) -> int:
    if value == "forever":
        return 0
    match = re.fullmatch(r"(\d{1,15})(ms|s|m|h|d)", value)
    if match is None:
        raise ArgumentError(
            f"time-to-live must be forever or a number with a unit (500ms, 30s, 15m, 12h, 7d), not {typed(value)}"
        )
    return int(match.group(1)) * _UNIT_MS[match.group(2)]


def _in_unit(number: int, units: Mapping[str, int]) -> str:
    """Formats the number in the largest unit that divides it. `units` are in ascending order, from 1."""
    unit = [name for name, size in units.items() if number % size == 0][-1]
    return f"{number // units[unit]}{unit}"


def _bytes(value: str) -> int:
    match = re.fullmatch(r"(\d{1,12})([a-z]*)", value.lower())
    if match is None or match.group(2) not in _UNIT_BYTES:
        raise ArgumentError(f"block must be a number of bytes or have a unit (128KiB, 1MiB), not {typed(value)}")
    return int(match.group(1)) * _UNIT_BYTES[match.group(2)]
