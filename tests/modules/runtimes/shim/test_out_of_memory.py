"""Which file says that the kernel has killed a process of a container for its limit of memory."""

import io
from pathlib import Path

import pytest

from modules.runtimes.shim import out_of_memory

_V1 = "3:cpuset:/a/b\n2:memory:/a/b\n1:name=systemd:/a/b\n0::/other\n"
_V2 = "0::/pods/a/b\n"


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in the place of /sys/fs/cgroup, whose group is /pods."""
    monkeypatch.setattr(out_of_memory, "_CGROUPS", str(tmp_path))
    monkeypatch.setattr(out_of_memory, "_mounted_group", lambda: "/pods")
    return tmp_path


@pytest.mark.parametrize(
    ("of_process", "name"), [(_V1, "memory/a/b/memory.oom_control"), (_V2, "a/b/memory.events")], ids=("v1", "v2")
)
def test_the_count_of_kills_decides(groups: Path, of_process: str, name: str) -> None:
    """Of the container's own group; it may be gone."""
    assert not out_of_memory.ran_out_of_memory(of_process)
    file = groups / name
    file.parent.mkdir(parents=True)
    file.write_text("oom_kill_disable 0\nunder_oom 1\noom 3\noom_kill 0\n")
    assert not out_of_memory.ran_out_of_memory(of_process)
    file.write_text("low 0\noom_kill 2\n")
    assert out_of_memory.ran_out_of_memory(of_process)


def test_the_table_of_mounts_is_read_once_at_most() -> None:
    """It has several lines of each pod; where memory has a hierarchy of its own, it is not asked at all."""
    out_of_memory._mounted_group.cache_clear()
    for of_process in (_V1, _V2, _V2, ""):
        assert not out_of_memory.ran_out_of_memory(of_process)
    assert out_of_memory._mounted_group.cache_info().misses == 1


def test_the_group_that_is_mounted_is_found_among_other_mounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a node without root it is not the topmost: the file is at the container's place below it."""
    lines = [
        "29 23 0:25 / /sys/fs/other rw - cgroup2 cgroup2 rw",
        "30 23 0:26 /pods/ /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw",
        "31 23 0:27 /v1 /sys/fs/cgroup rw - tmpfs tmpfs rw",
        "32 23 0:28 / /proc rw - proc proc rw",
    ]
    files = {"/proc/self/mountinfo": "\n".join(lines), "/sys/fs/cgroup/a/b/memory.events": "oom_kill 1\n"}
    monkeypatch.setattr(out_of_memory, "open", lambda path, **_: io.StringIO(files[path]), raising=False)
    out_of_memory._mounted_group.cache_clear()
    assert out_of_memory.ran_out_of_memory(_V2)
    out_of_memory._mounted_group.cache_clear()
