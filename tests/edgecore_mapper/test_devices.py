"""The devices of a mapper, with drivers that a test holds up."""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import pytest
from google.protobuf.wrappers_pb2 import StringValue

from beehive import RealClock
from beehive.simulation import Simulation
from edgecore_mapper import DeviceDriver, DriverProperty, Value, device_thread
from edgecore_mapper import devices as mapped_devices
from edgecore_mapper.device_thread import DeviceThread
from edgecore_mapper.devices import DeviceRefused, MappedDevices
from edgecore_mapper.driver import DEFAULT_CYCLE, DriverSpec, spec_of
from edgecore_mapper.method_calls import MethodRefused
from protos.dmi.v1beta1 import api_pb2 as dmi
from tests.end_to_end.processes import wait_until
from tests.support.clocks import StandingClock
from tests.support.patience import PATIENCE

MODEL = dmi.DeviceModel(
    name="m",
    namespace="ns",
    spec=dmi.DeviceModelSpec(properties=[dmi.ModelProperty(name="p", type="STRING", accessMode="ReadWrite")]),
)


def described(cycle: int = 20, desired: str = "") -> dmi.Device:
    prop = dmi.DeviceProperty(name="p", desired=dmi.TwinProperty(value=desired), reportToCloud=True, collectCycle=cycle)
    spec = dmi.DeviceSpec(deviceModelReference="m", properties=[prop])
    return dmi.Device(name="d", namespace="ns", spec=spec, status=dmi.DeviceStatus(reportToCloud=True))


def _unread(desired: str = "") -> dmi.Device:
    device = described(desired=desired)
    device.spec.properties[0].reportToCloud = False
    return device


class Bench:
    """Counts what drivers do, and holds up the first that is opened; takes all reports."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.opened = self.open = self.most_open = 0
        self.writes: list[Value] = []

    def values(self, _spec: DriverSpec, _values: Mapping[str, str]) -> bool:
        return True

    def state(self, _spec: DriverSpec, _state: str) -> bool:
        return True

    def driver(self, spec: DriverSpec) -> DeviceDriver:
        bench = self

        class Driver(DeviceDriver):
            def open(self) -> None:
                bench.opened += 1
                bench.open += 1
                bench.most_open = max(bench.most_open, bench.open)

            def read(self, _prop: DriverProperty) -> Value:
                bench.goes_on.wait(PATIENCE)
                return "1"

            def write(self, _prop: DriverProperty, value: Value) -> None:
                bench.writes.append(value)

            def close(self) -> None:
                bench.open -= 1

        return Driver(spec)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(device_thread, "FIRST_DELAY", 0.01)
    return Bench()


@pytest.fixture
def devices(bench: Bench) -> Iterator[MappedDevices]:
    made = MappedDevices({"m": bench.driver}, bench, RealClock())
    made.put_model(MODEL)
    made.put(described())
    wait_until(lambda: bench.opened == 1, "the device is open")
    yield made
    bench.goes_on.set()
    made.stop()


def _changes(devices: MappedDevices) -> None:
    devices.put(described(cycle=30))
    devices.put(described(cycle=40))


def _is_replaced(devices: MappedDevices) -> None:
    devices.remove("ns/d")
    devices.put(described(cycle=40))


@pytest.mark.parametrize("happens", [_changes, _is_replaced])
def test_a_device_is_not_opened_before_its_earlier_driver_has_closed_it(
    devices: MappedDevices, bench: Bench, happens: Callable[[MappedDevices], None]
) -> None:
    """A serial port has one user; a driver may take long to read."""
    happens(devices)
    threading.Event().wait(0.3)
    assert bench.opened == 1
    bench.goes_on.set()
    wait_until(lambda: bench.opened == 2, "the next driver has opened it")
    assert bench.most_open == 1


def _named(name: str) -> dmi.Device:
    device = described()
    device.name = name
    return device


def test_a_device_that_comes_and_goes_waits_for_a_driver_of_long_ago(devices: MappedDevices, bench: Bench) -> None:
    """The thread that waited for that driver has ended without it, when another device goes."""
    first = devices._devices["ns/d"][2]
    devices.remove("ns/d")
    devices.put(described())
    second = devices._devices["ns/d"][2]
    devices.remove("ns/d")
    second.join(PATIENCE)
    devices.put(_named("e"))
    wait_until(lambda: bench.opened == 2, "the other device is open")
    devices.remove("ns/e")
    devices.put(described())
    assert devices._devices["ns/d"][2]._previous in (first, second)


def test_a_mapper_that_has_stopped_opens_no_device(devices: MappedDevices, bench: Bench) -> None:
    """edgecore's call comes while the mapper ends; it also waits for the devices that were removed just before."""
    devices.remove("ns/d")
    bench.goes_on.set()
    devices.stop()
    assert bench.open == 0
    with pytest.raises(DeviceRefused, match="has stopped"):
        devices.put(_named("e"))


