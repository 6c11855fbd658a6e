"""The engine with a driver in memory, over random lives: nothing of a pod is left, and none runs that was stopped."""

import itertools
import json
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Event, Thread, Timer, current_thread
from typing import Any
from unittest.mock import Mock

import pytest

from beehive.clock import Clock
from beehive.files.damaged import all_set_aside
from beehive.simulation import Simulation
from modules.runtimes.cri_server.methods import CriMethods
from modules.runtimes.engine import containers, engine, journal, model, state
from modules.runtimes.engine.driver import Driver, EngineParts, OnEnd, WatchingMethod
from modules.runtimes.engine.engine import Engine
from modules.runtimes.engine.errors import (
    NameReservedError,
    NoSuchObjectError,
    RequestRefusedError,
    RunFailedError,
    StateDirectoryError,
    TooManyError,
    WrongStateError,
)
from modules.runtimes.engine.events import STREAM_LIMIT, EventHub
from modules.runtimes.engine.model import RuntimeContainer, Sandbox
from modules.runtimes.engine.process_watcher import ProcessWatcher
from modules.runtimes.engine.records import BootId, ContainerId, ContainerRecord, Exit, PodAddresses, Run
from modules.runtimes.engine.state import StateDirectory
from protos.cri.v1 import api_pb2 as cri
from tests.support.failing import Failing, PlannedError, left_by_repeating
from tests.support.patience import PATIENCE
from tests.support.shortages import lack


class Machine:
    """What outlives an edgecore: networks of sandboxes, and processes."""

    def __init__(self, draw: Random) -> None:
        self.draw = draw
        self.networks: set[str] = set()
        self.running: set[str] = set()
        self.ended: dict[str, int] = {}
        self.meanwhile: Callable[[str], None] = lambda _sandbox: None
        """Called while a sandbox is being made."""

    def fails(self, what: str) -> None:
        """Raise an error now and then."""
        if self.draw.random() < 0.1:
            raise RunFailedError(what, "the machine resists")

    def end(self, container_id: str, code: int) -> None:
        """End a process."""
        self.running.discard(container_id)
        self.ended[container_id] = code


class MemoryContainer(RuntimeContainer):
    """A container of nothing."""

    user = None


class MemoryDriver(Driver[RuntimeContainer]):
    """Makes containers of nothing."""

    runtime_name = "memory"
    container_type = MemoryContainer

    def __init__(self, parts: EngineParts[RuntimeContainer], machine: Machine) -> None:
        super().__init__(parts)
        self._machine = machine
        self.held: set[str] = set()
        """The containers that keep their image."""

    def adopt(self, container: RuntimeContainer, *, rebooted: bool) -> None:
        assert not rebooted
        self.held.add(container.id)
        if container.id in self._machine.running | self._machine.ended.keys():
            container.started(Run(1, self._clock.now_ns()))
        if container.id in self._machine.ended:
            container.finished(self._exit(container))

    def end_unknown(self, directory: Path) -> bool:
        self._machine.end(directory.name, 137)
        return True

    def collect(self) -> None:
        self._machine.networks &= {each.id for each in self._registry.sandboxes()}

    def run_sandbox(self, sandbox: Sandbox) -> PodAddresses:
        self._machine.networks.add(sandbox.id)
        self._machine.meanwhile(sandbox.id)
        self._machine.fails("run")
        self._machine.networks.add(sandbox.id)
        return PodAddresses("192.0.2.9")

    def stop_sandbox(self, sandbox: Sandbox) -> None:
        states = {each.state for each in self._registry.containers(sandbox.id)}
        assert cri.CONTAINER_RUNNING not in states, "a container loses no network"
        self._machine.fails("stop")
        self._machine.networks.discard(sandbox.id)

    def create(self, request: cri.CreateContainerRequest, sandbox: Sandbox) -> RuntimeContainer:
        assert request.pod_sandbox_id == sandbox.id
        container_id = ContainerId(self._new_id())
        record = ContainerRecord(self._clock.now_ns())
        self.held.add(container_id)
        return MemoryContainer(container_id, self._state.containers / container_id, request, record)

    def abort_create(self, container: RuntimeContainer) -> None:
        self.held.discard(container.id)

    def remove(self, container: RuntimeContainer) -> None:
        self._machine.fails("remove")
        self.held.discard(container.id)

    def start(self, container: RuntimeContainer) -> None:
        self._machine.fails("start")
        self._machine.running.add(container.id)
        container.started(Run(1, self._clock.now_ns()))
        self._announcer.started(container)

    def signal(self, container: RuntimeContainer, number: int) -> None:
        if number == 9 or self._machine.draw.random() < 0.5:
            self._machine.end(container.id, 128 + number)
        self.settle()

    def settle(self) -> None:
        for container in self._registry.containers():
            if container.exit is None and container.id in self._machine.ended:
                container.finished(self._exit(container))
                self._announcer.stopped(container)

    def _exit(self, container: RuntimeContainer) -> Exit:
        return Exit(self._machine.ended[container.id], self._clock.now_ns(), "Error", "")

    def update(self, container: RuntimeContainer, wanted: cri.LinuxContainerResources, attempt: str) -> None:
        raise NotImplementedError

    def reopen_log(self, container: RuntimeContainer, attempt: str) -> None:
        raise NotImplementedError

    def exec_sync(self, container: RuntimeContainer, request: cri.ExecSyncRequest, on_end: OnEnd) -> Any:
        raise NotImplementedError

    def stats(self, containers: Sequence[RuntimeContainer]) -> list[cri.ContainerStats]:
        raise NotImplementedError

    def pod_stats(self, sandboxes: Sequence[Sandbox]) -> list[cri.PodSandboxStats]:
        raise NotImplementedError

    def status(self) -> cri.StatusResponse:
        raise NotImplementedError

    def info(self) -> dict[str, str]:
        raise NotImplementedError

    def images(self) -> dict[str, WatchingMethod]:
        raise NotImplementedError


