"""A standalone HBase and its Thrift gateway: two Java processes in one folder, on free ports of this machine.

HBase's durability is its default: a change is written to its log before it is answered, and not synced. Through the
gateway it can't be any other, and rowlock's `os` is the same.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.client_packages import SetupError
from bench.hbase.installation import JAVA_OPTIONS, Installation
from bench.peers.peer import free_ports, listens

_FILES = Path(__file__).parent
_READY = "Master has completed initialization"
_READY_SECONDS_MAX = 180.0
_STOP_SECONDS_MAX = 60.0
_LOOK_SECONDS = 0.2
_HEAP = "4g"
_GATEWAY_HEAP = "1g"
_PORTS = ("ZOOKEEPER_PORT", "MASTER_PORT", "REGION_PORT", "THRIFT_PORT")


@dataclass(frozen=True, slots=True)
class HBase:
    """A running HBase. `java` starts a Java program that is its client; None if only its gateway is known."""

    gateway: str
    process_ids: tuple[int, ...]
    java: tuple[str, ...] | None


def configuration(template: str, folder: Path, ports: dict[str, int]) -> str:
    """Returns hbase-site.xml for this folder and these ports, which have the names of _PORTS."""
    text = template.replace("@FOLDER@", str(folder))
    for name, port in ports.items():
        text = text.replace(f"@{name}@", str(port))
    return text


@contextmanager
def running_hbase(folder: Path, installation: Installation) -> Iterator[HBase]:
    """Runs an HBase with its data in the folder until exit. Raises SetupError with the log's end if it fails."""
    ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
    conf = folder / "conf"
    conf.mkdir()
    template = (_FILES / "hbase-site.xml").read_text()
    (conf / "hbase-site.xml").write_text(configuration(template, folder, ports))
    shutil.copy(_FILES / "log4j2.properties", conf)
    class_path = os.pathsep.join([str(conf), installation.class_path])
    java = (installation.java, *JAVA_OPTIONS, "-cp", class_path)
    gateway = f"127.0.0.1:{ports['THRIFT_PORT']}"
    with ExitStack() as stack:
        server = stack.enter_context(
            _running(folder / "hbase.log", _with_heap(java, _HEAP), "org.apache.hadoop.hbase.master.HMaster", "start")
        )
        _wait_until(lambda: _READY in (folder / "hbase.log").read_text(errors="replace"), server, folder / "hbase.log")
        words = ["-b", "127.0.0.1", "-p", str(ports["THRIFT_PORT"]), "--infoport", "-1", "start"]
        thrift = stack.enter_context(
            _running(
                folder / "gateway.log",
                _with_heap(java, _GATEWAY_HEAP),
                "org.apache.hadoop.hbase.thrift.ThriftServer",
                *words,
            )
        )
        _wait_until(lambda: listens(ports["THRIFT_PORT"]), thrift, folder / "gateway.log")
        yield HBase(gateway, (server.pid, thrift.pid), java)


def _with_heap(java: Sequence[str], heap: str) -> list[str]:
    return [java[0], f"-Xmx{heap}", "-XX:+UseG1GC", *java[1:]]


@contextmanager
def _running(log: Path, *words: str | Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    command = [part for word in words for part in ([word] if isinstance(word, str) else word)]
    with open(log, "wb") as output:
        # In a session of its own, so that Ctrl-C at the terminal reaches only the bench, which ends it.
        process = subprocess.Popen(
            command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, start_new_session=True, cwd=log.parent
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until(is_ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _READY_SECONDS_MAX
    while not is_ready():
        if process.poll() is not None or time.monotonic() > deadline:
            end = log.read_text(errors="replace")[-3000:]
            state = "ended" if process.poll() is not None else f"was not ready within {_READY_SECONDS_MAX:.0f} s"
            raise SetupError(f"HBase {state}; the end of its log:\n{end}")
        time.sleep(_LOOK_SECONDS)
