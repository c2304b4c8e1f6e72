"""Imports that other threads run while this one forks.

Python locks a module while a thread imports it, and a fork does not release that lock. A child that imports the module
too would wait forever for a thread that only its parent has. rowlock imports large packages late: pyarrow at the first
scan, and a part of it at the first batch that is compressed.
"""

from __future__ import annotations

import sys
import threading
import time
from types import FrameType

_PACKAGES = frozenset({"google", "grpc", "numpy", "pandas", "pyarrow", "rowlock", "rowlock_proto"})
# Longer than such an import takes on a busy machine.
_WAIT_S_MAX = 5.0
# Nothing reports the end of an import.
_LOOK_AGAIN_S = 0.001


def wait_for_imports(wait_s_max: float = _WAIT_S_MAX) -> None:
    """Blocks until no other thread imports a package that rowlock uses, at most for this long."""
    deadline = time.monotonic() + wait_s_max
    while _are_running() and time.monotonic() < deadline:
        time.sleep(_LOOK_AGAIN_S)


def _are_running() -> bool:
    own = threading.get_ident()
    return any(thread != own and _is_importing(frame) for thread, frame in sys._current_frames().items())


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_find_and_load" and code.co_filename == "<frozen importlib._bootstrap>":
            package = frame.f_locals["name"].partition(".")[0]
            if package in _PACKAGES:
                return True
        frame = frame.f_back
    return False
