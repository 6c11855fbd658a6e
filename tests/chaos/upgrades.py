"""`make upgrades`: an installed node with pods changes its version again and again, and is killed at random steps.

`python -m tests.chaos.upgrades [--count N] [--power N] [--seed N] [--pods N] [--only embedded|oci] [--beds N]`: so many
upgrades and ways back of connected nodes on each runtime, up to 50 of each node, several nodes side by side. The
ordering command, the updater or the launcher is killed after a step that is drawn, alone or with edgecore, four times
in five once the switch has begun; one in four is killed once more while it goes on, and one in ten leads to a version
that does not start. Meanwhile objects change at the cloud, and pods come and go. Then so many with a power cut on each:
the node and its installation are on a file system whose disk keeps what was flushed, and the pods end, too. A campaign
that fails is printed, and the others go on; one without enough kills has failed.
All files are in memory: what a disk has is what was flushed to it, however fast it is.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from beehive.files.durable import replace_file
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.upgrade.updater.installation import Installation
from modules.processes.edgecore.upgrade.updater.journal import UNFINISHED, NodeObservation, Phase
from modules.processes.edgecore.upgrade.updater.locks import owner_of
from modules.processes.edgecore.upgrade.updater.observation import observe_node
from modules.runtimes.engine.errors import StateDirectoryError
from tests.chaos.kills import pod_of_version, text_of
from tests.end_to_end.machine import Edge, Machine
from tests.end_to_end.pods import config_map, container, is_ready, pod
from tests.end_to_end.power import lose_power
from tests.end_to_end.processes import REPOSITORY, processes_of, run_program, wait_until
from tests.end_to_end.runtimes import EmbeddedUnderTest, OciUnderTest, RuntimeUnderTest
from tests.modules.processes.edgecore.upgrade.releases import DOES_NOT_START, GOOD, KEY, make_bundle
from tests.modules.runtimes.oci.node import reason_missing
from tests.packaging.bundle import public_key
from tests.support.directories import AT_END, memory_parent
from tests.support.killed_steps import Steps
from tests.support.leftovers import unmount_under
from tests.support.patience import PATIENCE
from tests.support.saying import say

_GOOD: Final = ("1.0.0", "1.0.1")
_BAD: Final = "2.0.0"
_ONCE_SWITCHING: Final = 0.8
"""Share of the kills that come once the switch has begun: those before find nothing changed."""
_SLICE: Final = 50
"""The most upgrades of one node."""
_UPDATER: Final = "/updater.py"
_UNSTAGED: Final = "before it was staged"
_EARLIER: Final = "an earlier run of the kernel"
_DISK_BYTES: Final = 768 << 20
_MOUNT: Final = "loop,noauto_da_alloc,data=writeback,commit=300"
"""As unkind as ext4 can be: nothing is on the disk but what was flushed."""


class UpgradedNode(Edge):
    """A node that is run from an installation."""

    def __init__(self, directory: Path, runtime: RuntimeUnderTest) -> None:
        self.disk = directory / "d"
        """What a power cut hurts."""
        self.disk.mkdir(exist_ok=True)
        super().__init__(self.disk, runtime)
        self.cgroup_root = f"/{directory.name}"
        self.installation = Installation(self.disk / "i")
        self.steps = Steps(directory / "steps")
        self.bundles = {
            version: make_bundle(directory / "b", version, DOES_NOT_START if version == _BAD else GOOD)
            for version in (*_GOOD, _BAD)
        }
        self._output = directory / "edgecore.log"
        self._children: list[subprocess.Popen[bytes]] = []

    def run(self) -> None:
        """Start it (again), with the first version if there is none."""
        if not self.installation.current():
            self._run(*self.order(_GOOD[0])).wait()
        self._run(str(self.installation.launcher), "run", "--config", str(self.file))

    def has(self, version: str) -> bool:
        """Return whether a version is in the installation."""
        return (self.installation.versions / version).exists()

    def order(self, version: str) -> list[str]:
        """Return the command that leads to a version."""
        words = (
            ["rollback", version] if self.has(version) else ["upgrade", str(self.bundles[version]), "--allow-downgrade"]
        )
        words += ["--config", str(self.file), "--installation", str(self.installation.root), "--replay-seconds", "0"]
        words += ["--within", f"{20 if version == _BAD else PATIENCE:.0f}", "--steady", "1"]
        return [sys.executable, "-m", "tests.support.killed_steps", str(self.steps.file), *words]

    def begin(self, version: str) -> subprocess.Popen[bytes]:
        """Order a version; return the command."""
        return self._run(*self.order(version))

    def seen(self) -> NodeObservation | None:
        """Return the node as it answers."""
        for child in self._children:
            child.poll()
        return observe_node(str(self.root / "edged" / "edged.sock"))

    def phase(self) -> Phase | None:
        """Return how far the last upgrade has come."""
        journal = self.installation.journal()
        return None if journal is None else journal.phase

    def is_up(self) -> bool:
        """Return whether edgecore runs, or is being started."""
        for child in self._children:
            child.poll()
        return owner_of(self.root / "edged" / "edgecore.lock") != 0 or bool(self._programs())

    def is_changing(self) -> bool:
        """Return whether an upgrade is under way, or begins: an updater outlives the command that started it."""
        return self.phase() in UNFINISHED or bool(self._programs((_UPDATER,)))

    def kill(self) -> None:
        """Kill edgecore, the updater and the command, and nothing that runs in its pods."""
        while found := self._programs():
            for process in found:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        for child in self._children:
            child.wait()

    def tail(self) -> str:
        """The end of its log, and of the updater's."""
        logs = (self._output, *(self.installation.state / name for name in ("run.log", "updater.log", "journal.json")))
        return "\n".join(f"--- {log}\n{log.read_text(errors='replace')[-6000:]}" for log in logs if log.exists())

    def _config(self, cloud_address: str) -> EdgeCoreConfig:
        config = super()._config(cloud_address)
        upgrade = msgspec.structs.replace(config.upgrade, trusted_keys=[public_key(KEY)])
        return msgspec.structs.replace(config, upgrade=upgrade)

    def _programs(self, names: tuple[str, ...] = ("/bin/edgecore", _UPDATER)) -> list[int]:
        """Return the processes of these programs and of the command; what keeps containers is none of them."""
        root, command = f"{self.installation.root}/", str(self.steps.file)
        found = []
        for process in processes_of(self.disk):
            with suppress(OSError):
                words = Path(f"/proc/{process}/cmdline").read_text().split("\0")
                if any(word == command or (word.startswith(root) and word.endswith(names)) for word in words):
                    found.append(process)
        return found

    def _run(self, *words: str) -> subprocess.Popen[bytes]:
        with self._output.open("ab") as log:
            child = subprocess.Popen(
                words, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._children = [*(each for each in self._children if each.poll() is None), child]
        return child


class Upgraded(NamedTuple):
    """Result of a campaign whose invariants have held."""

    what: str
    seed: int
    upgrades: int
    kills: Counter[str]
    """By the phase of the upgrade; power cuts, if the power fails."""
    power: bool
    committed: int
    rolled_back: int
    unchanged: int
    steps: int

    def __str__(self) -> str:
        return (
            f"{self.what}, seed {self.seed}: {self.upgrades} upgrades of up to {self.steps} steps, "
            f"{_counted(self.kills, power=self.power)}: {self.committed} committed, {self.rolled_back} rolled back, "
            f"{self.unchanged} had changed nothing; one of the two versions ran, no message lost or doubled"
            + ("" if self.power else ", no container restarted")
        )


def _counted(kills: Counter[str], *, power: bool) -> str:
    phases = ", ".join(f"{kills[phase]} {phase}" for phase in (_UNSTAGED, *Phase) if kills[phase])
    return f"{kills.total()} {'power cuts' if power else 'kills'} ({phases or '-'})"


def run(seed: int, count: int, pods: int, *, oci: bool = False, power: bool = False) -> Upgraded:
    """Upgrade so many times.

    Args:
        seed: of what happens.
        count: upgrades.
        pods: of the node.
        oci: whether the pods are OCI containers, not processes.
        power: whether the power fails, in the place of a kill; needs root.

    Raises:
        AssertionError: neither version runs, a container was restarted, or a change was lost or applied twice.
    """
    with ExitStack() as stack:
        runtime = stack.enter_context(OciUnderTest()) if oci else EmbeddedUnderTest()
        campaign = _Campaign(Machine(runtime, memory_parent()), runtime, seed, pods, power=power)
        try:
            return campaign.run(count)
        except BaseException:
            print(campaign.machine.report())  # noqa: T201 - a campaign's only witness
            raise
        finally:
            campaign.close()


class _Campaign:
    def __init__(
        self, machine: Machine, runtime: EmbeddedUnderTest | OciUnderTest, seed: int, pods: int, *, power: bool
    ) -> None:
        self.machine = machine
        self._runtime = runtime
        self._power = power
        self._what = f"{runtime.endpoint}, {pods} pods"
        self._seed, self._draw = seed, random.Random(f"{seed} upgrades")  # noqa: S311 - reproducible on purpose
        self._disk, self._image = machine.directory / "d", machine.directory / "disk.img"
        if power:
            self._disk.mkdir()
            self._image.touch()
            os.truncate(self._image, _DISK_BYTES)
            subprocess.run(["mkfs.ext4", "-q", self._image], check=True)
            self._mount()
        self._edge = machine.edge = UpgradedNode(machine.directory, runtime)
        self._names = [f"p{number}" for number in range(pods)]
        self._version = 0
        self._kills: Counter[str] = Counter()
        self._before: dict[bool, int] = {}
        """Steps until the switch begins, by whether the version was there already."""
        self._after: dict[bool, int] = {}
        """Steps from then on of upgrades that were not killed, by whether the version is bad."""
        self._containers: dict[str, str] = {}
        self._ends = dict.fromkeys((Phase.COMMITTED, Phase.ROLLED_BACK, None), 0)

    def run(self, count: int) -> Upgraded:
        self.machine.start()
        replace_file(self._edge.file, self._edge.file.read_bytes())  # an owner's file: an empty one begins another node
        self._change()
        for name in self._names:
            self.machine.cloud.pods.wait(name, is_ready)
        self._containers = dict.fromkeys(self._names, "") if self._power else self._running()
        self._upgrade(0, _GOOD[1], 0)
        for number in range(1, count):
            origin = self._edge.installation.current()
            target = _BAD if self._draw.random() < 0.1 else next(each for each in _GOOD if each != origin)
            before = self._before.get(self._edge.has(target), 0)
            is_switching = not before or self._draw.random() < _ONCE_SWITCHING
            step = self._draw.randint(1, self._after[target == _BAD] if is_switching else before)
            self._upgrade(number, target, step, switching=is_switching)
        self._check(count)
        assert self._kills.total() >= count // 2, f"{count} upgrades, only {self._kills.total()} kills"
        ends = self._ends[Phase.COMMITTED], self._ends[Phase.ROLLED_BACK], self._ends[None]
        most = max(self._before.values()) + max(self._after.values())
        return Upgraded(self._what, self._seed, count, self._kills, self._power, *ends, most)

    def close(self) -> None:
        self._edge.kill()
        if self._power:
            wait_until(self._is_clear, "nobody uses the runtime's directory")
            unmount_under(self._disk)
        self.machine.close()

    def _is_clear(self) -> bool:
        """Clear the runtime; False while a child of the killed edgecore still has its lock."""
        try:
            self.machine.runtime.clear(self._edge.root / "edged")
        except StateDirectoryError:
            return False
        return True

    def _upgrade(self, number: int, target: str, step: int, *, switching: bool = False) -> None:
        edge, origin = self._edge, self._edge.installation.current()
        ended_before, had_version, was_killed = edge.installation.journal(), edge.has(target), False
        edge.steps.arm(step, switching=switching)
        again = self._draw.randint(1, 15) if self._draw.random() < 0.25 else 0
        alone = self._draw.random() < 0.5
        command = edge.begin(target)
        self._change()
        short = pod(f"r{number}", container())
        self.machine.cloud.apply(short)
        wait_until(lambda: edge.steps.reached() or command.poll() is not None, "the upgrade ends, or is killed")
        if edge.steps.switch:
            self._before[had_version] = edge.steps.switch - 1
        if not edge.steps.reached():
            assert edge.installation.journal() != ended_before, f"{target} was not begun\n{edge.tail()}"
            self._after[target == _BAD] = after = edge.steps.done - edge.steps.switch + 1
            self._after.setdefault(True, 2 * after)
        while edge.steps.reached():
            was_killed = True
            journal = edge.installation.journal()
            self._kills[_UNSTAGED if journal is None or journal == ended_before else journal.phase] += 1
            self._change()
            if self._power:
                self._lose_power()
            elif not alone or edge.phase() in UNFINISHED:
                edge.kill()
            command.wait()
            edge.steps.arm(again)
            again = 0
            if not edge.is_up():
                edge.run()
            what = "the upgrade goes on to its end"
            wait_until(lambda: edge.steps.reached() or self._has_ended(), what, 2 * PATIENCE)
        edge.steps.arm(0)
        self._settle(origin, target, ended_before != edge.installation.journal(), was_killed=was_killed)
        self.machine.cloud.pods.wait(f"r{number}", is_ready)
        self._check_pods({**self._containers, f"r{number}": ""})
        self.machine.cloud.delete("Pod", f"r{number}")
        self.machine.cloud.pods.wait_gone(f"r{number}")
        wait_until(lambda: f"r{number}" not in self._running(), f"r{number} has ended on the node")
        self.machine.cloud.forget()

    def _has_ended(self) -> bool:
        """Return whether no upgrade is under way; a node that has ended is started, as by a service manager."""
        if not self._edge.is_up():
            self._edge.run()
        return not self._edge.is_changing()

    def _settle(self, origin: str, target: str, has_begun: bool, *, was_killed: bool) -> None:
        """Wait until the node is well, with the version that it has to have."""
        edge = self._edge
        journal = edge.installation.journal()
        assert journal is not None or not has_begun
        phase = journal.phase if journal is not None and has_begun and journal.phase is not Phase.STAGED else None
        wanted = target if phase is Phase.COMMITTED else origin
        assert edge.installation.current() == wanted, (phase, origin, target)
        assert target != _BAD or phase is not Phase.COMMITTED, "a version that does not start was kept"
        assert self._power or target == _BAD or phase is not Phase.ROLLED_BACK, journal
        assert phase is not None or was_killed, f"{target} was not begun\n{edge.tail()}"
        self._ends[phase] += 1

        def is_well() -> bool:
            seen = edge.seen()
            if seen is None and not edge.is_up():
                edge.run()
            return seen is not None and seen.version == wanted and seen.connected and not seen.unready

        wait_until(is_well, f"{wanted} runs")

    def _lose_power(self) -> None:
        """Kill everything, and lose what was not flushed."""
        self._edge.kill()
        lose_power(self.machine, self._lose_what_was_not_flushed)

    def _lose_what_was_not_flushed(self) -> None:
        survived = self._image.with_suffix(".cut")
        subprocess.run(["cp", "--sparse=always", self._image, survived], check=True)
        subprocess.run(["umount", self._disk], check=True)
        survived.replace(self._image)
        self._mount()
        if isinstance(self._runtime, OciUnderTest):
            self._runtime.forget_boot()
        journal = self._edge.installation.journal()
        if journal is not None and journal.phase in UNFINISHED:
            journal.boot = _EARLIER
            self._edge.installation.write(journal, journal.phase)

    def _mount(self) -> None:
        subprocess.run(["mount", "-o", _MOUNT, self._image, self._disk], check=True)

    def _change(self) -> None:
        """Give every object another version at the cloud."""
        self._version += 1
        pods = [pod_of_version(name, self._version) for name in self._names]
        self.machine.cloud.apply(config_map("settings", key=str(self._version)), *pods)

    def _running(self) -> dict[str, str]:
        """Return the containers that run on the node, by the names of their pods."""
        seen = self._edge.seen()
        return {} if seen is None else {name.split()[0].split("/")[1]: each for name, each in seen.containers.items()}

    def _check_pods(self, wanted: dict[str, str]) -> None:
        """Wait until these containers run; an id that is known must be the same."""
        found: dict[str, str] = {}

        def all_run() -> bool:
            found.clear()
            found.update(self._running())
            return found.keys() == wanted.keys()

        wait_until(all_run, "the node runs its pods, and no others")
        changed = {name: found[name] for name, known in wanted.items() if known not in ("", found[name])}
        assert not changed, f"a container was made anew: {changed}"

    def _check(self, count: int) -> None:
        """Check that files and cloud have the last version, and what each side has heard of the other."""
        edge, cloud = self._edge, self.machine.cloud
        for name in self._names:
            made = cloud.pods.wait(name, is_ready)
            file = edge.volume(made, "configmap", "settings") / "key"
            wait_until(lambda file=file: text_of(file) == str(self._version), f"{name} has the last version")  # type: ignore[misc]
        wait_until(
            lambda: self._annotations() == dict.fromkeys(self._names, str(self._version)), "all pods are the last"
        )
        self._check_pods(self._containers)
        for name, identity in self._containers.items():
            known = cloud.get("Pod", name)["status"]["containerStatuses"][0]
            assert self._power or (known["containerID"], known["restartCount"]) == (identity, 0), known
        started = [each for each in cloud.mirror("Event").objects() if each.get("reason") == "Started"]
        for number in range(count):
            mine = [each for each in started if each["involvedObject"]["name"] == f"r{number}"]
            assert self._power or len(mine) <= 1, f"the start of r{number} was told {len(mine)} times"

    def _annotations(self) -> dict[str, str]:
        pods = json.loads(run_program("edgecore", "get", "pods", "-o", "json", "--config", str(self._edge.file)).stdout)
        return {each["metadata"]["name"]: each["metadata"]["annotations"].get("version", "") for each in pods["items"]}


class _Slice(NamedTuple):
    """Upgrades of one node."""

    seed: int
    upgrades: int
    pods: int
    oci: bool
    power: bool

    def run(self) -> Upgraded | str:
        """Upgrade; return what has gone wrong, if it has."""
        try:
            return run(self.seed, self.upgrades, self.pods, oci=self.oci, power=self.power)
        except Exception:  # noqa: BLE001 - the other slices go on
            return f"{self}\n{traceback.format_exc()}"
        finally:
            AT_END.close()


def _slices(chosen: argparse.Namespace) -> Iterator[_Slice]:
    can_mount = os.geteuid() == 0 and shutil.which("mkfs.ext4") is not None
    if chosen.power and not can_mount:
        say("power cuts left out: only root mounts, and mkfs.ext4 is needed")
    for runtime in ("embedded", "oci") if chosen.only is None else (chosen.only,):
        if missing := reason_missing() if runtime == "oci" else "":
            say(f"{runtime}: left out: {missing}")
            continue
        for power, count in ((False, chosen.count), (True, chosen.power if can_mount else 0)):
            for number, first in enumerate(range(0, count, _SLICE)):
                seed, many = chosen.seed + number, min(_SLICE, count - first)
                yield _Slice(seed, many, chosen.pods, oci=runtime == "oci", power=power)


def main(words: Sequence[str]) -> int:
    """Run the campaigns that the arguments choose; return how many have failed."""
    parser = argparse.ArgumentParser(description="upgrades of an installed node, killed at random steps")
    parser.add_argument("--seed", type=int, default=1, help="of the first node; the others have the next ones")
    parser.add_argument("--count", type=int, default=1000, help="upgrades with kills, on each runtime (default 1000)")
    parser.add_argument("--power", type=int, default=100, help="upgrades with power cuts (default 100)")
    parser.add_argument("--pods", type=int, default=20, help="of each node (default 20)")
    parser.add_argument("--only", choices=["embedded", "oci"], help="on one of the runtimes")
    parser.add_argument("--beds", type=int, default=2, help="nodes at a time (default 2)")
    chosen = parser.parse_args(words)
    done: list[Upgraded] = []
    failed = 0
    with ProcessPoolExecutor(chosen.beds, get_context("spawn"), max_tasks_per_child=1) as beds:
        for each in as_completed([beds.submit(one.run) for one in _slices(chosen)]):
            result = each.result()
            say(result)
            if isinstance(result, Upgraded):
                done.append(result)
            else:
                failed += 1
    counted = [
        _counted(sum((each.kills for each in done if each.power is power), Counter()), power=power)
        for power in (False, True)
    ]
    say(f"in all: {sum(each.upgrades for each in done)} upgrades, {', '.join(counted)}; {failed} failed")
    return failed if done else 1


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
