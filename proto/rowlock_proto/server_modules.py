"""The modules that only the server needs: those of the extra `rowlock[server]`.

Client and server share this list: the client looks before it starts a server process, and the server before it imports
its own modules. A tidy test compares it with the extra in pyproject.toml.
"""

from __future__ import annotations

import importlib.util

ADVICE = "pip install 'rowlock[server]'"

SERVER_MODULES = ("google_crc32c", "grpc_health", "grpc_reflection", "lmdb", "sortedcontainers", "xxhash")


def missing_server_modules() -> list[str]:
    """Returns the modules of the server that are not installed. Imports none; takes less than a millisecond."""
    return [name for name in SERVER_MODULES if importlib.util.find_spec(name) is None]
