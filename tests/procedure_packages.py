"""A package with row procedures, installed in a folder by the test's own means: a module, and a dist-info beside it.

A process that has the folder on PYTHONPATH finds the procedures as it would after `pip install`.
"""

from __future__ import annotations

import inspect
import os
import textwrap
from collections.abc import Mapping
from pathlib import Path


def write_package(folder: Path, module: str, source: str, procedures: Mapping[str, str]) -> Path:
    """Writes a module and its entry points; `procedures`: MODULE:FUNCTION by name. Returns the folder."""
    information = folder / f"{module}-1.0.dist-info"
    information.mkdir(parents=True)
    (folder / f"{module}.py").write_text(textwrap.dedent(source))
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    points = "".join(f"{name} = {value}\n" for name, value in procedures.items())
    (information / "entry_points.txt").write_text(f"[rowlock.procedures]\n{points}")
    return folder


def write_functions(folder: Path, module: str, source: str) -> Path:
    """Writes a module whose public functions are procedures, each under its own name."""
    namespace: dict[str, object] = {}
    exec(compile(textwrap.dedent(source), module, "exec"), namespace)
    names = [name for name, value in namespace.items() if inspect.isfunction(value) and not name.startswith("_")]
    return write_package(folder, module, source, {name: f"{module}:{name}" for name in names})


def python_path(folder: Path) -> str:
    """Returns the PYTHONPATH for a process that is to find the folder, too."""
    return os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH", ""))))