class MemorySettings:
    """The settings of that runtime."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def lock(self, root: Path, clock: Clock) -> StateDirectory:
        return StateDirectory(root)

    def driver(self, parts: EngineParts[RuntimeContainer]) -> MemoryDriver:
        return MemoryDriver(parts, self._machine)


def sandbox_request(name: str, attempt: int) -> cri.RunPodSandboxRequest:
    metadata = cri.PodSandboxMetadata(name=name, namespace="default", uid=f"uid-{name}", attempt=attempt)
    return cri.RunPodSandboxRequest(config=cri.PodSandboxConfig(metadata=metadata))


class Life:
    """Requests of a client, who knows ids of objects that may be gone."""

    def __init__(self, seed: int, root: Path) -> None:
        self.draw = Random(seed)  # noqa: S311 - reproducible on purpose
        self.machine = Machine(self.draw)
        self.machine.meanwhile = self._meanwhile
        self.clock = Simulation(seed).clock
        self.root = root
        self.begin()
        self.stopped: set[str] = set()
        self.sandboxes: list[str] = []
        self.containers: list[str] = []
        self.started: set[str] = set()
        """Containers that cannot be started again, or are of an earlier edgecore."""

    def begin(self) -> None:
        """Starts the runtime."""
        self.engine = Engine(self.root, self.clock, MemorySettings(self.machine))
        self.events = self.engine.events.subscribe()

    def _meanwhile(self, sandbox: str) -> None:
        if self.draw.random() < 0.2:
            self._end(sandbox)

    def _end(self, sandbox: str) -> None:
        end = self.draw.choice([self.engine.sandboxes.stop, self.engine.sandboxes.remove])
        self.stopped.add(sandbox)
        with suppress(RequestRefusedError):
            end(sandbox)

    def act(self) -> None:
        """Do one thing."""
        draw, engine = self.draw, self.engine
        sandbox = draw.choice(self.sandboxes) if self.sandboxes else ""
        container = draw.choice(self.containers) if self.containers else ""
        with suppress(RequestRefusedError):
            match draw.choice(
                ["run", "run", "create", "create", "start", "start", "stop", "remove", "end", "die", "new"]
            ):
                case "run":
                    self.sandboxes.append(engine.sandboxes.run(sandbox_request(draw.choice("ab"), draw.randrange(9))))
                case "create":
                    metadata = cri.ContainerMetadata(name=draw.choice("xy"), attempt=draw.randrange(4))
                    config = cri.ContainerConfig(metadata=metadata)
                    asked = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=config)
                    self.containers.append(engine.containers.create(asked))
                    assert sandbox not in self.stopped
                case "start":
                    engine.containers.start(container)
                    assert container not in self.started, "once"
                    self.started.add(container)
                case "stop":
                    engine.containers.stop(container, draw.choice([0, 0]))
                    assert container not in self.machine.running
                case "remove":
                    engine.containers.remove(container)
                    assert engine.registry.find_container(container) is None
                case "end":
                    self._end(sandbox)
                case "die" if self.machine.running:
                    self.machine.end(draw.choice(sorted(self.machine.running)), 1)
                    engine.settle()
                case "new":
                    self._begin_again()

    def _damage(self) -> str:
        """Lose a file, or make a second object of the name of another; return the newer one of the two."""
        kind = self.draw.choice(["sandboxes", "containers"])
        there = sorted((self.root / kind).iterdir())
        if not there or self.draw.random() < 0.5:
            return ""
        directory = self.draw.choice(there)
        if self.draw.random() < 0.3:
            (directory / self.draw.choice(["record.json", "request.pb"])).write_bytes(b"\xff")
            return ""
        made = directory.with_name(directory.name[::-1])
        shutil.copytree(directory, made)
        record = json.loads((made / "record.json").read_bytes())
        record["created_at"] += (later := self.draw.choice([-1, 1]))
        (made / "record.json").write_text(json.dumps(record))
        self.machine.networks.add(made.name)
        return made.name if later > 0 else directory.name

    def _begin_again(self) -> None:
        self.engine.close()
        newer = self._damage()
        self.begin()
        registry = self.engine.registry
        self.started |= {each.id for each in registry.containers()}
        assert not newer or registry.find_sandbox(newer) or registry.find_container(newer)

    def check(self) -> None:
        """Demand what holds after each request."""
        registry, machine = self.engine.registry, self.machine
        ready = {each.id for each in registry.sandboxes() if not each.record.stopped}
        assert not ready & self.stopped, "what was stopped never becomes ready"
        assert ready <= machine.networks
        assert machine.networks <= {each.id for each in registry.sandboxes()}, "what is not listed has no network"
        there = {each.id: each for each in registry.containers()}
        assert machine.running <= there.keys(), "nothing runs that is not listed"
        for each in there.values():
            assert (each.state == cri.CONTAINER_RUNNING) is (each.id in machine.running)
            assert registry.find_sandbox(each.sandbox_id) is not None
        for table in (registry._sandboxes, registry._containers):
            assert table._reserved == {each.reservation: key for key, each in table.items.items()}
        driver = self.engine.driver
        assert isinstance(driver, MemoryDriver)
        assert driver.held == there.keys()
        while not self.events._queue.empty():
            self._check_event(self.events._queue.get())
        assert {each.name for each in (self.root / "containers").iterdir()} == there.keys()
        assert {each.name for each in (self.root / "sandboxes").iterdir()} == {each.id for each in registry.sandboxes()}

    def _check_event(self, event: cri.ContainerEventResponse | None) -> None:
        assert event is not None
        states = {each.id: each.state for each in event.containers_statuses}
        assert not event.pod_sandbox_status.id or event.pod_sandbox_status.metadata.name in "ab"
        if event.container_id in self.sandboxes or event.container_id not in self.containers:
            return
        expected = {
            cri.CONTAINER_CREATED_EVENT: cri.CONTAINER_CREATED,
            cri.CONTAINER_STARTED_EVENT: cri.CONTAINER_RUNNING,
            cri.CONTAINER_STOPPED_EVENT: cri.CONTAINER_EXITED,
            cri.CONTAINER_DELETED_EVENT: None,
        }[event.container_event_type]
        assert states.get(event.container_id) == expected


@pytest.mark.parametrize("seed", range(12))
def test_lists_have_all_containers_and_stopped_ones_stay_so(seed: int, tmp_path: Path) -> None:
    life = Life(seed, tmp_path / "state")
    for _ in range(60):
        life.act()
        life.check()
    life.machine.meanwhile = lambda _sandbox: None
    for _ in range(100):
        for sandbox in life.engine.registry.sandboxes():
            with suppress(RequestRefusedError):
                life.engine.sandboxes.remove(sandbox.id)
    life.engine.close()
    assert (life.machine.running, life.machine.networks) == (set(), set())
    assert not any(any((life.root / kind).iterdir()) for kind in ("sandboxes", "containers"))


def test_a_sandbox_that_is_removed_while_it_is_made_is_listed_until_its_network_is_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise nobody would release it before the next start of edgecore."""
    life, asked = Life(1, tmp_path / "state"), list[str]()
    sandboxes, registry = life.engine.sandboxes, life.engine.registry
    life.machine.meanwhile = sandboxes.remove

    def fails(what: str) -> None:
        asked.append(what)
        if asked == ["stop", "run", "stop"]:
            raise RunFailedError(what, "the plug-in fails")

    monkeypatch.setattr(life.machine, "fails", fails)
    with pytest.raises(RequestRefusedError, match="stopped meanwhile"):
        sandboxes.run(sandbox_request("a", 0))
    (left,) = registry.sandboxes()
    assert (left.state, life.machine.networks) == (cri.SANDBOX_NOTREADY, {left.id})
    sandboxes.remove(left.id)
    assert (registry.sandboxes(), life.machine.networks) == ([], set())


