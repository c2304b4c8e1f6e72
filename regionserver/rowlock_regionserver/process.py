"""What the server's process asks of Python, Arrow and the system, so that requests don't wait for one another.

Called by the command alone, before it serves and when it is ready: a `Server` inside another program, a test say,
leaves that program as it is. Only `yield_now` is for everybody.

All threads share one interpreter lock. A thread that computes in Python loses it after the switch interval when another
one asks; a thread inside a long call of Arrow, numpy or the garbage collector keeps it to the end of the call.
So long work is done in pieces of a millisecond or two with `yield_now` between them, and the collector has little to
walk.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import resource
import sys
import time

# A thread that computes gives way after half a millisecond: a request beside a flush waits 2 ms instead of 15.
SWITCH_INTERVAL_SECONDS = 0.0005
# A full collection walks every row in memory, so it is made rare. Cycles are rare too, and mostly young.
COLLECTOR_THRESHOLDS = (50_000, 50, 1000)
# Open files that are asked for; the next one when the system refuses.
FILE_LIMITS = (1 << 20, 1 << 16, 10_240)
# Of the process's limit half is for store files, as far as that makes sense.
OPEN_STORE_FILES_MIN, OPEN_STORE_FILES_MAX = 16, 16_384
# glibc's allocator: numbers of mallopt, and what they are set to. By itself it makes eight arenas a core, each of which
# keeps what one thread frees from all others; and a large block that was freed once makes it keep all later ones.
# A block beyond the second setting is mapped when it is asked for and unmapped when it is freed, and the system clears
# each of its pages: so it is more than a scan's batch of 1 MiB, for which that took a tenth of the scan's time.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
ALLOCATOR_SETTINGS = ((_M_ARENA_MAX, 2), (_M_MMAP_THRESHOLD, 2 << 20), (_M_TRIM_THRESHOLD, 16 << 20))
_MADV_DONTNEED = 4
# A real sleep, and short enough to cost a flush some hundredths. os.sched_yield lets go of the interpreter lock too,
# but takes it back before a thread on another core has woken: 2,000 times in a row at worst, where this took 4.
YIELD_SECONDS = 20e-6


def prepare() -> None:
    """Before anything heavy is imported."""
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    raise_file_limit()
    set_allocator()


def set_allocator() -> None:
    """Lets the C library give back what is freed. Elsewhere than with glibc it is left as it is."""
    library = _glibc()
    if library is not None:
        for setting, value in ALLOCATOR_SETTINGS:
            library.mallopt(setting, value)


def limit_arrow() -> None:
    """Keeps Arrow to one thread of each kind, and lets it give back what is freed.

    Our own threads are those that work, and an idle one costs memory. Of Arrow's allocators jemalloc gives back by
    itself and costs least; mimalloc, the default, keeps for each thread what it ever used.
    """
    import pyarrow as pa

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    if "jemalloc" in pa.supported_memory_backends():
        pa.set_memory_pool(pa.jemalloc_memory_pool())


def give_back() -> None:
    """Gives memory that was freed back to the system, after much of it was: 10 to 60 ms for some 100 MiB."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)


def forget_pages(address: int, byte_count: int) -> None:
    """Pages of a file that is mapped there count as this process's memory no more; it may look at them again.

    `address` is a page's. The bytes are the file's, and stay in the system's memory.
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


def settle() -> None:
    """When it is ready: what stays for the life of the process, modules and recovered rows, is never walked again."""
    gc.collect()
    gc.freeze()


def yield_now() -> None:
    """Lets a thread that waits for the interpreter have it, between two pieces of long work. Costs some 120 µs."""
    time.sleep(YIELD_SECONDS)


def raise_file_limit() -> None:
    """Lets the process hold as many files as it may: each connection is one, and each store file that is open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in FILE_LIMITS:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if soft != resource.RLIM_INFINITY and soft < limit:
            with contextlib.suppress(OSError, ValueError):  # macOS allows less than it says.
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
                return


def open_store_files_of_this_process() -> int:
    """How many store files may be open at once: half of what the process may hold. The rest is for clients."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return OPEN_STORE_FILES_MAX
    return max(OPEN_STORE_FILES_MIN, min(OPEN_STORE_FILES_MAX, limit // 2))
