"""A standalone HBase and its Thrift gateway: two Java processes in one folder, on free ports of this machine.

HBase's durability is its default: a change is written to its log before it is answered, and not synced. Through the
gateway it can't be any other, and rowlock's `os` is the same.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.hbase.installation import JAVA_OPTIONS, Installation
from bench.programs import free_ports, listens, running_program

_FILES = Path(__file__).parent
_READY = "Master has completed initialization"
_HEAP = "4g"
_GATEWAY_HEAP = "1g"
_PORTS = ("ZOOKEEPER_PORT", "MASTER_PORT", "REGION_PORT", "THRIFT_PORT")


@dataclass(frozen=True, slots=True)
class HBase:
    """A running HBase. `java` starts a Java program that is its client; None if only its gateway is known."""

    gateway: str
    process_ids: tuple[int, ...]
    java: tuple[str, ...] | None
    version: str


def configuration(template: str, folder: Path, ports: dict[str, int]) -> str:
    """Returns hbase-site.xml for this folder and these ports, which have the names of _PORTS."""
    text = template.replace("@FOLDER@", str(folder))
    for name, port in ports.items():
        text = text.replace(f"@{name}@", str(port))
    return text


@contextmanager
def running_hbase(folder: Path, installation: Installation) -> Iterator[HBase]:
    """Runs an HBase with its data in the folder until exit. Raises ProgramFailedError if it fails."""
    ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
    conf = folder / "conf"
    conf.mkdir()
    template = (_FILES / "hbase-site.xml").read_text()
    (conf / "hbase-site.xml").write_text(configuration(template, folder, ports))
    shutil.copy(_FILES / "log4j2.properties", conf)
    class_path = os.pathsep.join([str(conf), installation.class_path])
    java = (installation.java, *JAVA_OPTIONS, "-cp", class_path)
    gateway = f"127.0.0.1:{ports['THRIFT_PORT']}"
    log, gateway_log = folder / "hbase.log", folder / "gateway.log"
    server = [*_with_heap(java, _HEAP), "org.apache.hadoop.hbase.master.HMaster", "start"]
    thrift = [*_with_heap(java, _GATEWAY_HEAP), "org.apache.hadoop.hbase.thrift.ThriftServer"]
    thrift += ["-b", "127.0.0.1", "-p", str(ports["THRIFT_PORT"]), "--infoport", "-1", "start"]
    with (
        # An open port says nothing: the master listens long before it can answer.
        running_program(server, log, lambda: _READY in log.read_text(errors="replace")) as server_id,
        running_program(thrift, gateway_log, lambda: listens(ports["THRIFT_PORT"])) as gateway_id,
    ):
        yield HBase(gateway, (server_id, gateway_id), java, installation.version)


def _with_heap(java: Sequence[str], heap: str) -> list[str]:
    return [java[0], f"-Xmx{heap}", "-XX:+UseG1GC", *java[1:]]
