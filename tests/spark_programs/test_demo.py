"""The demo with Spark passes on a part of the flights."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_FLIGHTS = 1000
_SECONDS_MAX = 900


def test_every_comparison_of_the_demo_with_spark_passes(tmp_path: Path) -> None:
    picture = tmp_path / "demo.png"
    ran = subprocess.run(
        [sys.executable, "-m", "bench.demo", "--flights", str(_FLIGHTS), "--picture", str(picture)],
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "comparisons passed" in ran.stdout
    assert "saw one read point of all writers" in ran.stdout
    assert "✗" not in ran.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
