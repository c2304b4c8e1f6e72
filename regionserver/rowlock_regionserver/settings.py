"""Reads the settings of --config: NAME=VALUE, the name of a TOML file with such settings, or `help`.

Later settings override earlier ones. A value is a number like 64, 32KiB or 2GiB, for memory also a share like 50%, and
for a few settings text. In a file, numbers stand alone and the others are strings, `memory = "50%"`; text with commas
may be a list of strings.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_type_hints

from rowlock_proto.nearest import did_you_mean

from rowlock_regionserver.config import GIB, KIB, MIB, TEXTS, Config
from rowlock_regionserver.memory_limit import memory_limit
from rowlock_regionserver.memory_plan import planned

# What a text that is empty looks like in the list, and on the command line.
_NO_TEXT = "none"
_UNITS = {"": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB}
# By a word of the name, its unit; the others are counts.
_UNITS_OF_NAMES = {"bytes": "bytes", "memory": "bytes", "ms": "ms", "us": "us", "percent": "%", "days": "days"}


def config_of(settings: Sequence[str]) -> Config:
    """Returns the configuration with these settings, for the memory of this machine or container.

    Raises ValueError for an unknown setting, an invalid value, or a file that can't be read.
    """
    available = memory_limit()
    changed: dict[str, int] = {}
    procedures = ""
    for setting in settings:
        named = re.match(r"[a-z_]+=", setting) is not None
        for source, text in (("--config", setting),) if named else _of_file(setting):
            if text.startswith("procedures="):
                value_text = text.removeprefix("procedures=")
                procedures = "" if value_text == _NO_TEXT else value_text
                continue
            name, value = _parsed(source, text, available)
            changed[name] = value
    return replace(planned(changed, available), procedures=procedures)


def described_settings(config: Config) -> Iterator[tuple[str, str, str, str]]:
    """Yields each setting's name, its value in the configuration, its unit ("-" for a count) and what it is."""
    for name, annotated in get_type_hints(Config, include_extras=True).items():
        unit, value = _unit(name), getattr(config, name)
        shown = (value or _NO_TEXT) if name in TEXTS else _shown(value, unit)
        yield (name, shown, unit or "-", *annotated.__metadata__)


def settings_help() -> str:
    """Lists each setting with its default on this machine, its unit and what it is, a line each."""
    rows = [("NAME", "DEFAULT", "UNIT", "WHAT"), *described_settings(planned({}, memory_limit()))]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        f"{name:{widths[0]}}  {default:>{widths[1]}}  {unit:{widths[2]}}  {what}" for name, default, unit, what in rows
    ]
    return "\n".join(
        [
            "Settings for --config NAME=VALUE, or for a TOML file that --config FILE names.",
            "The defaults are those of this machine: setting memory scales others.",
            "",
            *lines,
        ]
    )


def _of_file(path: str) -> Iterator[tuple[str, str]]:
    """Yields the settings of a TOML file as NAME=VALUE, each with the words that begin a message about it."""
    if not path.endswith(".toml"):
        raise ValueError(
            f"--config {path!r} is not NAME=VALUE, help, or a file whose name ends with .toml; a VALUE is a number "
            "like 64, 32KiB or 2GiB, or for memory also a share like 50%"
        )
    try:
        table = tomllib.loads(Path(path).read_bytes().decode())
    except OSError as error:
        raise ValueError(f"--config {path}: can't read the file: {error.strerror}") from error
    except ValueError as error:  # Also what is not UTF-8.
        raise ValueError(f"--config {path} is not a TOML file: {error}") from error
    for name, value in table.items():
        if name in TEXTS and isinstance(value, list) and all(isinstance(each, str) for each in value):
            value = ",".join(value)
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError(f"--config {path}: {name} must be a number or a string, like 64 or '2GiB'")
        yield f"--config {path}:", f"{name}={value}"


def _parsed(source: str, setting: str, available_bytes: int) -> tuple[str, int]:
    match = re.fullmatch(r"([^=]+)=(\d{1,15})(|KiB|MiB|GiB|%)", setting, re.ASCII)
    if match is None:
        raise ValueError(
            f"{source} {setting!r} is not NAME=VALUE, where VALUE is a number like 64, 32KiB or 2GiB, "
            "or for memory also a share like 50%"
        )
    name, number, unit = match[1], int(match[2]), match[3]
    if name not in Config.__slots__:
        meant = did_you_mean(name, Config.__slots__)
        raise ValueError(f"{source} {name}: no such setting{meant}; the settings are {', '.join(Config.__slots__)}")
    if unit == "%":
        if name != "memory" or not 0 < number < 100:
            raise ValueError(f"{source} {setting!r}: only memory may be a share, from 1% to 99% of what there is")
        return name, available_bytes * number // 100
    return name, number * _UNITS[unit]


def _unit(name: str) -> str:
    return next((unit for word, unit in _UNITS_OF_NAMES.items() if word in name.split("_")), "")


def _shown(value: int, unit: str) -> str:
    """Returns the value as a setting may have it: whole binary units for bytes."""
    if unit == "bytes" and value:
        for suffix, size in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
            if value % size == 0:
                return f"{value // size}{suffix}"
    return str(value)
