"""Mappers in Python on a node with dmi, and the example."""

import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from edgecore_mapper import DeviceDriver, DriverProperty, Mapper, Value
from edgecore_mapper.driver import spec_of, text_of, value_of
from protos.dmi.v1beta1 import api_pb2 as dmi
from tests.end_to_end.processes import wait_until
from tests.modules.edge.dmi.node import DmiNode, device, model
from tests.support.failing import Failing, PlannedError, census
from tests.support.patience import PATIENCE


class Bench:
    """The hands of a test on the drivers."""

    def __init__(self) -> None:
        self.temperature: Callable[[], Value] = lambda: 21
        self.writes: queue.Queue[tuple[str, Value]] = queue.Queue()
        self.opened: queue.Queue[str] = queue.Queue()
        self.closed: queue.Queue[str] = queue.Queue()
        self.switches: dict[str, Value] = {}

    def driver(self, spec: Any) -> DeviceDriver:
        """Make a driver of this bench."""
        made = BenchDriver(spec)
        made.bench = self
        return made


class BenchDriver(DeviceDriver):
    """A thermometer with a switch."""

    bench: Bench

    def open(self) -> None:
        """Tell the test."""
        self.bench.opened.put(self.id)

    def read(self, prop: DriverProperty) -> Value:
        """Read what the test has set."""
        if prop.name == "temperature":
            return self.bench.temperature()
        return self.bench.switches.get(self.id, False)

    def write(self, prop: DriverProperty, value: Value) -> None:
        """Tell the test."""
        self.bench.switches[self.id] = value
        self.bench.writes.put((self.id, value))

    def close(self) -> None:
        """Tell the test."""
        self.bench.closed.put(self.id)


class Running:
    """A mapper on a thread of this process."""

    def __init__(self, node: DmiNode, bench: Bench, of: str = "tm") -> None:
        self._node = node
        self.mapper = Mapper("bench", "demo", {of: bench.driver}, edgecore=node.socket, http_port=0)
        self._thread = threading.Thread(target=self.mapper.run)

    def start(self) -> "Running":
        """Start, and wait until it is registered."""
        before = self._node.counters.registrations
        self._thread.start()
        wait_until(lambda: self._node.counters.registrations > before, "the mapper has registered")
        return self

    def stop(self) -> None:
        """Stop."""
        self.mapper.stop()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        assert not self.mapper.port, "it is served no more"


@pytest.fixture(autouse=True)
def little_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let edgecore and mappers try again soon."""
    monkeypatch.setattr("modules.edge.dmi.session.SETTLE_SECONDS", 0.05)
    monkeypatch.setattr("modules.edge.dmi.session.FIRST_DELAY", 0.1)
    monkeypatch.setattr("edgecore_mapper.mapper.LOOK_SECONDS", 0.1)
    monkeypatch.setattr("edgecore_mapper.device_thread.FIRST_DELAY", 0.1)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[DmiNode]:
    made = DmiNode(tmp_path).start()
    made.put(model())
    yield made
    made.stop()


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def running(node: DmiNode, bench: Bench) -> Iterator[Running]:
    made = Running(node, bench).start()
    yield made
    made.stop()


def _device(name: str = "thermo", **options: Any) -> dict[str, Any]:
    made = device(name, **options)
    for one in made["spec"]["properties"]:
        one["collectCycle"] = 20
    made["spec"]["stateReport"] = {"reportToCloud": True}
    return made


def test_values_go_up_and_desired_values_come_down(node: DmiNode, bench: Bench, running: Running) -> None:
    """A device without a desired value is not written; a changed one keeps its driver open."""
    node.put(_device())
    wait_until(lambda: node.twins("thermo") == {"temperature": "21", "switch": "false"}, "the first values")
    assert bench.writes.empty()
    node.put(_device(desired="true"))
    assert bench.writes.get(timeout=PATIENCE) == ("ns/thermo", True)
    wait_until(lambda: node.twins("thermo")["switch"] == "true", "the switch is on")
    assert node.device("thermo").state == "online"
    assert bench.closed.empty()
    node.put(_device(), "delete")
    assert bench.closed.get(timeout=PATIENCE) == "ns/thermo"


def test_an_unchanged_value_is_not_reported_again(node: DmiNode, bench: Bench, running: Running) -> None:
    reads = threading.Semaphore(0)

    def read() -> Value:
        reads.release()
        return 21

    bench.temperature = read
    node.put(_device())
    for _ in range(10):
        assert reads.acquire(timeout=PATIENCE)
    assert node.counters.reports["bench", "stored"] <= 3, "the state, and both properties at once or one after another"


def test_a_driver_that_fails_is_opened_again(node: DmiNode, bench: Bench, running: Running) -> None:
    """KubeEdge's framework gives such a device up; here the desired value is written again, too."""
    node.put(_device(desired="true"))
    assert bench.writes.get(timeout=PATIENCE) == ("ns/thermo", True)

    def unplugged() -> Value:
        raise OSError("unplugged")

    bench.temperature = unplugged
    wait_until(lambda: node.device("thermo").state == "offline", "it is offline")
    bench.temperature = lambda: 22
    assert bench.writes.get(timeout=PATIENCE) == ("ns/thermo", True)
    wait_until(lambda: node.device("thermo").state == "online", "it is online")
    wait_until(lambda: node.twins("thermo").get("temperature") == "22", "it reports")