def test_a_desired_value_that_was_taken_back_is_written_when_it_comes_again(
    devices: MappedDevices, bench: Bench
) -> None:
    """The device may have been set otherwise meanwhile."""
    bench.goes_on.set()
    for desired, writes in (("on", ["on"]), ("", ["on"]), ("on", ["on", "on"])):
        devices.put(described(desired=desired))
        wait_until(partial(_are_written, bench, writes), "it is written")
        threading.Event().wait(0.1)
    assert bench.writes == ["on", "on"]


def _other_port(device: dmi.Device) -> None:
    device.spec.protocol.configData.data["port"].Pack(StringValue(value="2"))


def _other_register(device: dmi.Device) -> None:
    device.spec.properties[0].visitors.configData.data["register"].Pack(StringValue(value="2"))


@pytest.mark.parametrize("place", [_other_port, _other_register])
def test_a_desired_value_is_written_to_another_place_too(
    devices: MappedDevices, bench: Bench, place: Callable[[dmi.Device], None]
) -> None:
    bench.goes_on.set()
    devices.put(described(desired="on"))
    wait_until(lambda: bench.writes == ["on"], "it is written")
    moved = described(desired="on")
    place(moved)
    devices.put(moved)
    wait_until(lambda: bench.writes == ["on", "on"], "it is written to the other place")


def test_a_new_device_of_the_name_gets_its_desired_value_written(devices: MappedDevices, bench: Bench) -> None:
    bench.goes_on.set()
    devices.put(described(desired="on"))
    wait_until(lambda: bench.writes == ["on"], "it is written")
    devices.remove("ns/d")
    devices.put(described(desired="on"))
    wait_until(lambda: bench.writes == ["on", "on"], "it is written to the new device")


