"""What to do about an error of the system that comes from a limit of this process, not from the disk.

A lack of memory is a MemoryError of Python or Arrow, or ENOMEM from the system. Work that has changed nothing yet
raises OutOfMemoryError then, and is repeated. A failed sync is final, whatever its error is.
"""

from __future__ import annotations

import contextlib
import errno
import resource
from collections.abc import Iterator
from pathlib import Path

from rowlock_regionserver.errors import OutOfMemoryError, UnknownOutcomeError

_RETRY_AFTER_MS = 200


@contextlib.contextmanager
def memory_error_refused(what: Path | str) -> Iterator[None]:
    """Raises OutOfMemoryError for a MemoryError of the block, which works on `what` and can be repeated then."""
    try:
        yield
    except MemoryError as error:
        raise out_of_memory(what, error) from error


@contextlib.contextmanager
def lack_of_memory_refused(path: Path) -> Iterator[None]:
    """Raises OutOfMemoryError for ENOMEM too. The block must sync nothing: the error of a sync is final."""
    with memory_error_refused(path):
        try:
            yield
        except OSError as error:
            if error.errno != errno.ENOMEM:
                raise
            raise MemoryError(error.strerror or str(error)) from error


@contextlib.contextmanager
def memory_error_final(path: Path) -> Iterator[None]:
    """Raises UnknownOutcomeError, which ends the server, for a MemoryError of the block, which can't be repeated."""
    try:
        yield
    except MemoryError as error:
        raise UnknownOutcomeError(
            f"the process lacked memory or address space in the middle of a change of {path}{detail_of(error)}"
        ) from error


def out_of_memory(what: Path | str, error: MemoryError) -> OutOfMemoryError:
    """Returns the refusal of work on `what`, which has changed nothing."""
    return OutOfMemoryError(
        f"the server lacks memory or address space for {what}{detail_of(error)}; nothing was changed, retry, or "
        "give it more",
        retry_after_ms=_RETRY_AFTER_MS,
    )


def detail_of(error: MemoryError) -> str:
    """Returns what the error itself says, in parentheses after a blank; nothing if it says nothing."""
    return f" ({error})" if str(error) else ""


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
