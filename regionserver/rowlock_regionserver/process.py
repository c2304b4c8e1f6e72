"""Settings of the server's process in Python, Arrow and the system, so that requests don't delay one another.

Only the command calls these functions, before it serves and when it is ready: a `Server` inside another program, a test
say, leaves that program's settings alone. `yield_now`, `give_back` and `forget_pages` may be called anywhere.

All threads share one interpreter lock. A thread that computes in Python loses it after the switch interval when another
thread waits for it; a thread inside a long call of Arrow, numpy or the garbage collector holds it to the end of the
call. So background work is done in pieces of a millisecond or two with `yield_now` between them, and few objects are
left to the collector.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import os
import resource
import sys
import threading
import time
from collections.abc import Callable

# A thread that computes yields after half a millisecond: during a flush a request waits 2 ms instead of 15.
SWITCH_INTERVAL_SECONDS = 0.0005
# A collection of the youngest generation takes some 0.5 µs for each new object, and all threads wait for it: 2,000 take
# a millisecond. A full collection traverses every row in memory, so it is made rare. Cycles are rare, and mostly young.
COLLECTOR_THRESHOLDS = (2_000, 1250, 1000)
# Limits of open files to request; the next one when the system refuses.
FILE_LIMITS = (1 << 20, 1 << 16, 10_240)
# Half of the process's limit is for store files, within these bounds.
OPEN_STORE_FILES_MIN, OPEN_STORE_FILES_MAX = 16, 16_384
# glibc's allocator: parameters of mallopt. By default it makes eight arenas a core, each of which keeps the memory that
# one thread frees from all others; and after a large block was freed once, it keeps all later ones.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_ARENAS_MAX = 2
# A larger block is mapped when it is allocated and unmapped when it is freed, and the system clears each of its pages.
# So this is more than a scan's message, which has 4 MiB for Spark: mapping and unmapping these took two fifths of the
# scan's time. A server of little memory maps smaller blocks, because these leave holes where they are not mapped.
_MAPPED_BYTES = 8 << 20
# An arena with more free memory than this at its end returns it.
_KEPT_BYTES = 4 * _MAPPED_BYTES
# How long Arrow's allocator keeps freed memory: its own default. Another value is for arenas that it makes later, so
# the main thread's keeps this one.
_DECAY_MS = 1000
# With less memory than this, a server has the same share of these values.
_AMPLE_MEMORY = 512 << 20
_MADV_DONTNEED = 4
# A real sleep, and short enough to cost a flush some percent. os.sched_yield releases the interpreter lock too, but
# takes it back before a thread on another core has woken: 2,000 times in a row at worst, where this took 4.
YIELD_SECONDS = 20e-6


def prepare() -> None:
    """Sets the process up; to be called before heavy imports."""
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    raise_file_limit()
    library = _glibc()
    if library is not None:
        library.mallopt(_M_ARENA_MAX, _ARENAS_MAX)
        # What Arrow compresses has memory of this allocator, whatever `set_memory_pool` says. PyPI's Arrow has it.
        os.environ["ARROW_DEFAULT_MEMORY_POOL"] = os.environ.get("ARROW_DEFAULT_MEMORY_POOL") or "jemalloc"


def set_allocators(memory: int) -> None:
    """Makes the allocators return freed memory to the system: the sooner, the less `memory` the server may use."""
    import pyarrow as pa

    library, ample = _glibc(), max(memory, _AMPLE_MEMORY)
    if library is not None:
        library.mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES * memory // ample)
        library.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES * memory // ample)
    if pa.default_memory_pool().backend_name == "jemalloc":
        pa.jemalloc_set_decay_ms(_DECAY_MS * memory // ample)


def limit_arrow() -> None:
    """Limits Arrow to one thread of each kind, and makes it return freed memory to the system.

    Our own threads do the work, and an idle thread costs memory. Of Arrow's allocators jemalloc returns memory
    unprompted and costs least; mimalloc, the default, keeps all memory that a thread ever used.
    """
    import pyarrow as pa

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    if "jemalloc" in pa.supported_memory_backends():
        pa.set_memory_pool(pa.jemalloc_memory_pool())


def give_back() -> None:
    """Returns freed memory to the system, after much was freed. Takes 10 to 60 ms for some 100 MiB."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)


def forget_pages(address: int, byte_count: int) -> None:
    """Drops the pages of a mapped file from this process's memory; it may read them again.

    `address` is the start of a page. The pages stay in the system's page cache.
    """
    library = _c_library()
    if library is not None:
        library.madvise(ctypes.c_void_p(address), ctypes.c_size_t(byte_count), _MADV_DONTNEED)


@functools.cache
def _c_library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None)
    except (OSError, TypeError):
        return None


@functools.cache
def _glibc() -> ctypes.CDLL | None:
    library = _c_library()
    return library if library is not None and hasattr(library, "malloc_trim") and hasattr(library, "mallopt") else None


def freeze_objects() -> None:
    """Excludes all present objects, like modules and recovered rows, from later collections. For a ready server."""
    gc.collect()
    gc.freeze()


class _Yields(threading.local):
    """What `yield_now` does in a thread."""

    pause: Callable[[], None] | None = None


_yields = _Yields()


def set_pause(pause: Callable[[], None] | None) -> None:
    """Makes `yield_now` call this in the calling thread; None: it only yields."""
    _yields.pause = pause


def yield_now() -> None:
    """Releases the interpreter lock to a waiting thread, between two pieces of background work. Costs some 120 µs.

    Work that is paced pauses for longer (region/background_pacing.py).
    """
    pause = _yields.pause
    if pause is None:
        time.sleep(YIELD_SECONDS)
    else:
        pause()


def raise_file_limit() -> None:
    """Raises the limit of open files as far as allowed: each connection needs one, and each open store file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in FILE_LIMITS:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if soft != resource.RLIM_INFINITY and soft < limit:
            with contextlib.suppress(OSError, ValueError):  # macOS allows less than its limit says.
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
                return


def open_store_files_of_this_process() -> int:
    """The limit of open store files: half of the process's limit of open files. The other half is for clients."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return OPEN_STORE_FILES_MAX
    return max(OPEN_STORE_FILES_MIN, min(OPEN_STORE_FILES_MAX, limit // 2))
