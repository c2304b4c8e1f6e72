"""The Python process in which Spark runs a task or a planning step.

PySpark's daemon collects all garbage of a worker after each task. With the modules that a task of ours imports this
takes 20 to 40 ms, more than a small task. So they are excluded from later collections.
"""

from __future__ import annotations

import gc
import sys

_frozen_module_count = 0


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
