"""Finds what a standalone HBase needs: Java, and HBase's jars.

The jars are those of an installed HBase ($HBASE_HOME or --hbase-home), else those that Maven fetches once to
build/hbase/jars by pom.xml.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.client_packages import SetupError

_POM = Path(__file__).with_name("pom.xml")
_FETCHED = Path(__file__).resolve().parents[2] / "build" / "hbase"
_GATEWAY = "hbase-thrift-*.jar"

# What HBase's own start script passes to Java 11 and later.
JAVA_OPTIONS = (
    "-Djava.net.preferIPv4Stack=true",
    "-Dorg.apache.hbase.thirdparty.io.netty.tryReflectionSetAccessible=true",
    "--add-modules=jdk.unsupported",
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in (
            "java.nio",
            "sun.nio.ch",
            "java.lang",
            "jdk.internal.ref",
            "java.lang.reflect",
            "java.util",
            "java.util.concurrent",
        )
    ),
    "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "--add-exports=java.base/sun.net.dns=ALL-UNNAMED",
    "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
)


@dataclass(frozen=True, slots=True)
class Installation:
    """A Java, and the class path of an HBase with its Thrift gateway and its client."""

    java: str
    class_path: str

    @property
    def version(self) -> str:
        """The version of HBase's server, by the name of its jar; `unknown` if there is none."""
        folders = [Path(entry).parent for entry in self.class_path.split(os.pathsep)]
        names = [jar.stem for folder in folders for jar in folder.glob("hbase-server-*.jar")]
        return names[0].removeprefix("hbase-server-") if names else "unknown"


def find_installation(home: str | None) -> Installation:
    """Returns the installation in `home`, or one that Maven fetches. Raises SetupError, which says what is missing."""
    java = _java()
    if home is not None:
        return Installation(java, class_path_of(Path(home)))
    return Installation(java, _all_jars(_fetched_jars()))


def class_path_of(home: Path) -> str:
    """Returns the class path of an installed HBase. Raises SetupError if the folder has no HBase with a gateway."""
    if not any(home.glob(f"lib/**/{_GATEWAY}")):
        raise SetupError(
            f"there is no HBase with a Thrift gateway in {home}: no {_GATEWAY} in its folder lib. Set HBASE_HOME, or "
            "--hbase-home, to the folder of an HBase release"
        )
    folders = sorted({jar.parent for jar in home.glob("lib/**/*.jar")})
    # A release has several loggers to choose from; log4j2.properties configures this one.
    return os.pathsep.join(_all_jars(folder) for folder in folders if folder.name not in ("jdk11", "trace"))


def _all_jars(folder: Path) -> str:
    return str(folder / "*")


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not os.access(java, os.X_OK):
        raise SetupError("HBase needs Java 17, and there is no java on the PATH nor in JAVA_HOME")
    return java


def _fetched_jars() -> Path:
    """Returns the folder of the jars of pom.xml, and fetches them first if they are not there."""
    folder = _FETCHED / f"jars-{hashlib.sha256(_POM.read_bytes()).hexdigest()[:12]}"
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise SetupError(
            "no HBase was found: set HBASE_HOME, or --hbase-home, to the folder of an HBase release; name a running "
            "Thrift gateway by --hbase-gateway HOST:PORT; or install Maven (mvn), which fetches HBase's jars"
        )
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
    command = [maven, "-q", "-B", "-f", str(_POM), f"-Djars={unfinished}", "dependency:copy-dependencies"]
    if subprocess.run(command).returncode != 0:
        raise SetupError(f"Maven could not fetch HBase's jars, see above: {' '.join(command)}")
    unfinished.rename(folder)
    return folder
