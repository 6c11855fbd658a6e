"""Lives of mappers that a seed draws, in virtual time: processes end and come back, objects change, calls are refused.

In the end each mapper has what it is to have, and nothing else is remembered of anything.
"""

from __future__ import annotations

import json
import random
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pytest

from beehive.runtime import Future
from beehive.testing import Harness
from edged.errors import PluginCallError
from metamanager.client import AsyncMetaClient, CallError
from metamanager.module import MetaManager, MetaSettings
from metamanager.store import open_store
from modules.edge.devicetwin.module import DeviceTwin, TwinSettings
from modules.edge.devicetwin.state import decode
from modules.edge.dmi import module as dmi_module
from modules.edge.dmi import session
from modules.edge.dmi.catalogue import Catalogue
from modules.edge.dmi.counters import DmiCounters
from modules.edge.dmi.errors import MapperCallRefused
from modules.edge.dmi.loading import CatalogueLoader
from modules.edge.dmi.mappers import MAX_MAPPERS, decode_mapper
from modules.edge.dmi.module import Dmi
from modules.edge.dmi.objects import read_mapped_device, read_mapped_model
from modules.edge.dmi.session import SETTLE_SECONDS
from modules.edge.dmi.settings import DmiSettings
from protos.dmi.v1beta1 import api_pb2 as dmi
from tests.modules.edge.dmi.node import device, model
from tests.support.memories import memories_of

Json = dict[str, Any]


class OpenDmi(Dmi):
    """dmi, which a test can ask."""

    started: ClassVar[list[OpenDmi]] = []

    def on_start(self) -> None:
        """Remember which one it is."""
        super().on_start()
        self.started.append(self)