def test_a_report_tells_no_desired_value_that_was_not_written(
    devices: MappedDevices, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cloud takes it for confirmed; it comes here between the write and the report."""
    told: list[tuple[str, list[Value]]] = []

    def values(spec: DriverSpec, _values: Mapping[str, str]) -> bool:
        told.append((spec.properties["p"].desired, [*bench.writes]))
        return False  # it is repeated

    monkeypatch.setattr(bench, "values", values)
    devices.put(described(desired="on"))
    bench.goes_on.set()
    wait_until(lambda: told[-1:] == [("on", ["on"])], "the written value is reported")
    assert told[0] == ("", [])


def test_a_device_that_is_read_otherwise_gets_no_value_twice(devices: MappedDevices, bench: Bench) -> None:
    bench.goes_on.set()
    devices.put(described(desired="on"))
    wait_until(lambda: bench.writes == ["on"], "it is written")
    devices.put(described(cycle=30, desired="on"))
    devices.put(described(cycle=40, desired="off"))
    wait_until(lambda: bench.writes[1:] != [], "the next value is written")
    assert bench.writes == ["on", "off"]


class Failing(Bench):
    """Its drivers fail as often as `failures` has it, and hold nothing up."""

    def __init__(self, **failures: int) -> None:
        super().__init__()
        self.goes_on.set()
        self.failures = Counter(failures)
        self.states: list[str] = []

    def state(self, _spec: DriverSpec, state: str) -> bool:
        self.states.append(state)
        return True

    def driver(self, spec: DriverSpec) -> DeviceDriver:
        driver = super().driver(spec)
        for name in ("open", "read", "write"):
            setattr(driver, name, partial(self._try, name, getattr(driver, name)))
        return driver

    def _try(self, name: str, method: Callable[..., object], *values: object) -> object:
        if self.failures[name]:
            self.failures[name] -= 1
            raise OSError("unplugged")
        return method(*values)


def _run(bench: Failing, clock: RealClock, device: dmi.Device) -> MappedDevices:
    made = MappedDevices({"m": bench.driver}, bench, clock)
    made.put_model(MODEL)
    made.put(device)
    wait_until(lambda: "online" in bench.states, "the device is online")
    return made


HOUR = 3_600_000


def _is_read(devices: MappedDevices) -> bool:
    found = devices.get("ns/d")
    return found is not None and len(found.status.twins) > 0


@pytest.mark.usefixtures("bench")
def test_a_device_that_is_read_once_an_hour_is_written_and_closed_immediately() -> None:
    bench = Failing()
    devices = _run(bench, RealClock(), described(cycle=HOUR))
    wait_until(lambda: _is_read(devices), "it is read")
    devices.put(described(cycle=HOUR, desired="on"))
    wait_until(lambda: bench.writes == ["on"], "it is written")
    devices.stop()
    assert bench.open == 0


@pytest.mark.usefixtures("bench")
def test_a_property_is_read_when_a_method_was_called_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, device, reads = Failing(), described(cycle=HOUR), list[object]()
    monkeypatch.setattr(bench.goes_on, "wait", reads.append)
    device.spec.methods.append(dmi.DeviceMethod(name="set", propertyNames=["p"]))
    devices = _run(bench, RealClock(), device)
    wait_until(lambda: len(reads) == 1, "it is read")
    devices.call("ns/d", "set", "p", "on")
    wait_until(lambda: len(reads) == 2, "it is read again, within the hour")
    devices.stop()


@pytest.mark.usefixtures("bench")
def test_a_mapper_with_as_many_devices_as_it_may_have_takes_changes_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_devices, "MAX_DEVICES", 1)
    bench = Failing()
    devices = _run(bench, RealClock(), described())
    other = described()
    other.name = "e"
    with pytest.raises(DeviceRefused, match="has 1 devices"):
        devices.put(other)
    devices.put(described(cycle=30))
    wait_until(lambda: bench.opened == 2, "it is opened with its change")
    devices.stop()


@pytest.mark.usefixtures("bench")
def test_devices_that_a_registration_does_not_have_are_closed() -> None:
    bench = Failing()
    devices = _run(bench, RealClock(), described())
    devices.record_changes()
    assert devices.replace([MODEL], []) == {}
    wait_until(lambda: bench.open == 0, "it is closed")
    assert devices.get("ns/d") is None


@pytest.mark.usefixtures("bench")
def test_an_edgecore_that_has_lost_its_store_gets_all_values_and_the_state_with_the_registration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or the Device was made again while the mapper was away: nothing else would tell its state until it changes."""
    bench, told = Failing(), list[Mapping[str, str]]()

    def values(_spec: DriverSpec, values: Mapping[str, str]) -> bool:
        told.append(values)
        return True

    monkeypatch.setattr(bench, "values", values)
    devices = _run(bench, RealClock(), described(cycle=HOUR))
    wait_until(lambda: told == [{"p": "1"}], "it is reported")
    devices.record_changes()
    assert devices.replace([MODEL], [described(cycle=HOUR)], tells_all=True) == {}
    wait_until(lambda: (told, bench.states) == ([{"p": "1"}] * 2, ["online"] * 2), "it is reported again")
    devices.stop()
    assert bench.opened == 1


@pytest.mark.usefixtures("bench")
def test_a_desired_value_that_is_never_written_is_in_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    """KubeEdge's edgecore passes it on, and a device may be read a hundred times a second."""
    bench, model = Failing(), dmi.DeviceModel()
    model.CopyFrom(MODEL)
    model.spec.properties[0].type = "INT"
    reads = list[DriverProperty]()
    devices = MappedDevices({"m": lambda spec: _Counting(bench.driver(spec), reads)}, bench, RealClock())
    devices.put_model(model)
    devices.put(described(desired="on"))
    wait_until(lambda: len(reads) > 3, "it is read several times")
    devices.put(described(desired="off"))
    wait_until(lambda: caplog.text.count("is not written") == 2, "the other value is in the log, too")
    devices.stop()


class _Counting(DeviceDriver):
    def __init__(self, driver: DeviceDriver, reads: list[DriverProperty]) -> None:
        self._driver, self._reads = driver, reads

    def read(self, prop: DriverProperty) -> Value:
        self._reads.append(prop)
        return self._driver.read(prop)


@pytest.mark.usefixtures("bench")
def test_changes_during_a_registration_are_newer_than_its_answer() -> None:
    devices, other, new_model = _run(Failing(), RealClock(), described()), described(), dmi.DeviceModel()
    other.name = "e"
    new_model.CopyFrom(MODEL)
    new_model.spec.properties.append(dmi.ModelProperty(name="q", type="STRING"))
    devices.put(other)
    devices.record_changes()
    devices.put_model(new_model)
    devices.put(described(desired="newest"))
    devices.remove("ns/e")
    assert devices.replace([MODEL], [described(desired="older"), other]) == {}
    changed = devices.get("ns/d")
    assert changed is not None
    assert changed.spec.properties[0].desired.value == "newest"
    assert devices._models["ns/m"] == new_model
    assert devices.get("ns/e") is None
    devices.record_changes()
    devices.put(other)
    assert devices.replace([MODEL], [described()]) == {}
    assert devices.get("ns/e") is not None
    devices.stop()


@pytest.mark.usefixtures("bench")
def test_a_model_that_comes_during_a_registration_makes_no_device_newer_than_the_answer() -> None:
    """A restarted edgecore sends the models that it has, and the answer has a desired value that came meanwhile."""
    devices = _run(Failing(), RealClock(), described(desired="older"))
    devices.record_changes()
    devices.put_model(MODEL)
    assert devices.replace([MODEL], [described(desired="newer")]) == {}
    changed = devices.get("ns/d")
    assert changed is not None
    assert changed.spec.properties[0].desired.value == "newer"
    devices.stop()


def test_a_device_that_was_refused_during_a_registration_is_started_by_its_answer(bench: Bench) -> None:
    """Its model comes with the answer."""
    devices = MappedDevices({"m": bench.driver}, bench, RealClock())
    devices.record_changes()
    with pytest.raises(DeviceRefused, match="is not known"):
        devices.put(described())
    assert devices.replace([MODEL], [described()]) == {}
    assert devices.get("ns/d") is not None
    bench.goes_on.set()
    devices.stop()


@pytest.mark.usefixtures("bench")
def test_a_report_that_was_not_accepted_is_soon_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_thread, "REPEAT", 0.01)
    bench, answers = Failing(), [True, False, False]
    monkeypatch.setattr(bench, "values", lambda *_: answers.pop())
    devices = _run(bench, RealClock(), described(cycle=HOUR))
    wait_until(lambda: not answers, "it is accepted")
    devices.stop()


