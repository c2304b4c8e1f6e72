"""Settings beyond what the formats on disk can hold are refused."""

from __future__ import annotations

import pytest
from rowlock_regionserver.config import Config
from rowlock_regionserver.wal.record import SEGMENT_BYTES_MAX


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("log_segment_bytes", SEGMENT_BYTES_MAX),
        ("write_numbers_per_leap", 1 << 32),
        ("stamp_leap_ms", 24 * 3600 * 1000),
    ],
)
def test_a_setting_has_a_most(name: str, most: int) -> None:
    assert getattr(Config(**{name: most}), name) == most
    with pytest.raises(ValueError, match=f"{name} must be at most {most}, it is {most + 1}"):
        Config(**{name: most + 1})