def test_a_sandbox_is_released_once_but_again_after_a_failure_and_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client stops each sandbox before it removes it, also one that it has stopped before. It hears of its end once,
    also if the first attempt fails.
    """
    life, asked = Life(1, tmp_path / "state"), list[str]()
    life.machine.meanwhile = lambda _sandbox: None

    def fails(what: str) -> None:
        asked.append(what)
        if asked == ["run", "stop"]:
            raise RunFailedError(what, "the plug-in fails")

    monkeypatch.setattr(life.machine, "fails", fails)
    made = life.engine.sandboxes.run(sandbox_request("a", 0))
    with pytest.raises(RequestRefusedError, match="the plug-in fails"):
        life.engine.sandboxes.stop(made)
    for _ in range(2):
        life.engine.sandboxes.stop(made)
    assert asked == ["run", "stop", "stop"]
    life.engine.close()
    told = []
    while (event := life.events._queue.get(timeout=PATIENCE)) is not None:
        told.append(event.container_event_type)
    assert told == [cri.CONTAINER_CREATED_EVENT, cri.CONTAINER_STARTED_EVENT, cri.CONTAINER_STOPPED_EVENT]
    life.begin()
    life.engine.sandboxes.stop(made)
    life.engine.sandboxes.remove(made)
    assert asked == ["run", *["stop"] * 3]
    assert life.engine.registry.sandboxes() == []


def test_a_pods_next_attempt_has_a_name_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sandbox of its last attempt may be there still."""
    life = Life(1, tmp_path / "state")
    monkeypatch.setattr(life.machine, "fails", lambda _what: None)
    life.machine.meanwhile = lambda _sandbox: None
    for attempt in (0, 1):
        life.engine.sandboxes.run(sandbox_request("a", attempt))
    with pytest.raises(NameReservedError):
        life.engine.sandboxes.run(sandbox_request("a", 1))
    life.engine.close()


