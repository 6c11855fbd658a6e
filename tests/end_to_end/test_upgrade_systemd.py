"""`edgecore upgrade` and `config set` of a node that a real systemd runs, in namespaces of its own."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from modules.processes.common.exit_codes import ExitCode
from tests.end_to_end.pods import RUN, container, pod
from tests.end_to_end.processes import REPOSITORY, comes_true, processes_of, wait_until
from tests.modules.processes.edgecore.upgrade.releases import DOES_NOT_START, GOOD, KEY, make_bundle
from tests.packaging.bundle import public_key
from tests.support.directories import new_directory
from tests.support.own_node import write_node
from tests.support.patience import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(4 * PATIENCE)]
_SYSTEMD = Path("/lib/systemd/systemd")
_HIERARCHIES = (Path("/sys/fs/cgroup/systemd"), Path("/sys/fs/cgroup"))
_LIMITS = ("--within", "250", "--steady", "5")
_START_SECONDS = 120.0


class SystemdMachine:
    """A systemd in namespaces, with a copy of this machine's files that nobody else sees."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._own = directory / "m"
        self._own.mkdir()
        self._group = next(each for each in _HIERARCHIES if (each / "cgroup.procs").exists()) / directory.name
        self._group.mkdir()
        script = Path(__file__).with_name("systemd_machine.sh")
        words: list[str | Path] = [
            "sh", "-c", 'echo $$ >"$1" && shift && exec "$@"', "sh", self._group / "cgroup.procs",
            "unshare", "--mount", "--pid", "--cgroup", "--fork", "--kill-child", "sh", script, self._own,
        ]  # fmt: skip
        with (directory / "log").open("wb") as log:
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def systemd(self) -> str:
        """Return the process id of systemd; empty if it does not run."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        with suppress(OSError):
            for child in children.read_text().split():
                if Path(f"/proc/{child}/comm").read_text() == "systemd\n":
                    return child
        return ""

    def do(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command there."""
        entered = ["nsenter", "--target", self.systemd(), "--mount", "--pid", "--root", "--wd"]
        return subprocess.run([*entered, *words], capture_output=True, text=True, timeout=2 * PATIENCE, check=False)

    def runs(self) -> bool:
        """Return whether systemd has started."""
        return bool(self.systemd()) and self.do("systemctl", "is-system-running").stdout == "running\n"

    def end(self) -> None:
        """End it with all that runs there."""
        self._process.kill()
        self._process.wait()
        wait_until(lambda: not processes_of(self._directory), "all of it has ended")
        for group, _, _ in os.walk(self._group, topdown=False):
            wait_until(lambda group=group: _removed(Path(group)), "its control groups are gone")  # type: ignore[misc]


def _removed(group: Path) -> bool:
    with suppress(OSError):
        group.rmdir()
    return not group.exists()


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory with a node, a static pod and bundles; the machine sees them, and keeps what it changes to itself."""
    made = new_directory("sd-")
    write_node(made / "n")
    file = made / "n" / "edgecore.yaml"
    lines = [line for line in file.read_text().splitlines() if "trustedKeys" not in line and line != "upgrade:"]
    file.write_text("\n".join([*lines, "upgrade:", f"  trustedKeys: [{public_key(KEY)}]", ""]))
    (made / "n" / "manifests").mkdir()
    (made / "n" / "manifests" / "p.json").write_text(json.dumps(pod("p", container(RUN))))
    for version, failure in (("1.0.0", GOOD), ("1.0.1", GOOD), ("1.0.2", DOES_NOT_START)):
        make_bundle(made / "b", version, failure)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def machine(directory: Path) -> Iterator[SystemdMachine]:
    """Start the machine."""
    if os.geteuid() != 0:
        pytest.skip("only root starts a systemd")
    if not _SYSTEMD.exists():
        pytest.skip("systemd is not installed")
    made = SystemdMachine(directory)
    try:
        if not comes_true(made.runs, _START_SECONDS):
            pytest.skip("systemd does not run in namespaces here")
        yield made
    finally:
        made.end()


def test_upgrades_and_a_setting(machine: SystemdMachine, directory: Path) -> None:
    """By transient units; the container is the same all the time, and a version that does not start goes back."""
    node, launcher, bundles = directory / "n", directory / "i" / "bin" / "edgecore", directory / "b"
    where = ("--root", node)

    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        done = machine.do(launcher, *words, *where)
        assert done.returncode in (0, ExitCode.NOT_DONE), done.stdout + done.stderr
        return done

    def identity() -> str:
        path = "jsonpath={.items[0].status.containerStatuses[0].containerID}"
        return machine.do(launcher, "get", "pods", "-A", "-o", path, *where).stdout.strip()

    first = ("upgrade", bundles / "1.0.0.bundle", "--installation", directory / "i", *where)
    done = machine.do("env", "-C", REPOSITORY, sys.executable, "-m", "modules.processes.edgecore", *first)
    assert done.returncode == 0, done.stdout + done.stderr
    done = machine.do("sh", "-c", f"{launcher} unit --root {node} >/etc/systemd/system/edgecore.service")
    assert done.returncode == 0, done.stderr
    assert machine.do("systemctl", "daemon-reload").returncode == 0
    assert machine.do("systemctl", "start", "edgecore").returncode == 0
    wait_until(identity, "the node runs its pod")
    before = identity()

    good = run("upgrade", bundles / "1.0.1.bundle", *_LIMITS)
    assert good.returncode == 0, good.stderr
    assert identity() == before
    bad = run("upgrade", bundles / "1.0.2.bundle", *_LIMITS)
    assert bad.returncode == ExitCode.NOT_DONE
    assert "1.0.2 ended 3 times" in bad.stderr
    wait_until(lambda: identity() == before, "the node is back, with the same container")
    found = json.loads(machine.do(launcher, "versions", "--json").stdout)
    assert (found["current"], found["last"]["phase"]) == ("1.0.1", "rolled back")
    setting = run("config", "set", "modules.edged.tailoredKubeletConfig.maxPods", "44", *_LIMITS)
    assert setting.returncode == 0, setting.stderr
    assert identity() == before
