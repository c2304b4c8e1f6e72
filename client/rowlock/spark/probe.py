"""What one Python process of Spark is like: which Python, which versions, and whether it reaches the server.

It is sent by value to executors that may have no rowlock, so it imports nothing but the standard library outside of
functions.
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
# Of those that may be shipped without what pip notes of them.
_MODULES = {"grpcio": "grpc", "protobuf": "google.protobuf"}

NOT_INSTALLED = "none"


def probed(place: str, server: str | None, timeout_s: float) -> str:
    """What this process is like, as JSON of the fields of report.Place."""
    found = {
        "place": place,
        "host": socket.gethostname(),
        # Executors of one host have folders of their own.
        "folder": os.getcwd(),
        "python": sys.executable,
        "python_version": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }
    has_reached, answer = (False, "") if server is None else _reached(server, timeout_s)
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
        # Of a module with an attribute that looks there as well it is not asked for.
        return str(vars(module).get("__version__", "unknown"))


def _reached(server: str, timeout_s: float) -> tuple[bool, str]:
    """Whether the server answered, and how, or why not."""
    try:
        import rowlock

        began = time.monotonic()
        with rowlock.connect(server, timeout=timeout_s) as client:
            version = client.server_info().version
    except Exception as error:  # the report names it
        return False, f"not reached: {type(error).__name__}: {error}"
    return True, f"rowlock {version}, {(time.monotonic() - began) * 1000:.0f} ms"