def test_a_sandboxs_logs_are_in_a_directory_that_does_not_depend_on_ours(tmp_path: Path) -> None:
    life, request = Life(1, tmp_path / "state"), sandbox_request("a", 0)
    request.config.log_directory = "pods/a"
    with pytest.raises(RequestRefusedError, match="not absolute"):
        life.engine.sandboxes.run(request)
    life.engine.close()


def created(life: Life, monkeypatch: pytest.MonkeyPatch, pod: str = "a") -> ContainerId:
    """Create a container, from when on nothing fails by chance."""
    monkeypatch.setattr(life.machine, "fails", lambda _what: None)
    life.machine.meanwhile = lambda _sandbox: None
    sandbox = life.engine.sandboxes.run(sandbox_request(pod, 0))
    config = cri.ContainerConfig(metadata=cri.ContainerMetadata(name="x"))
    return life.engine.containers.create(cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=config))


def test_without_descriptors_no_container_counts_as_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be ended, although it runs and nothing is wrong with it."""
    life = Life(1, tmp_path / "state")
    made = created(life, monkeypatch)
    life.engine.containers.start(made)
    life.engine.close()
    with monkeypatch.context() as patch, pytest.raises(StateDirectoryError, match="Too many open files"):
        lack(patch, state)
        life.begin()
    assert all_set_aside(life.root) == []
    life.begin()
    assert life.engine.registry.find_container(made) is not None
    assert life.machine.running == {made}
    life.engine.close()


def test_a_container_that_is_being_removed_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    life = Life(1, tmp_path / "state")
    made = created(life, monkeypatch)
    registry, found, errors = life.engine.registry, Event(), list[Exception]()
    container = registry.container(made)

    def find(_id: str) -> RuntimeContainer:
        found.set()
        return container

    def start() -> None:
        try:
            life.engine.containers.start(made)
        except RequestRefusedError as error:
            errors.append(error)

    monkeypatch.setattr(registry, "container", find)
    thread = Thread(target=start)
    with container.lifecycle_lock:
        thread.start()
        assert found.wait(PATIENCE)
        thread.join(0.2)
        assert not life.machine.running
        registry.remove_container(made)
    thread.join()
    assert (life.machine.running, [type(each) for each in errors]) == (set(), [NoSuchObjectError])
    life.engine.close()


def test_a_container_is_removed_once_by_two_calls_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one finds nothing left to remove, and succeeds."""
    life = Life(1, tmp_path / "state")
    made = created(life, monkeypatch)
    containers, removed, threads = life.engine.containers, list[RuntimeContainer](), list[Thread]()

    def remove(_driver: MemoryDriver, container: RuntimeContainer) -> None:
        removed.append(container)
        if not threads:
            threads.append(Thread(target=containers.remove, args=(made,)))
            threads[0].start()

    monkeypatch.setattr(MemoryDriver, "remove", remove)
    found, find = Event(), life.engine.registry.find_container

    def found_container(container_id: str) -> RuntimeContainer | None:
        container = find(container_id)
        if threads and current_thread() is threads[0]:
            found.set()
        return container

    monkeypatch.setattr(life.engine.registry, "find_container", found_container)
    monkeypatch.setattr(life.engine.registry, "remove_container", _after(found, life.engine.registry.remove_container))
    containers.remove(made)
    threads[0].join()
    assert [each.id for each in removed] == [made]
    life.engine.close()


