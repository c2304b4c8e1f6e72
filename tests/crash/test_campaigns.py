"""Campaigns in their short form, in separate processes, because campaigns fork and must have one thread to do so.

Each run draws a sixth of them; the long forms of all are `make crash`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.campaign import CAMPAIGNS
from tests.drawn_cases import drawn
from tests.seeds import drawn_seed

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", drawn(list(CAMPAIGNS), len(CAMPAIGNS) // 6, "crash campaigns"))
def test_the_promise_of_the_campaign_holds(name: str) -> None:
    seed = drawn_seed()
    command = [sys.executable, "-m", "tests.crash.campaign", name, "--short", "--seed", str(seed)]
    # Less than the limit of pytest, which would show nothing of what the campaign printed.
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=540)
    print(done.stdout)
    assert done.returncode == 0, f"{' '.join(command[1:])} says\n{done.stdout}\n{done.stderr}"


# Broken builds: a patch of the server, or of the disk that it writes to.
BROKEN_BUILDS = {
    "folders are never synced": "SimulatedFiles.fsync_folder = lambda self, path: None",
    "answers come before the sync": "SimulatedFiles.fdatasync = lambda self, descriptor: None",
    "files are renamed before they are synced": "SimulatedFiles.fsync = lambda self, descriptor: None",
    "records are written twice after a recovery": """
from rowlock_regionserver.region.region_replay import Replay
usual = Replay.apply
def apply(self, write_number, kind, payload):
    usual(self, write_number, kind, payload)
    self._last -= 1
    usual(self, write_number, kind, payload)
Replay.apply = apply
""",
    "a flush forgets the answers": """
from rowlock_regionserver.region.idempotency.idempotency_table import IdempotencyTable
IdempotencyTable.saved = lambda self, after, through: []
""",
}


@pytest.mark.parametrize("name", drawn(list(BROKEN_BUILDS), 2, "broken builds"))
def test_a_crash_at_some_call_reveals_a_broken_build(name: str) -> None:
    program = f"""
from tests.crash.every_call import Crash, crashed
from tests.crash.simulated_files import Moment, SimulatedFiles
{BROKEN_BUILDS[name]}
for call in range(207, 400, 6):
    problems = crashed(Crash(call, Moment.BEFORE, seed=3)).problems
    if problems:
        print(problems[0])
        raise SystemExit(7)
"""
    assert_caught(program)


# Broken builds of commits of bulk writes.
BROKEN_COMMITS = {
    "records of a bulk write count without its commit": """
from rowlock_regionserver.region.region_replay import Replay
Replay.commits = property(lambda self: range(1 << 60), lambda self, commits: None)
""",
    "adopted files count without their commit": """
from rowlock_regionserver.region.manifest import Manifest
usual = Manifest.counted
Manifest.counted = lambda self, commits: usual(self, range(1 << 60))
""",
    "two of four regions adopt the files of a commit": """
from rowlock_regionserver.host.bulk_commit import _Committing
usual = _Committing._linked
def linked(self, commits, *, hides_many):
    return usual(self, dict(list(commits.items())[:2]), hides_many=hides_many)
_Committing._linked = linked
""",
    "bulk files that nothing names stay": """
from rowlock_regionserver.host.opening import Opening
usual = Opening._remove_unnamed_bulk_files
def remove(self, regions, staged):
    self._damaged[0] = None
    greatest = usual(self, regions, staged)
    del self._damaged[0]
    return greatest
Opening._remove_unnamed_bulk_files = remove
""",
}


@pytest.mark.parametrize("name", drawn(list(BROKEN_COMMITS), 1, "broken builds of bulk commits"))
def test_a_crash_before_the_commit_point_reveals_a_broken_build_of_bulk_commits(name: str) -> None:
    """The catalog's files are renamed into place at commit points."""
    program = f"""
from tests.crash.every_call import Crash, crashed
from tests.crash.life import committing_life
from tests.crash.simulated_files import Moment
{BROKEN_COMMITS[name]}
for rename in range(1, 40):
    problems = crashed(Crash(rename, Moment.BEFORE, 3, committing_life, "catalog")).problems
    if problems:
        print(problems[0])
        raise SystemExit(7)
"""
    assert_caught(program)


def assert_caught(program: str) -> None:
    """Runs a program, which ends with status 7 if it finds a problem."""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=600)
    print(done.stdout)
    assert done.returncode == 7, f"{done.stdout}\n{done.stderr}"
