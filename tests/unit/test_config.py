"""Settings beyond what the formats on disk, the protocol or a clock can hold are refused."""

from __future__ import annotations

from datetime import timedelta

import pytest
from rowlock_regionserver.config import Config
from rowlock_regionserver.wal.record import SEGMENT_BYTES_MAX

CENTURY = timedelta(days=36_500)
MILLISECONDS = sorted({name for name in Config.__slots__ if "_ms" in name} - {"stamp_leap_ms", "retry_after_ms"})


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("log_segment_bytes", SEGMENT_BYTES_MAX),
        ("write_numbers_per_leap", 1 << 32),
        ("stamp_leap_ms", 24 * 3600 * 1000),
        # A value with too many bits for the protocol would make each answer with it fail.
        ("cell_bytes_max", (1 << 31) - 1 - (1 << 20)),
        ("retry_after_ms", (1 << 32) - 1),
        # With more a start ended with an OverflowError of gRPC and a traceback.
        ("connections_max", (1 << 30) - 1),
        ("streams_per_connection_max", (1 << 31) - 1),
        # A start with compaction_threads=1GiB took all memory of the machine.
        *[(name, 1000) for name in ("compaction_threads", "flush_threads", "worker_threads", "procedure_processes")],
        *[(name, int(CENTURY.total_seconds()) * 1000) for name in MILLISECONDS],
    ],
)
def test_a_setting_has_a_maximum(name: str, most: int) -> None:
    assert getattr(Config(procedures="", **{name: most}), name) == most
    with pytest.raises(ValueError, match=f"{name} must be at most {most}, it is {most + 1}"):
        Config(procedures="", **{name: most + 1})
