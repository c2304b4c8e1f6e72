"""The memory plan: derives the bound of each part of the server from one setting, `memory`; other settings override.

The defaults of Config fit MEMORY_MAX; with less memory, bounds are smaller in proportion. Impossible settings are
refused at the start: bounds whose sum is more than `memory`, or more memory than the machine has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from rowlock_regionserver.config import KIB, MIB, TEXTS, Config

# The memory of the process beyond `memory`: the interpreter and the libraries (some 100 MiB of it, most of them pages
# of files that the system can drop), threads, and memory that allocators can't return.
ALLOWANCE_BYTES = 150 * MIB
# The default is half of the memory limit, and not more than this.
MEMORY_MAX = Config().memory
MEMORY_MIN = 64 * MIB
# Memory of an active request, in its size: the received bytes, the message object, and its values (measured: 2 to 5).
REQUEST_COST = 5
# Memory of a parsed request beyond that: its message objects (measured: 190 for a small get, 370 for a small put).
PARSED_REQUEST_BYTES = 200
# Memory of a parsed message of the smallest requests, in its size (measured: 16).
PARSED_COST = 16

# Memory of the answer to a get while it is made, in its size: cells and message object, then that and its bytes.
MAKING_COST = 2
# Memory of an answer while it is sent, in its size: gRPC copies it.
ANSWER_COST = 2
# Memory of a row of a request beyond its bytes: its objects, its outcome and its answer.
ROW_COST = 1000

# The parts, whose sum is less than `memory`: an eighth stays free for fragmentation in the allocators.
PARTS = (
    "memstore_bytes_max",
    "block_cache_bytes",
    "index_bytes_max",
    "flush_work_bytes_max",
    "log_pending_bytes_max",
    "request_bytes_in_flight_max",
    "request_ids_bytes_max",
    "answer_bytes_held_max",
    "scan_bytes_held_max",
)
# Other bounds that scale with `memory`.
_BOUNDS = ("memstore_flush_bytes", "block_cache_bytes_max")
# Sizes that scale with `memory` too, up to their defaults: by name, the minimum.
_SIZES = {
    "log_segment_bytes": 4 * MIB,
    "scan_window_bytes": 256 * KIB,
    "merge_window_bytes_max": 8 * MIB,
    "compaction_window_bytes": 256 * KIB,
    "connections_max": 64,
    "streams_per_connection_max": 100,
}
_DEFAULTS = {field.name: field.default for field in fields(Config)}


def planned(settings: Mapping[str, int], available_bytes: int) -> Config:
    """Returns the configuration with these settings, for a machine or a container with this much memory.

    Raises ValueError when a setting is out of its range, or when settings don't fit each other.
    """
    memory = settings.get("memory")
    if memory is None:
        memory = min(available_bytes // 2, available_bytes - ALLOWANCE_BYTES, MEMORY_MAX)
        memory = max(memory, MEMORY_MIN)
        config = _with_parts(memory, settings)
        if _sum(config) > memory:  # Single settings need more: `memory` grows with them, if there is that much.
            memory = _sum(config) * 8 // 7
            config = Config(procedures="", **{**_values(config), "memory": memory})
    elif memory < MEMORY_MIN:
        raise ValueError(f"memory must be at least {_shown(MEMORY_MIN)}, it is {_shown(memory)}")
    else:
        config = _with_parts(memory, settings)
    _check(config, settings, available_bytes)
    return config


def _with_parts(memory: int, settings: Mapping[str, int]) -> Config:
    """Scales each bound in proportion to `memory`, unless it is set."""
    values = {name: _scaled(name, memory) for name in (*PARTS, *_BOUNDS)}
    values |= {name: max(minimum, min(_default(name), _scaled(name, memory))) for name, minimum in _SIZES.items()}
    if "request_bytes_max" in settings and "request_bytes_in_flight_max" not in settings:
        minimum = REQUEST_COST * settings["request_bytes_max"]
        values["request_bytes_in_flight_max"] = max(values["request_bytes_in_flight_max"], minimum)
    in_flight = settings.get("request_bytes_in_flight_max", values["request_bytes_in_flight_max"])
    answers = settings.get("answer_bytes_held_max", values["answer_bytes_held_max"])
    largest = min(in_flight // REQUEST_COST, answers // MAKING_COST)
    values["request_bytes_max"] = max(1, min(_default("request_bytes_max"), largest))
    request_bytes = settings.get("request_bytes_max", values["request_bytes_max"])
    values["cell_bytes_max"] = max(1, min(_default("cell_bytes_max"), request_bytes * 4 // 5))
    return Config(procedures="", **{**values, **settings, "memory": memory})


def _check(config: Config, settings: Mapping[str, int], available_bytes: int) -> None:
    parts = _sum(config)
    if parts > config.memory:
        several = ", ".join(f"{name} = {_shown(getattr(config, name))}" for name in PARTS)
        raise ValueError(
            f"the parts of the memory are together {_shown(parts)}, more than memory = {_shown(config.memory)}: "
            f"{several}; raise memory, or lower the others"
        )
    if settings.keys() & {"memory", *PARTS, "request_bytes_max"} and config.memory + ALLOWANCE_BYTES > available_bytes:
        raise ValueError(
            f"memory = {_shown(config.memory)}, with {_shown(ALLOWANCE_BYTES)} for the process itself, is more than "
            f"the {_shown(available_bytes)} that this machine or container has; lower it"
        )
    if REQUEST_COST * config.request_bytes_max > config.request_bytes_in_flight_max:
        raise ValueError(
            f"request_bytes_max = {_shown(config.request_bytes_max)} takes {REQUEST_COST} times as much memory, more "
            f"than request_bytes_in_flight_max = {_shown(config.request_bytes_in_flight_max)}; lower the first or "
            "raise the second"
        )


def _default(name: str) -> int:
    default = _DEFAULTS[name]
    assert isinstance(default, int), name
    return default


def _scaled(name: str, memory: int) -> int:
    return _default(name) * memory // MEMORY_MAX


def _values(config: Config) -> dict[str, int]:
    return {name: getattr(config, name) for name in _DEFAULTS if name not in TEXTS}


def _sum(config: Config) -> int:
    return sum(getattr(config, name) for name in PARTS)


def _shown(byte_count: int) -> str:
    return f"{byte_count // MIB} MiB" if byte_count >= MIB else f"{byte_count} bytes"