def _after(event: Event, function: Callable[[ContainerId], None]) -> Callable[[ContainerId], None]:
    def call(container_id: ContainerId) -> None:
        assert event.wait(PATIENCE)
        function(container_id)

    return call


@pytest.mark.parametrize(
    ("where", "failing"), [(state, "write_soon"), (os, "fdatasync"), (journal.Journal, "add"), (os, "write")]
)
def test_a_container_that_cannot_be_stored_leaves_nothing(
    where: object, failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client tries again for as long as the disk is full."""
    life = Life(1, tmp_path / "state")
    made = created(life, monkeypatch)

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(where, failing, fails)
    sandbox = life.engine.registry.container(made).sandbox_id
    config = cri.ContainerConfig(metadata=cri.ContainerMetadata(name="y"))
    with pytest.raises(OSError, match="No space left"):
        life.engine.containers.create(cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=config))
    assert [each.name for each in (life.root / "containers").iterdir()] == [made]
    assert [each.id for each in life.engine.registry.containers()] == [made], "its name is free"
    life.engine.close()
    told = []
    while (event := life.events._queue.get(timeout=PATIENCE)) is not None:
        told.append(event.container_id)
    assert set(told) == {made, sandbox}, "nobody has heard of it"


@pytest.mark.parametrize("failing", ["discard", "abort_create"])
def test_a_container_that_can_neither_be_stored_nor_undone_is_undone_as_far_as_possible(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its directory nor what its driver has made waits for the other."""
    life = Life(1, tmp_path / "state")
    made = created(life, monkeypatch)
    driver: Any = life.engine.containers._driver
    held = set(driver.held)
    monkeypatch.setattr(journal.Journal, "flush", Failing(0).call(journal.Journal.flush))
    monkeypatch.setattr(driver if failing == "abort_create" else containers, failing, Failing(0).call(lambda *_: None))
    sandbox = life.engine.registry.container(made).sandbox_id
    config = cri.ContainerConfig(metadata=cri.ContainerMetadata(name="y"))
    with pytest.raises(PlannedError):
        life.engine.containers.create(cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=config))
    assert len(list((life.root / "containers").iterdir())) == (2 if failing == "discard" else 1)
    assert (driver.held == held) == (failing == "discard")
    life.engine.close()


