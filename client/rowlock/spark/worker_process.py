"""The Python process in which Spark runs a task or a planning step.

PySpark's daemon collects all garbage of a worker after each task. With the modules that a task of ours imports this
takes 20 to 40 ms, more than a small task. So they are excluded from later collections.

By default glibc maps the memory of each message and column, and unmaps it when it is freed, and the system clears each
of its pages: a quarter of the CPU of a task that reads. So a worker keeps some freed memory for the next batch.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import sys

# glibc's parameters of mallopt, and their values: the size from which memory is mapped, more than a message of a read;
# how much freed memory is kept; and how many pools of freed memory there are, with one of the thread that receives.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_ALLOCATOR_SETTINGS = ((_M_MMAP_THRESHOLD, 8 << 20), (_M_TRIM_THRESHOLD, 32 << 20), (_M_ARENA_MAX, 2))

_frozen_module_count = 0


@functools.cache
def keep_freed_memory() -> None:
    """Keeps freed memory for later batches. Does nothing outside of PySpark's workers, and with other C libraries."""
    if not _is_worker():
        return
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):
        return
    for option, value in _ALLOCATOR_SETTINGS:
        set_option(option, value)


def exclude_modules() -> None:
    """Excludes all present objects from garbage collection, if modules were imported since the last call.

    Does nothing outside of PySpark's workers.
    """
    global _frozen_module_count
    count = len(sys.modules)
    if count != _frozen_module_count and _is_worker():
        gc.freeze()
        _frozen_module_count = count


def _is_worker() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == "pyspark.daemon"
