"""The limit of memory is found where version 1 and version 2 of control groups have it, nested or not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from rowlock_regionserver.memory_limit import memory_limit

MIB = 1 << 20
MACHINE_BYTES = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
V2 = "30 24 0:26 {root} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
V1 = "36 33 0:31 {root} /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory"
CPU = "35 33 0:30 / /sys/fs/cgroup/cpu rw,nosuid - cgroup cgroup rw,cpu,cpuacct"
NONE = str((1 << 63) - 4096)


class System:
    """A root folder with what /proc and /sys/fs/cgroup say."""

    def __init__(self, root: Path, group: str, mount: str, mount_root: str = "/") -> None:
        self.root = root
        self.write("proc/self/cgroup", group)
        self.write(
            "proc/self/mountinfo", f"22 1 0:5 / / rw - ext4 /dev/vda rw\n{CPU}\n{mount.format(root=mount_root)}\n"
        )

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def limit(self) -> int:
        return memory_limit(self.root)


def test_a_container_with_version_2_sees_its_own_group_as_the_root(tmp_path: Path) -> None:
    system = System(tmp_path, "0::/\n", V2)
    system.write("sys/fs/cgroup/memory.max", "536870912\n")
    assert system.limit() == 512 * MIB


def test_of_nested_groups_the_smallest_limit_counts(tmp_path: Path) -> None:
    system = System(tmp_path, "0::/pod/app/part\n", V2)
    system.write("sys/fs/cgroup/pod/app/part/memory.max", "max\n")
    system.write("sys/fs/cgroup/pod/app/memory.max", str(700 * MIB))
    system.write("sys/fs/cgroup/pod/memory.max", str(600 * MIB))
    system.write("sys/fs/cgroup/memory.max", "max\n")
    assert system.limit() == 600 * MIB
    system.write("sys/fs/cgroup/pod/app/memory.high", str(500 * MIB))
    assert system.limit() == 500 * MIB, "beyond it the process is held up until it frees some"


def test_version_1_and_its_number_for_no_limit(tmp_path: Path) -> None:
    system = System(tmp_path, "5:cpu,cpuacct:/other\n4:memory:/docker/abc\n0::/\n", V1)
    system.write("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", NONE)
    system.write("sys/fs/cgroup/memory/memory.limit_in_bytes", NONE)
    assert system.limit() == MACHINE_BYTES
    system.write("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", str(256 * MIB))
    assert system.limit() == 256 * MIB


def test_a_group_that_is_mounted_as_the_root_is_the_process_s_own(tmp_path: Path) -> None:
    """As in a container without a name space for control groups: the path is the one outside."""
    system = System(tmp_path, "4:memory:/docker/abc\n", V1, mount_root="/docker/abc")
    system.write("sys/fs/cgroup/memory/memory.limit_in_bytes", str(300 * MIB))
    assert system.limit() == 300 * MIB
    system = System(tmp_path, "4:memory:/elsewhere\n", V1, mount_root="/docker/abc")
    assert system.limit() == 300 * MIB


def test_a_path_out_of_the_name_space_is_not_followed(tmp_path: Path) -> None:
    system = System(tmp_path, "0::/../../other\n", V2)
    system.write("sys/fs/cgroup/memory.max", str(400 * MIB))
    assert system.limit() == 400 * MIB


@pytest.mark.parametrize("text", ["", "garbage", "max", "-5", "\x00"])
def test_files_that_can_not_be_parsed_limit_nothing(tmp_path: Path, text: str) -> None:
    system = System(tmp_path, f"{text}\n0::/\n", V2)
    system.write("sys/fs/cgroup/memory.max", text)
    assert system.limit() == MACHINE_BYTES
    assert memory_limit(tmp_path / "nothing") == MACHINE_BYTES


def test_the_machine_s_memory_is_a_limit_too(tmp_path: Path) -> None:
    system = System(tmp_path, "0::/\n", V2)
    system.write("sys/fs/cgroup/memory.max", str(1 << 60))
    assert 0 < system.limit() == MACHINE_BYTES