def test_a_pod_is_stopped_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That it was stopped is known as long as this edgecore runs; the next one finds no process of it."""
    life = Life(1, tmp_path / "state")
    made = created(life, monkeypatch)
    life.engine.containers.start(made)

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(model, "write_record_soon", fails)
    sandbox = life.engine.registry.container(made).sandbox_id
    life.engine.sandboxes.stop(sandbox)
    assert (life.machine.running, life.machine.networks) == (set(), set())
    assert life.engine.registry.sandbox(sandbox).state == cri.SANDBOX_NOTREADY
    config = cri.ContainerConfig(metadata=cri.ContainerMetadata(name="y"))
    with pytest.raises(WrongStateError):
        life.engine.containers.create(cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=config))
    life.engine.close()


def test_usage_is_listed_of_running_containers_that_a_filter_accepts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By id, by sandbox, and by all labels of the filter."""
    life = Life(1, tmp_path / "state")
    running = created(life, monkeypatch)
    containers, first = life.engine.containers, life.engine.registry.container(running).sandbox_id
    second = life.engine.sandboxes.run(sandbox_request("b", 0))

    def create(sandbox: str, name: str, **labels: str) -> ContainerId:
        config = cri.ContainerConfig(metadata=cri.ContainerMetadata(name=name), labels=labels)
        return containers.create(cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=config))

    create(first, "waiting", app="web")
    labelled, other = create(first, "labelled", app="web", tier="front"), create(second, "other", app="web")
    for each in (running, labelled, other):
        containers.start(each)

    def stats(_driver: MemoryDriver, measured: Sequence[RuntimeContainer]) -> list[cri.ContainerStats]:
        return [cri.ContainerStats(attributes=cri.ContainerAttributes(id=each.id)) for each in measured]

    monkeypatch.setattr(MemoryDriver, "stats", stats)
    monkeypatch.setattr(MemoryDriver, "why_not", {}, raising=False)
    listing = CriMethods(life.engine).table()["ListContainerStats"]

    def listed(**wanted: Any) -> set[str]:
        request = cri.ListContainerStatsRequest(filter=cri.ContainerStatsFilter(**wanted))
        return {each.attributes.id for each in listing(request).stats}

    assert listed() == {running, labelled, other}
    assert listed(pod_sandbox_id=first) == {running, labelled}
    assert listed(label_selector={"app": "web"}) == {labelled, other}
    assert listed(label_selector={"app": "web", "tier": "front"}) == listed(id=labelled) == {labelled}
    assert listed(id=running, pod_sandbox_id=second) == set()
    life.engine.close()


def test_an_exited_container_has_no_limits_to_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    life = Life(1, tmp_path / "state")
    made = created(life, monkeypatch)
    life.engine.containers.start(made)
    life.machine.end(made, 0)
    life.engine.settle()
    with pytest.raises(WrongStateError):
        life.engine.containers.update(made, cri.LinuxContainerResources(cpu_shares=2))
    life.engine.close()


def test_limits_that_the_machine_refuses_are_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client would take them for those in force."""
    life = Life(1, tmp_path / "state")
    made = created(life, monkeypatch)
    resources = life.engine.registry.container(made).config.linux.resources
    monkeypatch.setattr(MemoryDriver, "update", Failing(0).call(MemoryDriver.update))
    with pytest.raises(PlannedError):
        life.engine.containers.update(made, cri.LinuxContainerResources(cpu_shares=2))
    assert resources == cri.LinuxContainerResources()
    life.engine.close()


def test_limits_outlast_edgecore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubelet's part would resize a pod again that has its size, at each start."""
    life = Life(1, tmp_path / "state")
    made = created(life, monkeypatch)
    monkeypatch.setattr(MemoryDriver, "update", lambda *_: None)
    life.engine.containers.update(made, cri.LinuxContainerResources(cpu_shares=2))
    life.engine.close()
    life.begin()
    assert life.engine.registry.container(made).config.linux.resources.cpu_shares == 2
    life.engine.close()


