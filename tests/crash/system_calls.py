"""The system calls that change files, and the registers of a stopped thread: Linux on x86_64 and aarch64."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass


class TracerError(Exception):
    """This machine can't trace; the message says why."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The differences between processors: audit architecture, numbers of calls, and places of registers."""

    architecture: int
    calls: dict[str, int]
    arguments: tuple[int, ...]  # indexes of 64-bit registers
    result: int
    number: int | None  # None: set by its own register set


_X86_64 = Machine(
    0xC000003E,
    {
        "write": 1,
        "open": 2,
        "pwrite64": 18,
        "writev": 20,
        "msync": 26,
        "fsync": 74,
        "fdatasync": 75,
        "ftruncate": 77,
        "rename": 82,
        "mkdir": 83,
        "rmdir": 84,
        "creat": 85,
        "link": 86,
        "unlink": 87,
        "openat": 257,
        "mkdirat": 258,
        "unlinkat": 263,
        "renameat": 264,
        "linkat": 265,
        "fallocate": 285,
        "pwritev": 296,
        "renameat2": 316,
        "pwritev2": 328,
    },
    arguments=(14, 13, 12, 7),
    result=10,
    number=15,
)
_AARCH64 = Machine(
    0xC00000B7,
    {
        "mkdirat": 34,
        "unlinkat": 35,
        "linkat": 37,
        "renameat": 38,
        "ftruncate": 46,
        "fallocate": 47,
        "openat": 56,
        "write": 64,
        "writev": 66,
        "pwrite64": 68,
        "pwritev": 70,
        "fsync": 82,
        "fdatasync": 83,
        "msync": 227,
        "renameat2": 276,
        "pwritev2": 287,
    },
    arguments=(0, 1, 2, 3),
    result=0,
    number=None,
)
# The flags' place among the arguments of calls that change files only when they create one.
FLAGS = {"open": 1, "openat": 2}
# Their third argument says how much is written: bytes, or pieces.
WRITES = {"write", "writev", "pwrite64", "pwritev", "pwritev2"}
BY_DESCRIPTOR = {"write", "writev", "pwrite64", "pwritev", "pwritev2", "ftruncate", "fallocate", "fsync", "fdatasync"}


def this_machine() -> Machine:
    """Raises TracerError on a machine that is not known here."""
    name = platform.machine()
    if sys.platform != "linux" or name not in ("x86_64", "aarch64"):
        raise TracerError(f"the tracer knows Linux on x86_64 and aarch64, not {sys.platform} on {name}")
    return _X86_64 if name == "x86_64" else _AARCH64
