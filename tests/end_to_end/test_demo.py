"""The demo without Spark passes on a part of the flights, kill and restart included."""

from __future__ import annotations

import subprocess
import sys

_FLIGHTS = 4000
_SECONDS_MAX = 900


def test_every_comparison_of_the_demo_passes() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "bench.demo", "--flights", str(_FLIGHTS), "--without-spark"],
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.startswith("The demo loads the flights")
    assert "comparisons passed" in ran.stdout
    assert "server killed after" in ran.stdout
    assert "✗" not in ran.stdout
