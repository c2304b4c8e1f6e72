"""The states of a region's life; region.py says what each means."""

from __future__ import annotations

import enum


class State(enum.Enum):
    """The life cycle: OPENING becomes SERVING or CLOSED, SERVING becomes CLOSED."""

    OPENING = enum.auto()
    SERVING = enum.auto()
    CLOSED = enum.auto()