@pytest.mark.usefixtures("bench")
def test_an_unchanged_value_is_reported_again_after_its_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, told = Failing(), list[Mapping[str, str]]()

    def values(_spec: DriverSpec, values: Mapping[str, str]) -> bool:
        told.append(values)
        return True

    monkeypatch.setattr(bench, "values", values)
    device = described()
    device.spec.properties[0].reportCycle = 10
    devices = _run(bench, RealClock(), device)
    wait_until(lambda: told[:3] == [{"p": "1"}] * 3, "it is reported again")
    devices.stop()


@pytest.mark.usefixtures("bench")
def test_a_readonly_property_is_neither_written_nor_set_by_a_method() -> None:
    bench, model = Failing(), dmi.DeviceModel()
    model.CopyFrom(MODEL)
    model.spec.properties[0].accessMode = "ReadOnly"
    device = described(desired="on")
    device.spec.methods.append(dmi.DeviceMethod(name="set", propertyNames=["p"]))
    made = MappedDevices({"m": bench.driver}, bench, RealClock())
    made.put_model(model)
    made.put(device)
    wait_until(lambda: "online" in bench.states, "the device is online")
    with pytest.raises(MethodRefused, match="p is ReadOnly"):
        made.call("ns/d", "set", "p", "on")
    made.stop()
    assert bench.writes == []


