"""`edgecore upgrade`: a node with a pod changes its version, and goes back from a bad one; its containers run on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.location import changing
from modules.processes.edgecore.upgrade.updater.installation import Installation
from modules.processes.edgecore.upgrade.updater.journal import UNFINISHED, NodeObservation, Phase
from modules.processes.edgecore.upgrade.updater.locks import StartLock, owner_of
from modules.processes.edgecore.upgrade.updater.observation import observe_node
from modules.processes.edgecore.upgrade.updater.processes import end_process
from tests.end_to_end.machine import Cloud
from tests.end_to_end.pods import RUN, container, pod
from tests.end_to_end.processes import REPOSITORY, processes_of, run_program, wait_until
from tests.modules.processes.edgecore.upgrade.releases import (
    DIES,
    DOES_NOT_START,
    EATS_MEMORY,
    GOOD,
    KEY,
    NEVER_CONNECTS,
    journal_of,
    make_bundle,
)
from tests.packaging.bundle import public_key
from tests.support.directories import new_directory
from tests.support.own_node import write_node
from tests.support.patience import PATIENCE

_LIMITS: Final = ("--within", "250", "--steady", "1")
_ENDLESS: Final = ("--within", "5000", "--steady", "5000")


class InstalledNode:
    """A node that is run from an installation, in a process of its own."""

    def __init__(self, directory: Path, cloud: str = "") -> None:
        self.directory = directory
        self.root = directory / "n"
        self.installation = directory / "i"
        write_node(self.root, cloud)
        file = self.root / "edgecore.yaml"
        lines = [line for line in file.read_text().splitlines() if "trustedKeys" not in line and line != "upgrade:"]
        file.write_text("\n".join([*lines, "upgrade:", f"  trustedKeys: [{public_key(KEY)}]", ""]))
        (self.root / "manifests").mkdir()
        (self.root / "manifests" / "p.json").write_text(json.dumps(pod("p", container(RUN))))
        self._process: subprocess.Popen[bytes] | None = None

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of this tree's edgecore to its end."""
        return subprocess.run(
            [sys.executable, "-m", "modules.processes.edgecore", *words, "--installation", str(self.installation)],
            cwd=REPOSITORY, capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip

    def upgrade(self, bundle: Path, *words: str) -> subprocess.CompletedProcess[str]:
        """Upgrade to a bundle."""
        return self.command("upgrade", str(bundle), "--root", str(self.root), *_LIMITS, *words)

    def set(self, *settings: str) -> subprocess.CompletedProcess[str]:
        """Change settings, with the program of the installation."""
        return subprocess.run(
            [*self._set(*settings), *_LIMITS], capture_output=True, text=True, timeout=PATIENCE, check=False
        )

    def begin_set(self, *settings: str) -> subprocess.Popen[bytes]:
        """Begin a change of settings whose probation does not end while a test runs."""
        return subprocess.Popen([*self._set(*settings), *_ENDLESS])

    def _set(self, *settings: str) -> list[str]:
        return [str(self.installation / "bin" / "edgecore"), "config", "set", *settings, "--root", str(self.root)]

    def begin_upgrade(self, bundle: Path, *limits: str) -> subprocess.Popen[bytes]:
        """Begin an upgrade to a bundle, whose probation does not end while a test runs unless that limits it."""
        words = ["upgrade", str(bundle), "--root", str(self.root), "--installation", str(self.installation)]
        words += limits or _ENDLESS
        return subprocess.Popen([sys.executable, "-m", "modules.processes.edgecore", *words], cwd=REPOSITORY)

    @property
    def changes(self) -> dict[str, Installation]:
        """Where its version and its configuration are changed."""
        file = self.root / "edgecore.yaml"
        return {"version": Installation(self.installation), "configuration": Installation(changing(file))}

    def phase(self, what: str = "version") -> Phase | None:
        """Return how far the last change of its version, or of its configuration, has come."""
        journal = self.changes[what].journal()
        return None if journal is None else journal.phase

    def kill_all(self) -> None:
        """Kill the updater and the node, and nothing that runs in its pods."""
        updaters = [each.state / "updater.py" for each in self.changes.values()]
        programs = {str(self.installation / name) for name in ("bin/edgecore", "current/bin/edgecore")}
        programs.update(map(str, updaters))
        for process in processes_of(self.directory):
            with suppress(OSError):
                if programs & set(Path(f"/proc/{process}/cmdline").read_text().split("\0")):
                    os.kill(process, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def give_up(self, what: str) -> None:
        """Kill the updater and the node, and write the end of the change that was under way."""
        self.kill_all()
        change = self.changes[what]
        journal = journal_of(change)
        change.finish(journal, Phase.COMMITTED)

    def restart(self) -> bool:
        """Start the node again if it has ended, as a service manager does; return False."""
        has_ended = self._process is not None and self._process.poll() is not None
        if has_ended and self.process == 0:
            self.start()
        return False

    def rollback(self, version: str) -> subprocess.CompletedProcess[str]:
        """Go back to a version."""
        return self.command("rollback", version, "--root", str(self.root), *_LIMITS)

    def versions(self) -> dict[str, Any]:
        """Return what `edgecore versions` says."""
        found: dict[str, Any] = json.loads(self.command("versions", "--json").stdout)
        return found

    def start(self) -> None:
        """Start the node by the launcher."""
        with (self.directory / "node.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self.installation / "bin" / "edgecore", "run", "--root", self.root],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    @property
    def process(self) -> int:
        """The process that runs the node; 0 if none does."""
        return owner_of(self.root / "edged" / "edgecore.lock")

    def observe(self) -> NodeObservation | None:
        """Return the node as it answers."""
        if self._process is not None:
            self._process.poll()
        return observe_node(str(self.root / "edged" / "edged.sock"))

    def wait_running(self, *, connected: bool) -> NodeObservation:
        """Wait until the pod runs; return the node."""
        found: list[NodeObservation] = []

        def runs() -> bool:
            seen = self.observe()
            if seen is None or not seen.containers or seen.connected is not connected:
                return False
            found.append(seen)
            return True

        wait_until(runs, "the node runs its pod")
        return found[-1]

    def stop(self) -> None:
        """Stop the node, whoever has started it, and its pod."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
        while process := self.process:
            end_process(process)
        words = ["uninstall", "--root", str(self.root), "--yes", "--stop"]
        subprocess.run(
            [sys.executable, "-m", "modules.processes.edgecore", *words], cwd=REPOSITORY, check=True, timeout=PATIENCE
        )


@pytest.fixture
def node() -> Iterator[InstalledNode]:
    """A node without a cloud, with a static pod."""
    installed = InstalledNode(new_directory("upgrade"))
    yield installed
    installed.stop()
    shutil.rmtree(installed.directory)


def test_a_better_version_and_one_that_does_not_start(node: InstalledNode) -> None:
    """The container is the same all the time."""
    bundles = node.directory / "b"
    first = node.upgrade(make_bundle(bundles, "1.0.0"))
    assert first.returncode == 0, first.stderr
    node.start()
    before = node.wait_running(connected=False)
    assert before.version == "1.0.0"

    second = node.upgrade(make_bundle(bundles, "1.0.1"))
    assert second.returncode == 0, second.stderr
    seen = node.wait_running(connected=False)
    assert (seen.version, seen.containers) == ("1.0.1", before.containers)
    starting = Installation(node.installation).starting
    assert StartLock(starting).holder() == 0, "a node that runs is not being started"
    opened = Path(f"/proc/{owner_of(node.root / 'edged' / 'edgecore.lock')}/fd")
    assert starting not in [path.resolve() for path in opened.iterdir()]

    restarted = run_program("edgecore", "restart", "--root", str(node.root))
    assert restarted.stdout == f"edgecore 1.0.1 runs, process {owner_of(node.root / 'edged' / 'edgecore.lock')}\n"
    assert node.wait_running(connected=False).containers == before.containers

    bad = node.upgrade(make_bundle(bundles, "1.0.2", DOES_NOT_START))
    assert bad.returncode == ExitCode.NOT_DONE, bad.stderr
    assert "1.0.2 ended 3 times" in bad.stderr
    seen = node.wait_running(connected=False)
    assert (seen.version, seen.containers) == ("1.0.1", before.containers)
    assert node.versions()["last"]["phase"] == "rolled back"


def test_a_setting_and_one_that_lets_it_not_start(node: InstalledNode) -> None:
    """The file is back, with its comments, and the container is the same all the time."""
    first = node.upgrade(make_bundle(node.directory / "b", "1.0.0"))
    assert first.returncode == 0, first.stderr
    file = node.root / "edgecore.yaml"
    file.write_text(f"# mine\n{file.read_text()}")
    node.start()
    before = node.wait_running(connected=False)
    good = node.set("modules.edged.tailoredKubeletConfig.maxPods", "55")
    assert good.returncode == 0, good.stderr
    assert node.wait_running(connected=False).containers == before.containers
    text = file.read_text()
    assert text.startswith("# mine\n")
    assert "maxPods: 55" in text

    kubelet = "modules.edged.tailoredKubeletConfig"
    bad = node.set(f"{kubelet}.address", "203.0.113.9", f"{kubelet}.readOnlyPort", "10255")
    assert bad.returncode == ExitCode.NOT_DONE, bad.stderr
    assert "back to the former one" in bad.stderr
    assert node.wait_running(connected=False).containers == before.containers
    assert file.read_text() == text


@pytest.mark.slow
def test_a_version_that_dies_and_a_way_back_by_hand(node: InstalledNode) -> None:
    bundles = node.directory / "b"
    for version in ("1.0.0", "1.0.1"):
        done = node.upgrade(make_bundle(bundles, version))
        assert done.returncode == 0, done.stderr
        if version == "1.0.0":
            node.start()
        before = node.wait_running(connected=False)
    bad = node.upgrade(make_bundle(bundles, "1.0.2", DIES))
    assert bad.returncode == ExitCode.NOT_DONE
    assert "1.0.2 ended 3 times" in bad.stderr
    assert node.wait_running(connected=False).version == "1.0.1"
    back = node.rollback("1.0.0")
    assert back.returncode == 0, back.stderr
    seen = node.wait_running(connected=False)
    assert (seen.version, seen.containers) == ("1.0.0", before.containers)


@pytest.mark.slow
def test_a_version_that_eats_memory(node: InstalledNode) -> None:
    bundles = node.directory / "b"
    assert node.upgrade(make_bundle(bundles, "1.0.0")).returncode == 0
    node.start()
    before = node.wait_running(connected=False)
    bad = node.upgrade(make_bundle(bundles, "1.0.1", EATS_MEMORY), "--within", "20")
    assert bad.returncode == ExitCode.NOT_DONE
    assert "MiB of memory" in bad.stderr
    seen = node.wait_running(connected=False)
    assert (seen.version, seen.containers) == ("1.0.0", before.containers)


@pytest.mark.slow
@pytest.mark.parametrize("failure", [pytest.param(GOOD, id="good"), pytest.param(DIES, id="bad")])
def test_the_power_fails_on_probation(failure: str, node: InstalledNode) -> None:
    """Node and updater are killed; the next start goes on with the upgrade, whichever way it ends."""
    bundles = node.directory / "b"
    assert node.upgrade(make_bundle(bundles, "1.0.0")).returncode == 0
    node.start()
    before = node.wait_running(connected=False)
    bundle = make_bundle(bundles, "1.0.1", failure)
    with node.begin_upgrade(bundle, "--steady", "1", "--within", "250" if failure == GOOD else "30") as command:
        wait_until(lambda: node.phase() is Phase.PROBATION, "the version is on probation")
        command.kill()
    node.kill_all()
    node.start()
    wait_until(lambda: node.restart() or node.phase() not in UNFINISHED, "the upgrade ends")
    wanted = "1.0.1" if failure == GOOD else "1.0.0"

    def runs() -> bool:
        seen = node.observe()
        return node.restart() or (seen is not None and (seen.version, seen.containers) == (wanted, before.containers))

    wait_until(runs, f"{wanted} runs, with the same container")


@pytest.mark.slow
def test_a_version_that_never_connects() -> None:
    """Of a node that was connected."""
    directory = new_directory("upgrade")
    cloud = Cloud(directory)
    cloud.start()
    node = InstalledNode(directory, f"ws://{cloud.address}")
    try:
        assert node.upgrade(make_bundle(directory / "b", "1.0.0")).returncode == 0
        node.start()
        before = node.wait_running(connected=True)
        bad = node.upgrade(make_bundle(directory / "b", "1.0.1", NEVER_CONNECTS), "--within", "20")
        assert bad.returncode == ExitCode.NOT_DONE
        assert "the node is not connected" in bad.stderr
        seen = node.wait_running(connected=True)
        assert (seen.version, seen.containers) == ("1.0.0", before.containers)
    finally:
        node.stop()
        cloud.kill()
        shutil.rmtree(directory)