def test_a_container_that_goes_on_was_not_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who stops it while the runtime closes would take its volumes away."""
    life = Life(1, tmp_path / "state")
    container = life.engine.registry.container(created(life, monkeypatch))
    life.engine.containers.start(container.id)
    monkeypatch.setattr(MemoryDriver, "signal", lambda *_: container.abandon())
    with pytest.raises(WrongStateError, match="the container goes on"):
        life.engine.containers.stop(container.id, 0)
    life.engine.close()


def test_nothing_starts_in_a_sandbox_while_its_containers_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that started behind the one that is killed would outlive its pod."""
    life = Life(1, tmp_path / "state")
    first = created(life, monkeypatch)
    container = life.engine.registry.container(first)
    life.engine.containers.start(first)
    seen = list[bool]()

    def kill(*_: object) -> None:
        seen.append(life.engine.registry.sandbox(container.sandbox_id).record.stopped)
        container.finished(Exit(137, 0, "Error", ""))

    monkeypatch.setattr(MemoryDriver, "signal", kill)
    life.engine.sandboxes.stop(container.sandbox_id)
    assert seen
    assert all(seen), "it is stopped before the first is killed"
    life.machine.end(first, 137)
    life.engine.close()


def test_a_container_that_is_starting_is_stopped_when_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edgecore that was killed meanwhile has asked for the start: nobody else would end the container."""
    life = Life(1, tmp_path / "state")
    container = life.engine.registry.container(created(life, monkeypatch))
    monkeypatch.setattr(MemoryContainer, "is_starting", property(lambda each: each.run is None), raising=False)
    decided: Any = Mock(wait=lambda _seconds: life.engine.driver.start(container))
    container.decided = decided
    monkeypatch.setattr(MemoryDriver, "signal", lambda *_: container.finished(Exit(137, 0, "Error", "")))
    life.engine.containers.stop(container.id, 0)
    assert container.state == cri.CONTAINER_EXITED
    life.machine.end(container.id, 137)
    life.engine.close()


def test_what_belongs_to_the_machine_is_let_go_before_another_edgecore_may_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state directory is unlocked last."""
    ended: list[str] = []
    release = StateDirectory.release
    monkeypatch.setattr(MemoryDriver, "close", lambda _driver: ended.append("driver"))

    def released(directory: StateDirectory) -> None:
        ended.append("state")
        release(directory)

    monkeypatch.setattr(StateDirectory, "release", released)
    Life(1, tmp_path / "state").engine.close()
    assert ended == ["driver", "state"]


def test_pods_that_are_over_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    life, pods = Life(1, tmp_path / "state"), itertools.count()
    engine = life.engine

    def cycle() -> None:
        made = created(life, monkeypatch, f"pod-{next(pods)}")
        sandbox = engine.registry.container(made).sandbox_id
        engine.containers.start(made)
        life.machine.end(made, 0)
        engine.settle()
        engine.sandboxes.stop(sandbox)
        engine.sandboxes.remove(sandbox)

    assert not left_by_repeating(cycle, engine.registry, engine.watcher)
    engine.close()


