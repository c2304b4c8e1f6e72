"""The properties of the machine that a reader of figures must know, without anything that identifies it."""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
from importlib.metadata import version

import psutil


def facts() -> dict[str, str]:
    """Returns the properties by name, in the order to show them. Call it before measuring, because of the load."""
    return {
        "cores": str(os.cpu_count()),
        # A high load means that other programs were running too, and that figures in seconds are too high.
        "load before": f"{os.getloadavg()[0]:.1f}",
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": f"{platform.python_version()}{'' if _is_optimized() else ' (not an optimized build)'}",
        "grpcio": version("grpcio"),
        "protobuf": version("protobuf"),
        "pyarrow": version("pyarrow"),
    }


def _is_optimized() -> bool:
    # A distribution optimizes its own build, whatever its configuration says of it.
    return sys.base_prefix == "/usr" or "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
