"""One setting gives each part its memory, other settings override, and impossible ones are refused."""

from __future__ import annotations

import pytest
from rowlock_regionserver.config import GIB, KIB, MIB, Config
from rowlock_regionserver.memory_plan import ALLOWANCE_BYTES, MEMORY_MIN, PARTS, REQUEST_COST, planned


def together(config: Config) -> int:
    return sum(getattr(config, name) for name in PARTS)


def test_the_default_is_half_of_the_memory_and_no_more_than_a_server_can_use() -> None:
    assert planned({}, 24 * GIB) == Config()
    assert planned({}, 1 * GIB).memory == 512 * MIB
    assert planned({}, 512 * MIB).memory == 256 * MIB
    assert planned({}, 256 * MIB).memory == 106 * MIB, "the process takes some besides"
    assert planned({}, 100 * MIB).memory == MEMORY_MIN, "the server starts even so"


@pytest.mark.parametrize("memory", [MEMORY_MIN, 256 * MIB, 1 * GIB, 2 * GIB, 16 * GIB])
def test_the_parts_fit_into_the_memory_and_leave_some_of_it_free(memory: int) -> None:
    config = planned({"memory": memory}, 64 * GIB)
    assert config.memory == memory
    assert 0.8 * memory < together(config) < 0.9 * memory
    assert REQUEST_COST * config.request_bytes_max <= config.request_bytes_in_flight_max
    assert config.cell_bytes_max < config.request_bytes_max


def test_the_block_cache_may_borrow_up_to_half_of_the_memory() -> None:
    for memory in (MEMORY_MIN, 256 * MIB, 2 * GIB, 16 * GIB):
        config = planned({"memory": memory}, 64 * GIB)
        assert config.block_cache_bytes_max == memory // 2
    config = planned({"memory": 1 * GIB, "block_cache_bytes_max": 0}, 64 * GIB)
    assert config.block_cache_bytes == 32 * MIB, "its own share stays"


def test_sizes_shrink_with_the_memory_and_never_grow() -> None:
    small, large = planned({"memory": 256 * MIB}, GIB), planned({"memory": 16 * GIB}, 64 * GIB)
    assert (small.scan_window_bytes, small.log_segment_bytes) == (1 * MIB, 8 * MIB)
    assert (small.cell_bytes_max, large.cell_bytes_max) == (10 * MIB, 10 * MIB)
    assert large.scan_window_bytes == Config().scan_window_bytes
    assert large.request_bytes_max == Config().request_bytes_max
    assert large.memstore_bytes_max == 8 * Config().memstore_bytes_max
    assert planned({"memory": MEMORY_MIN}, GIB).scan_window_bytes == 256 * KIB


def test_a_single_setting_overrides_and_the_memory_grows_for_it_as_far_as_there_is_some() -> None:
    assert planned({"memstore_bytes_max": 1 * MIB}, 8 * GIB).memstore_bytes_max == 1 * MIB
    config = planned({"memstore_bytes_max": 4 * GIB}, 16 * GIB)
    assert config.memstore_bytes_max == 4 * GIB
    assert config.memory > together(config)
    assert config.block_cache_bytes == Config().block_cache_bytes
    with pytest.raises(ValueError, match="is more than the 4096 MiB that this machine or container has"):
        planned({"memstore_bytes_max": 4 * GIB}, 4 * GIB)


def test_a_request_takes_several_times_its_bytes() -> None:
    assert planned({"request_bytes_max": 256 * MIB}, 16 * GIB).request_bytes_in_flight_max == 1280 * MIB
    less = planned({"request_bytes_in_flight_max": 10 * MIB}, 16 * GIB)
    assert (less.request_bytes_max, less.cell_bytes_max) == (2 * MIB, 2 * MIB * 4 // 5)
    with pytest.raises(ValueError, match="request_bytes_max = 8 MiB takes 5 times as much memory"):
        planned({"request_bytes_max": 8 * MIB, "request_bytes_in_flight_max": 10 * MIB}, 16 * GIB)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"memory": 1 * MIB}, "memory must be at least 64 MiB, it is 1 MiB"),
        (
            {"memory": 1 * GIB},
            "memory = 1024 MiB, with 150 MiB for the process itself, is more than the 1024 MiB",
        ),
        (
            {"memory": 256 * MIB, "memstore_bytes_max": 256 * MIB},
            "together 416 MiB, more than memory = 256 MiB: memstore",
        ),
        ({"memory": 256 * MIB, "row_bytes_max": 1 << 20}, "row_bytes_max must be at most 65535"),
        ({"memory": 256 * MIB, "worker_threads": 0}, "worker_threads must be at least 1"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        planned(settings, 1 * GIB)


def test_memory_up_to_all_there_is_is_accepted() -> None:
    assert planned({"memory": 1 * GIB - ALLOWANCE_BYTES}, 1 * GIB).memory == 874 * MIB