class Server:
    """In the place of the server of mappers' registrations, which needs threads."""

    def __init__(self, *_: object) -> None:
        pass

    def start(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""


class Process:
    """A mapper's process: what it has, and how it answers."""

    def __init__(self, life: Life, name: str) -> None:
        self._life = life
        self.name = name
        self.path = Path(f"/mappers/{name}.sock")
        self.stamp: int | None = None
        """Of its socket; None without one."""
        self.is_up = False
        self.refuses = 0
        """Calls that it refuses; it carries out every second one of them all the same."""
        self.registration: Future[Any] | None = None
        self.not_before = 0.0
        """When it may be called, once its registration is answered."""
        self.attempts: list[float] = []
        """When it was called in vain."""
        self.objects: dict[tuple[str, str], Any] = {}

    def begin(self) -> None:
        """Start, with a new socket and without objects."""
        self._life.sockets += 1
        self.stamp = self._life.sockets
        self.is_up, self.refuses = True, 0
        self.objects.clear()
        self.attempts.clear()

    def call(self, stamp: int | None, method: str, request: Any) -> None:
        """Take a call. Raises PluginCallError."""
        now = self._life.bee.clock.monotonic()
        if now < self.not_before and self.registration is not None and self.registration.settled:
            self._life.wrong.append("a mapper opens its socket only after the answer to its registration")
        if not self.is_up or stamp != self.stamp:
            if self.attempts and now - self.attempts[-1] < 0.49:
                self._life.wrong.append("a mapper that is away is called again and again")
            self.attempts.append(now)
            raise PluginCallError(method, self.name, "UNAVAILABLE", "nobody listens")
        self.attempts.clear()
        self.refuses -= 1
        if self.refuses < 0 or self.refuses % 2:
            self._carry_out(method, request)
        if self.refuses >= 0:
            raise PluginCallError(method, self.name, "INTERNAL", "the machine is busy")

    def _carry_out(self, method: str, request: Any) -> None:
        match method:
            case "CreateDeviceModel" | "UpdateDeviceModel":
                key = ("model", f"{request.model.namespace}/{request.model.name}")
                if method == "UpdateDeviceModel" and key not in self.objects:
                    self._life.wrong.append("a mapper is told of the change of a model that it does not have")
                self.objects[key] = request.model
            case "UpdateDevice" | "RegisterDevice":
                key = ("device", f"{request.device.namespace}/{request.device.name}")
                wanted = ("model", f"{request.device.namespace}/{request.device.spec.deviceModelReference}")
                if wanted not in self.objects:
                    self._life.wrong.append("a device without its model ends a mapper")
                if method == "UpdateDevice":
                    self.objects[key] = request.device
                else:
                    self.objects.setdefault(key, request.device)
            case "RemoveDevice":
                if self.objects.pop(("device", f"{request.deviceNamespace}/{request.deviceName}"), None) is None:
                    raise PluginCallError(method, self.name, "NOT_FOUND", "there is none")
            case "RemoveDeviceModel":
                self.objects.pop(("model", f"{request.modelNamespace}/{request.modelName}"), None)


class Channel:
    """A `PluginSocket` to a process: to the socket that there was when it was made."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._stamp = process.stamp
        self.is_closed = False

    def call(self, method: str, request: Any, _answer: object, _seconds: float) -> None:
        """Call the process."""
        self._process.call(None if self.is_closed else self._stamp, method.rpartition("/")[2], request)

    def close(self) -> None:
        """Take no further calls."""
        self.is_closed = True


class Life:
    """A node with mappers.

    Args:
        seed: of everything.
        directory: of the node's files.
        patch: puts the processes in the place of sockets.
    """

    def __init__(self, seed: int, directory: Path, patch: pytest.MonkeyPatch) -> None:
        self._draw = random.Random(seed)  # noqa: S311 - the same in each run
        self._file = str(directory / f"{seed}.db")
        self._version = 0
        self.wrong: list[str] = []
        self.sockets = 0
        self.channels: list[Channel] = []
        self.objects: dict[tuple[str, str], Json] = {}
        self.processes = [Process(self, name) for name in ("first", "second", "third")]
        self.protocols: dict[str, str] = {}
        """The protocol of each registered mapper."""
        by_path = {one.path: one for one in self.processes}
        patch.setattr(session, "_stamp", lambda path: by_path[path].stamp)
        patch.setattr(session, "is_served", lambda path: by_path[path].is_up)

        def opened(path: Path) -> Channel:
            self.channels.append(Channel(by_path[path]))
            return self.channels[-1]

        patch.setattr(session, "PluginSocket", opened)
        patch.setattr(dmi_module, "DmiServer", Server)
        self.readings_fail = 0
        """The readings of the node's devices that fail next."""
        read = CatalogueLoader._models_read

        def models_read(loader: CatalogueLoader, rows: list[bytes] | CallError) -> None:
            fails = self.readings_fail > 0
            self.readings_fail -= fails
            read(loader, CallError("the store is locked") if fails else rows)

        patch.setattr(CatalogueLoader, "_models_read", models_read)
        self._start()

    def _start(self) -> None:
        for one in self.processes:
            one.registration = None
            one.attempts.clear()
        self.bee = Harness(self._version)
        self.bee.add(MetaManager, MetaSettings(self._file))
        self.bee.add(DeviceTwin, TwinSettings("n1", mappers=True))
        self.bee.start(OpenDmi, DmiSettings(Path("/absent"), "n1"), DmiCounters())
        self.dmi = OpenDmi.started[-1]

    def step(self) -> None:
        """Let something happen, and time pass."""
        choice = self._draw.choice
        choice((self._put, self._put, self._put, self._delete, self._register, self._register, self._new_process,
                self._end, self._come_back, self._refuse, self._restart, self._report))()  # fmt: skip
        self.bee.run_for(choice((0.0, 0.01, 0.3, 0.7, 6.0, 40.0, 400.0)))

    def restart(self, readings_fail: int = 0) -> None:
        """Start edgecore again, which cannot read the devices for a while."""
        self.bee.run_for(5.0)
        self.bee.hive.stop()
        self.readings_fail = readings_fail
        self._start()

    def repair(self) -> None:
        """Let all mappers run and refuse nothing, and give everything time."""
        for one in self.processes:
            one.refuses = 0
        self._come_back()
        self.bee.run_for(900.0)

    def _put(self) -> None:
        kind, name = self._draw.choice(("model", "device", "device")), self._draw.choice("ab")
        if kind == "model":
            made = model(f"m-{name}", protocol=self._draw.choice(("demo", "other")))
        else:
            protocol = self._draw.choice(("", "demo", "other"))
            of = f"m-{self._draw.choice('ab')}"
            made = device(f"sensor-{name}", self._draw.choice(("", "true", "false")), protocol, of)
        self.objects[kind, name] = made
        self._tell(made, "update")

    def _delete(self) -> None:
        if self.objects:
            self._tell(self.objects.pop(self._draw.choice(sorted(self.objects))), "delete")

    def _tell(self, obj: Json, operation: str) -> None:
        self._version += 1
        metadata = {"namespace": "ns", "uid": obj["metadata"]["name"], "resourceVersion": str(self._version)}
        kind = "devicemodel" if obj["kind"] == "DeviceModel" else "device"
        content = {**obj, "metadata": {**metadata, **obj["metadata"]}}
        fields = {"source": "devicecontroller", "group": "resource"}
        message = self.bee.message(f"ns/{kind}/{obj['metadata']['name']}", operation, content, **fields)
        self.bee.hive.send("metamanager", message)

    def _register(self) -> None:
        process = self._draw.choice(self.processes)
        process.begin()
        self.ask_to_register(process, self._draw.choice(("demo", "other")))

    def ask_to_register(self, process: Process, protocol: str) -> None:
        """Register a mapper; a refusal changes nothing."""
        info = dmi.MapperInfo(name=process.name, protocol=protocol, address=str(process.path).encode())
        future = self.dmi.ask(dmi.MapperRegisterRequest(withData=self._draw.random() < 0.7, mapper=info))
        process.registration, process.not_before = future, self.bee.clock.monotonic() + SETTLE_SECONDS
        self.bee.settle()
        try:
            answer = future.get()
        except MapperCallRefused:
            return
        process.objects.update({("model", f"{one.namespace}/{one.name}"): one for one in answer.modelList})
        process.objects.update({("device", f"{one.namespace}/{one.name}"): one for one in answer.deviceList})
        kept = {name: one for name, one in self.protocols.items() if one != protocol}
        self.protocols = {**kept, process.name: protocol}

    def _new_process(self) -> None:
        """A mapper starts again, and only opens its socket; the former one was seen."""
        self.bee.run_for(6.0)
        self._draw.choice(self.processes).begin()

    def _end(self) -> None:
        process = self._draw.choice(self.processes)
        process.is_up = False
        if self._draw.random() < 0.3:
            process.stamp = None

    def _come_back(self) -> None:
        self.bee.run_for(6.0)
        for process in self.processes:
            if not process.is_up:
                process.begin()

    def _refuse(self) -> None:
        self._draw.choice(self.processes).refuses = self._draw.randint(1, 4)

    def _report(self) -> None:
        self.dmi.ask(dmi.ReportDeviceStatesRequest(deviceName="sensor-a", deviceNamespace="ns", state="online"))

    def _restart(self) -> None:
        self.restart(self._draw.choice((0, 0, 1, 2)))

    def stored(self, kind: str) -> list[bytes]:
        """Return the rows of a kind in the node's database."""
        with closing(open_store(self._file)) as store:
            return [text.encode() for text in store.get_all(kind)]


def _wanted(life: Life, protocol: str) -> dict[tuple[str, str], Any]:
    """Return the objects of a protocol, by a catalogue that has never had any others."""
    catalogue = Catalogue()
    for kind in ("model", "device"):
        for obj in [one for (of, _), one in sorted(life.objects.items()) if of == kind]:
            text = json.dumps({**obj, "metadata": {"namespace": "ns", **obj["metadata"]}}).encode()
            if kind == "model":
                catalogue.put_model(read_mapped_model(text))
            else:
                catalogue.put_device(read_mapped_device(text))
    found = {key: catalogue.wanted(protocol, key) for key in catalogue.keys(protocol)}
    return {(key.kind, key.id): one.message for key, one in found.items() if one is not None}


@pytest.mark.parametrize("seed", range(12))
def test_each_mapper_has_its_devices_in_the_end(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    life = Life(seed, tmp_path, monkeypatch)
    for _ in range(60):
        life.step()
    life.repair()
    assert life.wrong == []
    for process in life.processes:
        protocol = life.protocols.get(process.name)
        if protocol is not None:
            assert process.objects == _wanted(life, protocol), f"{process.name} for {protocol}"
    names = {obj["metadata"]["name"] for obj in life.objects.values()}
    for gone in {"sensor-a", "sensor-b"} - names:
        assert memories_of(gone, life.dmi.__dict__, ("modules.edge.dmi",)) == []
    rows = map(decode_mapper, life.stored("devicemapper"))
    assert {one.name: one.protocol for one in rows} == life.protocols
    for process in life.processes:
        process.is_up = False
    life.bee.run_for(60.0)
    told = {key[1] for protocol in life.protocols.values() for key in _wanted(life, protocol) if key[0] == "device"}
    states = {one.id: one.state for one in map(decode, life.stored("devicetwin"))}
    assert {name: states[name] for name in told} == dict.fromkeys(told, "unknown")
    stored = life.stored("devicetwin")
    life.bee.run_for(60.0)
    assert life.stored("devicetwin") == stored, "it is set once"
    assert sum(not one.is_closed for one in life.channels) <= len(life.protocols)
    assert len(life.dmi.__dict__["_Module__children"]) == len(life.protocols), "an actor calls each mapper"
    life.bee.hive.stop()
    assert all(one.is_closed for one in life.channels)
    caplog.clear()


@pytest.mark.parametrize(("number", "protocol"), [(0, "other"), (1, "demo"), (1, "other"), (0, "demo")])
def test_who_registers_before_the_devices_are_read_replaces_the_mapper_of_before(
    number: int, protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(0, tmp_path, monkeypatch)
    first, process = life.processes[0], life.processes[number]
    first.begin()
    life.ask_to_register(first, "demo")
    life.restart(readings_fail=1)
    life.bee.settle()
    assert life.readings_fail == 0
    process.begin()
    life.ask_to_register(process, protocol)
    life.repair()
    rows = {one.name: one.protocol for one in map(decode_mapper, life.stored("devicemapper"))}
    assert rows == life.protocols == {**({"first": "demo"} if protocol == "other" else {}), process.name: protocol}
    assert life.dmi._registered is not None
    assert set(life.dmi._registered._sessions) == set(rows.values())
    life.bee.hive.stop()


def test_a_mapper_that_starts_again_within_seconds_has_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(0, tmp_path, monkeypatch)
    for made in (model("m-a"), device("sensor-a", of="m-a")):
        life._tell(made, "update")
    life.processes[0].begin()
    life.ask_to_register(life.processes[0], "demo")
    life.bee.run_for(20.0)
    life.processes[0].is_up = False
    for seconds, state in ((12.0, ""), (12.0, "unknown")):
        life.bee.run_for(seconds)
        assert [one.state for one in map(decode, life.stored("devicetwin"))] == [state]
    life.bee.hive.stop()


def test_mappers_that_cannot_be_read_are_read_a_little_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    life = Life(0, tmp_path, monkeypatch)
    life.processes[0].begin()
    life.ask_to_register(life.processes[0], "demo")
    read, asked = AsyncMetaClient.list_all, []

    def fails(client: AsyncMetaClient, kind: str, namespace: str = "", *, then: Any) -> None:
        if kind != "devicemapper":
            read(client, kind, namespace, then=then)
            return
        asked.append(kind)
        then(CallError("the store is locked"))

    with monkeypatch.context() as locked:
        locked.setattr(AsyncMetaClient, "list_all", fails)
        life.restart()
        life.bee.run_for(4.0)
    assert len(asked) == 1
    life.repair()
    assert life.dmi._registered is not None
    assert set(life.dmi._registered._sessions) == {"demo"}
    life.bee.hive.stop()


def test_mappers_that_register_at_once_are_no_more_than_a_node_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(0, tmp_path, monkeypatch)
    infos = [dmi.MapperInfo(name=f"m-{number}", protocol=f"p-{number}") for number in range(MAX_MAPPERS + 20)]
    futures = [life.dmi.ask(dmi.MapperRegisterRequest(mapper=info)) for info in infos]
    life.bee.settle()
    assert all(one.settled for one in futures)
    assert len(life.stored("devicemapper")) == MAX_MAPPERS
    monkeypatch.setattr("modules.edge.dmi.registered_mappers.MAX_MAPPERS", 3)
    life.restart()
    life.bee.settle()
    assert life.dmi._registered is not None
    assert len(life.dmi._registered._sessions) == 3, "of those that are stored"
    life.bee.hive.stop()


def test_a_mapper_that_cannot_be_stored_takes_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modules.edge.dmi.registered_mappers.MAX_MAPPERS", 2)
    life = Life(0, tmp_path, monkeypatch)
    with monkeypatch.context() as full:
        refused = CallError("the disk is full")
        full.setattr(AsyncMetaClient, "update", lambda *_args, then: then(refused))
        for number in range(3):
            life.ask_to_register(life.processes[0], f"p-{number}")
    assert life.protocols == {}
    life.ask_to_register(life.processes[0], "later")
    assert life.protocols == {"first": "later"}
    life.bee.hive.stop()


def test_a_mapper_that_changes_its_protocol_takes_no_place_with_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modules.edge.dmi.registered_mappers.MAX_MAPPERS", 2)
    life = Life(0, tmp_path, monkeypatch)
    for number in range(5):
        life.ask_to_register(life.processes[0], f"p-{number}")
    assert life.protocols == {"first": "p-4"}
    life.bee.hive.stop()
