"""Describes a Python process of Spark: its Python, its versions, and whether it reaches the server.

Spark sends this module by value to executors that may lack rowlock, so outside of functions it imports only the
standard library.
"""

from __future__ import annotations

import json
import os
import platform
import socket
import sys
import time
from importlib import import_module, metadata

PACKAGES = ("rowlock", "pyspark", "pyarrow", "grpcio", "protobuf", "numpy")
# Modules of packages that may be shipped without pip's metadata.
_MODULES = {"grpcio": "grpc", "protobuf": "google.protobuf"}

NOT_INSTALLED = "none"


def describe_process(place: str, server: str | None, timeout_s: float) -> str:
    """Returns the description of this process, as JSON of the fields of report.Place."""
    found = {
        "place": place,
        "host": socket.gethostname(),
        # Executors on one host have different folders.
        "folder": os.getcwd(),
        "python": sys.executable,
        "python_version": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }
    has_reached, answer = (False, "") if server is None else _reach(server, timeout_s)
    return json.dumps({**found, "server": answer, "has_reached": has_reached})


def _version(name: str) -> str:
    module_name = _MODULES.get(name, name)
    try:
        module = import_module(module_name)
    except ImportError:
        return NOT_INSTALLED
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        # vars(), because a module-level __getattr__ may look into the metadata as well.
        return str(vars(module).get("__version__", "unknown"))


def _reach(server: str, timeout_s: float) -> tuple[bool, str]:
    """Returns whether the server answered, and its version and latency or the error."""
    try:
        import rowlock

        start = time.monotonic()
        with rowlock.connect(server, timeout=timeout_s) as client:
            version = client.server_info().version
    except Exception as error:  # it becomes a problem of the report
        return False, f"not reached: {type(error).__name__}: {error}"
    return True, f"rowlock {version}, {(time.monotonic() - start) * 1000:.0f} ms"