def test_a_device_follows_its_model(node: DmiNode, bench: Bench, running: Running) -> None:
    """A model with another type: the device is opened again, although its own object is the same."""
    node.put(_device())
    wait_until(lambda: node.twins("thermo").get("temperature") == "21", "the first value")
    changed = model()
    changed["spec"]["properties"][0]["type"] = "FLOAT"
    bench.temperature = lambda: 21.5
    node.put(changed)
    assert bench.closed.get(timeout=PATIENCE) == "ns/thermo"


def test_a_device_without_a_driver_for_its_model_is_unknown_with_the_reason(
    node: DmiNode, bench: Bench, running: Running
) -> None:
    """In the answer to a registration and in a call; the next mapper may have one. It tells no states itself."""
    why = "this mapper has no driver for the model other"
    node.has(model("other"), device("called", of="other"))
    wait_until(lambda: node.device("called").refusal == why, "the refusal of a call is stored")
    running.stop()
    node.has(device("asked", of="other"))
    silent = Running(node, bench).start()
    wait_until(lambda: node.device("asked").refusal == why, "the refusal of a device in an answer is stored")
    assert node.device("asked").state == node.device("called").state == "unknown"
    silent.stop()
    taking = Running(node, bench, "*").start()
    for each in ("asked", "called"):
        wait_until(lambda each=each: node.device(each).state == "online", f"{each} is taken")  # type: ignore[misc]
        assert node.device(each).refusal == ""
    taking.stop()
    running.mapper, running._thread = taking.mapper, taking._thread


def test_a_driver_that_hangs_holds_up_no_other(node: DmiNode, bench: Bench, running: Running) -> None:
    free = threading.Event()
    node.put(_device("first"))
    wait_until(lambda: "temperature" in node.twins("first"), "it reports")
    bench.temperature = lambda: str(free.wait(PATIENCE))
    node.put(_device("second", desired="true"))
    assert bench.writes.get(timeout=PATIENCE) == ("ns/second", True)
    free.set()


def test_mappers_register_again_at_a_restarted_edgecore(node: DmiNode, bench: Bench, running: Running) -> None:
    """Devices stay open, and what was read meanwhile is reported."""
    node.put(_device())
    wait_until(lambda: node.twins("thermo").get("temperature") == "21", "the first value")
    before = node.counters.registrations
    node.stop()
    bench.temperature = lambda: 23
    node.start()
    wait_until(lambda: node.counters.registrations > before, "it registers again")
    wait_until(lambda: node.twins("thermo")["temperature"] == "23", "the newest value")
    assert bench.closed.empty()


