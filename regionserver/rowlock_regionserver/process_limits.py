"""What to do about an error of the system that comes from a limit of this process, not from the disk."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator


def limit_advice(error: BaseException) -> str:
    """Returns what to do if the error, or one that caused it, is a lack of memory or a file that would be too large.

    Else returns an empty string.
    """
    for each in _causes(error):
        if isinstance(each, MemoryError) or (isinstance(each, OSError) and each.errno == errno.ENOMEM):
            return (
                "the process lacks memory or address space; give it more "
                f"(ulimit -v, which is {_limit(resource.RLIMIT_AS)})"
            )
        if isinstance(each, OSError) and each.errno == errno.EFBIG:
            return (
                "a file may not be so large; raise the limit of the size of a file "
                f"(ulimit -f, which is {_limit(resource.RLIMIT_FSIZE)}), or use a file system that allows larger files"
            )
    return ""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _limit(kind: int) -> str:
    limit, _ = resource.getrlimit(kind)
    return "unlimited" if limit == resource.RLIM_INFINITY else f"{limit} bytes"
