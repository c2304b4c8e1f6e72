"""Sizes, times and durations as people read them."""

from __future__ import annotations

from datetime import datetime


def size_text(byte_count: int) -> str:
    """Returns a size, like 12.5 MiB."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if byte_count >= size:
            return f"{byte_count / size:.1f} {unit}"
    return f"{byte_count} B"


def clock_text(ms: int) -> str:
    """Returns a time, milliseconds since the epoch, in this machine's zone."""
    return datetime.fromtimestamp(ms / 1000).strftime("%Y-%m-%d %H:%M:%S")


def duration_text(seconds: float) -> str:
    """Returns a duration, like 3 h 12 min; "0.0 s" for a negative one."""
    if seconds < 60:
        return f"{max(0, seconds):.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def count_text(count: int, what: str) -> str:
    """Returns a count with its noun: "1 file", "2 files"."""
    return f"{count} {what}{'' if count == 1 else 's'}"