def test_a_registration_begins_anew(tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a new channel, as gRPC dials a socket that was missing only later; and a report that failed before does not
    end it.
    """
    mapper = Mapper("bench", "demo", {"tm": bench.driver}, edgecore=tmp_path / "none.sock")
    assert not mapper._register(None)
    assert mapper._channel is None
    mapper._lost.set()
    monkeypatch.setattr(mapper, "_call", lambda *_: dmi.MapperRegisterResponse())
    assert mapper._register((1, 1))
    assert not mapper._lost.is_set()


def test_an_edgecore_that_was_started_again_gets_all_values(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one that was only busy: it would get more to do."""
    mapper, told = Mapper("bench", "demo", {"tm": bench.driver}, edgecore=tmp_path / "none.sock"), list[bool]()

    def replace(_models: object, _devices: object, *, tells_all: bool) -> dict[str, str]:
        told.append(tells_all)
        return {}

    monkeypatch.setattr(mapper, "_call", lambda *_: dmi.MapperRegisterResponse())
    monkeypatch.setattr(mapper._devices, "replace", replace)
    for stamp in ((1, 1), (1, 1), (2, 1)):
        assert mapper._register(stamp)
    assert told == [True, False, True]


@pytest.mark.parametrize(
    ("code", "is_done", "is_lost"),
    [
        (grpc.StatusCode.UNAVAILABLE, False, True),
        (grpc.StatusCode.CANCELLED, False, False),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, False, False),
        (grpc.StatusCode.INVALID_ARGUMENT, True, False),
        (grpc.StatusCode.NOT_FOUND, True, False),
    ],
)
def test_a_report_is_repeated_unless_edgecore_will_never_take_it(
    code: grpc.StatusCode, *, is_done: bool, is_lost: bool
) -> None:
    """Where there is no edgecore, the mapper registers again."""
    mapper = Mapper("bench", "demo", {}, edgecore=Path("dmi.sock"))
    spec = spec_of(dmi.Device(name="d", namespace="ns"), dmi.DeviceModel())
    assert mapper._refused(spec, code, "why") is is_done
    assert mapper._lost.is_set() is is_lost


def test_a_refusal_is_in_the_log_once_until_a_report_is_taken(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapper = Mapper("bench", "demo", {}, edgecore=Path("dmi.sock"))
    spec = spec_of(dmi.Device(name="d", namespace="ns"), dmi.DeviceModel())
    monkeypatch.setattr(mapper, "_call", lambda *_: None)
    for _ in range(2):
        for _ in range(3):
            mapper._refused(spec, grpc.StatusCode.RESOURCE_EXHAUSTED, "why")
        assert mapper.state(spec, "online")
    assert len([each for each in caplog.messages if "does not take a report" in each]) == 2


def test_a_mapper_that_waits_for_edgecore(tmp_path: Path, bench: Bench) -> None:
    """The order of start does not matter; even the directory may be missing."""
    directory = tmp_path / "node"
    node = DmiNode(directory)
    mapper = Mapper("bench", "demo", {"tm": bench.driver}, edgecore=node.socket)
    thread = threading.Thread(target=mapper.run)
    thread.start()
    try:
        directory.mkdir()
        node.start()
        wait_until(lambda: node.counters.registrations >= 1, "the mapper has registered")
    finally:
        mapper.stop()
        thread.join(PATIENCE)
        node.stop()


def test_a_mapper_that_fails_serves_no_more(tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    mapper = Mapper("bench", "demo", {"tm": bench.driver}, edgecore=tmp_path / "none", http_port=0)
    monkeypatch.setattr(mapper, "_served", lambda: None)
    monkeypatch.setattr(mapper, "_register", Failing(0).call(print))
    before = census()
    with pytest.raises(PlannedError):
        mapper.run()
    assert not census().more_than(before)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("INT", "-7", -7),
        ("FLOAT", "21.5", 21.5),
        ("BOOLEAN", "true", True),
        ("BYTES", "aGk=", b"hi"),
        ("STRING", "21 °C", "21 °C"),
    ],
)
def test_values_have_the_types_of_the_model(kind: str, text: str, value: Value) -> None:
    assert value_of(kind, text) == value
    assert text_of(value) == text


def test_a_mapper_writes_nothing_that_the_model_forbids() -> None:
    """Also not for a caller of its HTTP port, whom edgecore does not see."""
    rule = dmi.ModelProperty(name="target", type="FLOAT", accessMode="ReadWrite", minimum="5", maximum="80")
    spec = dmi.DeviceSpec(properties=[dmi.DeviceProperty(name="target")])
    made = spec_of(dmi.Device(spec=spec), dmi.DeviceModel(spec=dmi.DeviceModelSpec(properties=[rule])))
    assert made.properties["target"].value_of("80") == 80.0
    for text in ("600", "4.9", "nan", "warm"):
        with pytest.raises(ValueError, match="target is FLOAT 5 to 80"):
            made.properties["target"].value_of(text)


@pytest.mark.parametrize(("kind", "text"), [("INT", "1.5"), ("FLOAT", "nan"), ("BOOLEAN", "on"), ("BYTES", "*")])
def test_a_text_of_another_type_is_no_value(kind: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        value_of(kind, text)
