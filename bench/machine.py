"""What a reader must know of the machine to judge a figure; nothing that names it."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version

import psutil


def facts() -> dict[str, str]:
    """By what each is called, in the order to show them. To be asked before anything is measured."""
    return {
        "cores": str(os.cpu_count()),
        # More than a little means that somebody else was at work too, and figures in seconds are too high.
        "load before": f"{os.getloadavg()[0]:.1f}",
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "grpcio": version("grpcio"),
        "protobuf": version("protobuf"),
        "pyarrow": version("pyarrow"),
    }
