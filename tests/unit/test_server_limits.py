"""What a server's process asks of the system before it serves."""

from __future__ import annotations

import resource
import subprocess
import sys

ASK = """
import resource
from rowlock_regionserver.server import raise_file_limit

_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
raise_file_limit()
raise_file_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


def test_the_server_may_hold_as_many_files_as_the_system_allows() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    least = 10_240 if hard == resource.RLIM_INFINITY else min(hard, 10_240)
    asked = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, timeout=60, check=True)
    assert int(asked.stdout) >= least
