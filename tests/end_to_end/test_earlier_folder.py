"""A folder of the version before lines, whose server was killed with a full log: nothing is lost, nothing changes.

folders/killed_before_lines.tar.xz has store files and a bulk file, and a log with single changes and bulk batches,
small and large, after the last flush. The expected answers were given by the server that was killed.
"""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import rowlock

from tests.end_to_end.server_command import MODULE, ServerCommand

ARCHIVE = Path(__file__).parent / "folders" / "killed_before_lines.tar.xz"
TYPED = (21750, "15ded9030ba3361a960a345168e584094ef25c68cde8eb1f2516dad9bc19a017")
POINTS = (60, "3b4e5f35f53cb1783c406612b040012f0c6102954a3bf7534c11d99e4d2d8c56")
VERSIONS = [(b"later 11", 1795462065749), (b"191", 1795462065618), (b"131", 1795462065572)]
MAPPING = "id STRING :key, a BIGINT f:a, b DOUBLE f:b, c STRING f:c"


def digest(rows: Iterable[tuple[bytes, Mapping[bytes, bytes]]]) -> tuple[int, str]:
    """Returns the number of rows and a checksum of their contents."""
    hashed, count = hashlib.sha256(), 0
    for row, data in rows:
        count += 1
        hashed.update(repr((row, sorted(data.items()))).encode())
    return count, hashed.hexdigest()


def check(address: str, *, flushes: bool) -> None:
    """Compares all tables with what the earlier server answered; `flushes`: again when all is in new store files."""
    with rowlock.connect(address) as db:
        typed, points = db.table("typed"), db.table("points")
        for _ in range(1 + flushes):
            assert digest(typed.scan()) == TYPED
            assert digest(points.scan()) == POINTS
            assert points.counter(b"n", b"f:n") == 12
            assert points.cells(b"p011", b"f:x", versions=3) == VERSIONS
            assert points.row(b"p010") == {}
            in_columns = typed.scan().to_arrow(rowlock.Mapping(MAPPING))
            assert in_columns.num_rows == TYPED[0]
            assert in_columns.column("a").null_count == 501
            if flushes:
                db.flush("typed")
                db.flush("points")


def test_a_folder_of_an_earlier_version_is_read_and_written(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with tarfile.open(ARCHIVE) as archive:
        # Python 3.11.0 to 3.11.3 have no filters.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        archive.extractall(folder)
    folder.chmod(0o700)
    for flushes in (True, False):
        with ServerCommand("--data", folder, "--listen", "127.0.0.1:0") as server:
            check(server.ready(), flushes=flushes)
            server.signal(signal.SIGTERM)
            assert server.ended() == (0, "", "")
    verified = subprocess.run([sys.executable, *MODULE, "verify", folder], capture_output=True, text=True, timeout=180)
    assert verified.returncode == 0, verified.stdout + verified.stderr