@pytest.mark.usefixtures("bench")
def test_a_state_that_the_device_does_not_ask_for_is_not_reported() -> None:
    bench, device = Failing(), described()
    device.status.reportToCloud = False
    made = MappedDevices({"m": bench.driver}, bench, RealClock())
    made.put_model(MODEL)
    made.put(device)
    wait_until(lambda: _is_read(made), "it is read")
    made.stop()
    assert bench.states == []


@pytest.mark.usefixtures("bench")
def test_a_device_that_opens_and_cannot_be_read_is_not_online() -> None:
    bench = Failing(read=2)
    _run(bench, RealClock(), described()).stop()
    assert bench.states == ["offline", "online"]


class Draws(random.Random):
    """Draws no pause, and notes the longest that each could have been."""

    def __init__(self) -> None:
        super().__init__(0)
        self.ceilings: list[float] = []

    def uniform(self, _a: float, b: float) -> float:
        self.ceilings.append(b)
        return 0.0


@pytest.mark.usefixtures("bench")
def test_a_device_without_reads_forgets_earlier_failures_too() -> None:
    """The pause before it is opened again does not grow from one failure to one of another day."""
    bench, clock = Failing(open=1, write=1), RealClock()
    clock.random = draws = Draws()
    devices = _run(bench, clock, _unread())
    devices.put(_unread(desired="on"))
    wait_until(lambda: bench.writes == ["on"], "it is written")
    devices.stop()
    assert draws.ceilings == [0.01, 0.01]


class Pauses(threading.Event):
    """Pauses that take virtual time only; the third one ends the device."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__()
        self._simulation = simulation
        self.seconds: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.seconds.append(timeout)
        self._simulation.run_for(timeout)
        if len(self.seconds) == 3:
            self.set()
        return self.is_set()


@pytest.mark.parametrize(
    ("device", "accepts", "failures", "seconds"),
    [
        (described(cycle=30_000), True, 0, 30.0),
        (described(cycle=HOUR), True, 0, 60.0),
        (described(cycle=HOUR), False, 0, 1.0),
        (_unread(), True, 0, 60.0),
        (described(), True, 3, 0.1),
    ],
    ids=["a-cycle", "a-long-cycle", "a-refused-report", "nothing-to-read", "a-failure"],
)
def test_a_device_pauses_as_long_as_it_has_nothing_to_do(
    device: dmi.Device, failures: int, seconds: float, monkeypatch: pytest.MonkeyPatch, *, accepts: bool
) -> None:
    simulation, bench = Simulation(), Failing(open=failures)
    simulation.clock.random = Draws()
    monkeypatch.setattr(bench, "values", lambda *_: accepts)
    thread = DeviceThread(spec_of(device, MODEL), bench.driver, bench, simulation.clock, None, {})
    thread._stopped = thread._wake = pauses = Pauses(simulation)
    monkeypatch.setattr(pauses, "clear", lambda: None)
    thread._run()
    assert pauses.seconds == [pytest.approx(seconds)] * 3
    simulation.close()


@pytest.mark.usefixtures("bench")
def test_a_device_that_is_away_is_reported_again_to_an_edgecore_that_was_started_again() -> None:
    simulation, bench = Simulation(), Failing(open=3)
    simulation.clock.random = Draws()
    thread = DeviceThread(spec_of(described(), MODEL), bench.driver, bench, simulation.clock, None, {})
    thread._stopped = Pauses(simulation)
    simulation.clock.after(0.15, thread.report_all)
    thread._run()
    assert bench.states == ["offline"] * 2
    simulation.close()


def test_a_mapper_waits_a_few_seconds_at_most_for_its_devices(
    devices: MappedDevices, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits, join = list[float](), DeviceThread.join

    def joined(thread: DeviceThread, seconds: float) -> None:
        limits.append(seconds)
        join(thread, PATIENCE)

    monkeypatch.setattr(DeviceThread, "join", joined)
    bench.goes_on.set()
    devices.stop()
    assert [0.0 <= each <= mapped_devices.STOP_SECONDS for each in limits] == [True]


@pytest.mark.usefixtures("bench")
def test_a_desired_value_is_written_again_to_a_device_that_has_failed() -> None:
    """It may have lost it, for example without power."""
    bench = Failing()
    devices = _run(bench, RealClock(), described(desired="on"))
    wait_until(lambda: bench.writes == ["on"], "it is written")
    bench.failures["read"] = 1
    wait_until(lambda: bench.writes == ["on", "on"], "it is written again")
    devices.stop()


def _are_written(bench: Bench, values: Sequence[Value]) -> bool:
    return bench.writes == [*values]


def test_a_changed_model_brings_no_device_back(
    devices: MappedDevices, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KubeEdge's edgecore does not wait for one call before the next: the device is removed meanwhile, or later."""
    bench.goes_on.set()
    put, could_remove = devices._put, list[bool]()
    removal = threading.Thread(target=devices.remove, args=("ns/d",))

    def look() -> None:
        could_remove.append(devices._lock.acquire(blocking=False))
        if could_remove[-1]:
            devices._lock.release()

    def late(device: dmi.Device) -> None:
        looking = threading.Thread(target=look)
        looking.start()
        looking.join()
        removal.start()
        put(device)

    monkeypatch.setattr(devices, "_put", late)
    changed = dmi.DeviceModel()
    changed.CopyFrom(MODEL)
    changed.spec.properties[0].type = "INT"
    devices.put_model(changed)
    removal.join()
    assert could_remove == [False]
    assert devices.get("ns/d") is None