def test_a_grace_period_may_be_longer_than_any_timer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is any number of the client."""
    life = Life(1, tmp_path / "state")
    made = created(life, monkeypatch)
    life.engine.containers.start(made)

    def end() -> None:
        life.machine.end(made, 143)
        life.engine.settle()

    monkeypatch.setattr(MemoryDriver, "signal", lambda *_: Timer(0.1, end).start())
    life.engine.containers.stop(made, float(2**62))
    assert life.engine.registry.container(made).state == cri.CONTAINER_EXITED
    life.engine.close()


@pytest.mark.parametrize("has_links", [True, False])
def test_a_container_gets_its_stop_signal_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    """A second request, with a shorter grace period or of the next edgecore, only waits, and kills it. So it is on a
    file system without hard links.
    """
    if not has_links:
        monkeypatch.setattr(Path, "hardlink_to", Mock(side_effect=PermissionError))
    life = Life(1, tmp_path / "state")
    first, second = created(life, monkeypatch), created(life, monkeypatch, "second")
    sent: list[tuple[str, int]] = []

    def signal(_: MemoryDriver, container: RuntimeContainer, number: int) -> None:
        sent.append((container.id, number))
        if number == 9:
            life.machine.end(container.id, 137)
            life.engine.settle()
        elif sent == [(first, 15)]:
            life.engine.containers.stop(first, 0.001)
        else:
            raise KilledError

    monkeypatch.setattr(MemoryDriver, "signal", signal)
    for each in (first, second):
        life.engine.containers.start(each)
    life.engine.containers.stop(first, 1000.0)
    assert sent == [(first, 15), (first, 9)]
    with pytest.raises(KilledError):
        life.engine.containers.stop(second, 1000.0)
    life.engine.close()
    life.begin()
    life.engine.containers.stop(second, 0.001)
    assert sent[2:] == [(second, 15), (second, 9)]
    life.engine.close()


class KilledError(Exception):
    """An edgecore ends in the middle of a request."""


def test_after_a_reboot_no_sandbox_is_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its network is gone."""
    life = Life(1, tmp_path / "state")
    monkeypatch.setattr(life.machine, "fails", lambda _what: None)
    life.machine.meanwhile = lambda _sandbox: None
    life.engine.sandboxes.run(sandbox_request("a", 0))
    life.engine.close()
    monkeypatch.setattr(engine, "current_boot_id", lambda: BootId("the next"))
    again = Engine(life.root, life.clock, MemorySettings(life.machine))
    assert [each.state for each in again.registry.sandboxes()] == [cri.SANDBOX_NOTREADY]
    again.close()


def test_a_container_that_nobody_knows_is_left_where_it_is_until_it_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing would end it, once its directory is set aside."""
    life = Life(1, tmp_path / "state")
    life.engine.close()
    unknown = life.root / "containers" / "unknown"
    unknown.mkdir()
    found = []
    for ends in (False, True):
        monkeypatch.setattr(MemoryDriver, "end_unknown", lambda _self, _directory, ends=ends: ends)
        Engine(life.root, life.clock, MemorySettings(life.machine)).close()
        found.append(unknown.exists())
    assert found == [True, False]


def test_a_reader_that_is_too_slow_is_disconnected_and_leaves_room_for_another() -> None:
    hub = EventHub()
    streams = [hub.subscribe() for _ in range(STREAM_LIMIT)]
    with pytest.raises(TooManyError):
        hub.subscribe()
    for number in range(5000):
        hub.publish(cri.ContainerEventResponse(created_at=number))
    for stream in streams:
        taken: list[int] = []
        with pytest.raises(TooManyError):
            taken.extend(event.created_at for event in stream)
        assert taken == list(range(len(taken)))
    assert not hub.has_readers
    hub.subscribe()


@pytest.mark.parametrize("is_late", [False, True])
def test_a_reader_that_goes_before_it_reads_leaves_room_for_another(*, is_late: bool) -> None:
    """Four of them, and no client got events any more."""
    hub, callbacks = EventHub(), list[Callable[[], None]]()

    def on_cancel(callback: Callable[[], None]) -> bool:
        callbacks.append(callback)
        return not is_late

    unread = CriMethods(Mock(events=hub)).events(on_cancel)
    assert hub.has_readers is not is_late
    if not is_late:
        callbacks.pop()()
    assert not hub.has_readers
    assert list(unread) == []


class BadLink:
    """The connection of a container whose messages cannot be understood."""

    def __init__(self, *, bad: bool) -> None:
        self.end, self.other = os.pipe()
        self.bad, self.reads, self.is_gone = bad, 0, False

    def fileno(self) -> int:
        return self.end

    def read(self) -> bool:
        os.read(self.end, 1)
        self.reads += 1
        if self.bad:
            raise ValueError("nonsense")
        return True

    def gone(self) -> None:
        self.is_gone = True
        raise ValueError("nonsense again")

    def close(self) -> None:
        os.close(self.end)
        os.close(self.other)


def test_an_error_about_one_container_leaves_the_watch_of_the_others() -> None:
    watcher = ProcessWatcher()
    links = [BadLink(bad=number % 2 == 0) for number in range(4)]
    for link in links:
        watcher.add(link)
    for _ in range(3):
        for link in links:
            os.write(link.other, b"x")
        watcher.settle()
    assert [(link.reads, link.is_gone) for link in links] == [(1, True), (3, False)] * 2
    watcher.stop()
    for link in links:
        if link.bad:
            link.close()
