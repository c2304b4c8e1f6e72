"""What the server's process asks of Python, Arrow and the system, so that requests don't wait for one another.

Called by the command alone, before it serves and when it is ready: a `Server` inside another program, a test say,
leaves that program as it is. Only `give_way` is for everybody.

All threads share one interpreter lock. A thread that computes in Python loses it after the switch interval when another
one asks; a thread inside a long call of Arrow, numpy or the garbage collector keeps it to the end of the call.
Hence: long work is done in pieces of a millisecond or two, `give_way` stands between them, and the collector has little
to walk.
"""

from __future__ import annotations

import contextlib
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
OPEN_STORE_FILES_LEAST, OPEN_STORE_FILES_MOST = 16, 16_384
# A real sleep, and short enough to cost a flush some hundredths. os.sched_yield lets go of the interpreter lock too,
# but takes it back before a thread on another core has woken: 2,000 times in a row at worst, where this took 4.
GIVE_WAY_SECONDS = 20e-6


def prepare() -> None:
    """Before anything heavy is imported."""
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    raise_file_limit()


def limit_arrow() -> None:
    """Keeps Arrow to one thread of each kind: our own threads are those that work, and an idle one costs memory."""
    import pyarrow as pa

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)


def settle() -> None:
    """When it is ready: what stays for the life of the process, modules and recovered rows, is never walked again."""
    gc.collect()
    gc.freeze()


def give_way() -> None:
    """Lets a thread that waits for the interpreter have it, between two pieces of long work. Costs some 120 µs."""
    time.sleep(GIVE_WAY_SECONDS)


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
        return OPEN_STORE_FILES_MOST
    return max(OPEN_STORE_FILES_LEAST, min(OPEN_STORE_FILES_MOST, limit // 2))