def test_a_desired_value_that_comes_during_a_read_does_not_wait_for_the_next(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour is between two reads; the cloud's change comes while the device is read for the first time."""
    monkeypatch.setattr(device_thread, "IDLE", 3600.0)
    bench.goes_on.set()
    made = MappedDevices({"m": bench.driver}, bench, RealClock())
    read, hour = bench.goes_on.wait, 3_600_000

    def changed_meanwhile(timeout: float | None = None) -> bool:
        if not bench.writes:
            made.put(described(cycle=hour, desired="on"))
        return read(timeout)

    bench.goes_on.wait = changed_meanwhile  # type: ignore[method-assign]
    made.put_model(MODEL)
    made.put(described(cycle=hour))
    wait_until(lambda: bench.writes == ["on"], "it is written")
    made.stop()


def test_a_desired_value_that_comes_before_the_thread_looks_for_some_is_among_them(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread forgets that it was woken, and then looks for the newest description."""
    monkeypatch.setattr(device_thread, "IDLE", 3600.0)
    bench.goes_on.set()

    class Wake(threading.Event):
        def clear(self) -> None:
            if not bench.writes:
                thread.desire(spec_of(described(cycle=HOUR, desired="on"), MODEL))
            super().clear()

    thread = DeviceThread(spec_of(described(cycle=HOUR), MODEL), bench.driver, bench, RealClock(), None, {})
    thread._wake = Wake()
    thread.start()
    wait_until(lambda: bench.writes == ["on"], "it is written")
    thread.stop()
    thread.join(PATIENCE)


@pytest.mark.parametrize(
    ("milliseconds", "seconds"), [(0, DEFAULT_CYCLE), (1, 0.01), (20, 0.02), (48 * HOUR, 24 * 3600.0)]
)
def test_a_cycle_is_at_least_ten_milliseconds_and_at_most_a_day(milliseconds: int, seconds: float) -> None:
    assert spec_of(described(cycle=milliseconds), MODEL).properties["p"].collect_cycle == seconds


def test_a_device_is_read_again_after_its_cycle(bench: Bench) -> None:
    waits = list[float]()
    bench.goes_on.set()

    class Wake(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            assert timeout is not None
            waits.append(timeout)
            thread.stop()
            return True

    thread = DeviceThread(spec_of(described(cycle=20), MODEL), bench.driver, bench, StandingClock(), None, {})
    thread._wake = Wake()
    thread.start()
    thread.join(PATIENCE)
    assert waits == [pytest.approx(0.02)]
