"""What a reader must know of the machine to judge a figure; nothing that names it."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version

import psutil


def facts() -> dict[str, str]:
    """By what each is called, in the order to show them."""
    return {
        "cores": str(os.cpu_count()),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "grpcio": version("grpcio"),
        "protobuf": version("protobuf"),
        "pyarrow": version("pyarrow"),
    }
