"""When and how the stores of a table are compacted: one frozen object, parsed from the table's properties.

docs/compaction.md explains each setting; docs/decisions/size_tiers.md says how the defaults were chosen.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from rowlock_regionserver.errors import InvalidRequestError

_PREFIX = "compaction."
_MIB = 1024 * 1024
_DAY_MS = 24 * 3600 * 1000

# The least and the greatest value of each number, both allowed.
_RANGES: Mapping[str, tuple[int, int]] = {
    "minor_files_min": (2, 1000),
    "minor_size_ratio": (1, 100),
    "major_deltas": (0, 100_000),
    "major_delta_share": (0, 1000),
    "major_dropped_share": (0, 1),
    "major_age_ms": (0, 36_500 * _DAY_MS),
    "memory_tombstones": (0, 1_000_000_000),
    "files_max": (2, 10_000),
    "move_bytes_min": (0, 1 << 50),
}
_WHOLE_NUMBER = re.compile(r"[0-9]{1,18}")
_FRACTION = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?")


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """The settings of a table's stores. The name of a property is `compaction.` and the name of the field.

    Raises InvalidRequestError if a value is out of its range, or if values contradict each other.
    """

    automatic: bool = True
    minor_files_min: int = 4
    minor_size_ratio: float = 1.5  # an older file joins a minor compaction up to this many times the newer ones' bytes
    major_deltas: int = 10  # 0: never because of their number
    major_delta_share: float = 0.1  # of the bases' bytes; 0: never because of the deltas' bytes
    major_dropped_share: float = 0.2  # of all cells; 0: never because of deleted and expired cells
    major_age_ms: int = 7 * _DAY_MS  # 0: never because of age
    memory_tombstones: int = 1000  # this many in memory are flushed, to be compacted; 0: never because of them
    files_max: int = 500  # that one compaction takes
    move_bytes_min: int = 16 * _MIB  # a major compaction combines smaller files, also if their rows lie apart

    def __post_init__(self) -> None:
        for name, (least, greatest) in _RANGES.items():
            value = getattr(self, name)
            if not (math.isfinite(value) and least <= value <= greatest):
                raise InvalidRequestError(f"{_PREFIX}{name} must be from {least} to {greatest}, it is {value}")
        if self.minor_files_min > self.files_max:
            raise InvalidRequestError(
                f"{_PREFIX}minor_files_min must be at most {_PREFIX}files_max, which is {self.files_max}; "
                f"it is {self.minor_files_min}"
            )


_KINDS: Mapping[str, str] = {field.name: str(field.type) for field in fields(CompactionSettings)}
PROPERTY_NAMES = tuple(_PREFIX + name for name in _KINDS)


def parse(properties: Mapping[str, str], base: CompactionSettings | None = None) -> CompactionSettings:
    """Returns the settings that the properties set; all others are as in `base`, or the defaults.

    Raises InvalidRequestError that names the property, its value and what is allowed.
    """
    values = {name.removeprefix(_PREFIX): _parsed(name, text) for name, text in properties.items()}
    return replace(base if base is not None else CompactionSettings(), **values)  # type: ignore[arg-type]  # by kind


def _parsed(name: str, text: str) -> bool | int | float:
    kind = _KINDS.get(name.removeprefix(_PREFIX)) if name.startswith(_PREFIX) else None
    if kind is None:
        raise InvalidRequestError(f"no property is called {name!r}; there are {', '.join(PROPERTY_NAMES)}")
    if kind == "bool" and text in ("true", "false"):
        return text == "true"
    if kind == "int" and _WHOLE_NUMBER.fullmatch(text):
        return int(text)
    if kind == "float" and _FRACTION.fullmatch(text):
        return float(text)
    raise InvalidRequestError(f"{name} must be {_allowed(name, kind)}, it is {text!r}")


def _allowed(name: str, kind: str) -> str:
    if kind == "bool":
        return "true or false"
    least, greatest = _RANGES[name.removeprefix(_PREFIX)]
    return f"a {'whole number' if kind == 'int' else 'number'} from {least} to {greatest}"
