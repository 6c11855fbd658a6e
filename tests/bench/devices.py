"""Devices and MQTT: messages of applications in both directions, a thousand devices, and what the modules cost idle.

edgecore runs as a process without pods; the broker is mosquitto. The floor of the messages is paho-mqtt alone with the
same messages at the same broker, by processor time.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Final

from metamanager.rows import row_of
from metamanager.store import open_store
from modules.edge.devicetwin.state import Device, Side, Twin, encode
from tests.bench.rows import Goal, Row, Unit
from tests.bench.subject import pass_time
from tests.chaos import mqtt
from tests.end_to_end.machine import Cloud
from tests.end_to_end.processes import wait_until
from tests.modules.edge.eventbus.broker import MOSQUITTO, Application, Broker
from tests.modules.processes.cloudcore.devices import People, device, model
from tests.support.ports import free_port

RATE: Final = 1000
SECONDS: Final = 20.0
DEVICES: Final = 1000
PROPERTIES: Final = 10
REPORTS: Final = 20
IDLE_SECONDS: Final = 20.0
_SETTLED_SECONDS: Final = 3.0
_LIMIT: Final = 300.0
_NODE: Final = "edge-1"
MEMBERS: Final = f"$hw/events/node/{_NODE}/membership/get/result"


def missing() -> str | None:
    """Return why this machine cannot measure it."""
    return None if MOSQUITTO is not None else "mosquitto is not installed (.ci/install-runtime)"


def measure(rounds: int) -> list[Row]:
    """All rows."""
    return [*_messages(max(1, rounds - 4)), *_idle(rounds), *_thousand(), *_to_status()]


def _messages(rounds: int) -> list[Row]:
    mine, floors, up, down, late, grown = [], [], [], [], [], []
    for _ in range(rounds):
        with TemporaryDirectory(prefix="bench-") as directory, mqtt.bed(Path(directory)) as bed:
            bed.begin()
            pass_time(_SETTLED_SECONDS)
            before, resident = bed.edge.processor_seconds(), bed.edge.resident()
            bed.run(RATE, SECONDS)
            bed.rest()
            mine.append((bed.edge.processor_seconds() - before) / SECONDS * 100)
            grown.append(bed.edge.resident() - resident)
            bed.up.check()
            bed.down.check()
            up.append(bed.up.quantile(0.5) * 1000)
            down.append(bed.down.quantile(0.5) * 1000)
            late.append(max(bed.up.quantile(0.99), bed.down.quantile(0.99)) * 1000)
        floors.append(_paho_alone())
    each = f"{RATE:,} messages a second both ways, QoS 1"
    return [
        Row.of(f"{each}: of a core; floor: paho alone", mine, Unit.PERCENT, floors=floors),
        Row.of("   from an application to the cloud, median", up, Unit.MILLISECONDS),
        Row.of("   from the cloud to an application, median", down, Unit.MILLISECONDS),
        Row.of("   the slower direction, 99 %", late, Unit.MILLISECONDS),
        Row.of("   memory more than before", grown, Unit.MEGABYTES),
    ]


def _paho_alone() -> float:
    """Return the percentage of a core that paho takes alone."""
    with TemporaryDirectory(prefix="bench-") as directory:
        broker = Broker(Path(directory), "max_queued_messages 0").start()
        arguments = [str(broker.port), str(RATE), str(SECONDS)]
        command = [sys.executable, "-m", "tests.bench.paho_alone", *arguments]
        floor = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        application = mqtt.Application(broker.port, mqtt.Record(), mqtt.Record())
        try:
            assert floor.stdout is not None
            assert floor.stdout.readline() == "ready\n"
            mqtt.paced(RATE, SECONDS, application.send)
            return float(floor.communicate(timeout=_LIMIT)[0].split()[-1]) / SECONDS * 100
        finally:
            floor.kill()
            application.close()
            broker.stop()


def _idle(rounds: int) -> list[Row]:
    """The modules on, without any device, and off."""
    sizes: dict[bool, list[float]] = {True: [], False: []}
    spent: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(rounds):
        for is_on in (False, True):
            with TemporaryDirectory(prefix="bench-") as directory, mqtt.bed(Path(directory), modules=is_on) as bed:
                wait_until(lambda bed=bed: bed.cloud.is_connected, "the node is connected", _LIMIT)  # type: ignore[misc]
                pass_time(_SETTLED_SECONDS)
                before = bed.edge.processor_seconds()
                pass_time(IDLE_SECONDS / rounds)
                spent[is_on].append((bed.edge.processor_seconds() - before) / (IDLE_SECONDS / rounds) * 100)
                sizes[is_on].append(bed.edge.resident())
    more = median(sizes[True]) - median(sizes[False])
    return [
        Row("devicetwin and eventbus on, no device: memory more", more, Unit.MEGABYTES, None, "", (Goal(3),)),
        Row.of("   idle, share of a core; floor: both off", spent[True], Unit.PERCENT, floors=spent[False]),
    ]


def _thousand() -> list[Row]:
    """A thousand devices in the node's store report in turn; the cloud is away."""
    sizes, delays, share = {}, [], 0.0
    for devices in (0, DEVICES):
        with TemporaryDirectory(prefix="bench-") as text, _filled(Path(text), devices) as (edge, application):
            pass_time(_SETTLED_SECONDS)
            sizes[devices] = edge.resident()
            spent, begin = edge.processor_seconds(), monotonic()
            for number in range(REPORTS if devices else 0):
                delays.append(_answered(application, _name(number * 7)) * 1000)
                pass_time(max(0.0, begin + number + 1 - monotonic()))
            share = (edge.processor_seconds() - spent) / REPORTS * 100
    more = sizes[DEVICES] - sizes[0]
    return [
        Row(
            f"{DEVICES:,} devices of {PROPERTIES} properties: memory more", more, Unit.MEGABYTES, None, "", (Goal(15),)
        ),
        Row.of("   a report, from MQTT to its answer", delays, Unit.MILLISECONDS),
        Row("   a report a second in all, share of a core", share, Unit.PERCENT),
    ]  # fmt: skip


@contextmanager
def _filled(directory: Path, devices: int) -> Iterator[tuple[mqtt.Edge, Application]]:
    """A node whose store has so many devices, and an application that hears its answers."""
    (directory / "node").mkdir()
    twins = {f"p{number}": Twin(actual=Side("21.5", 1, 0, 1, told=True)) for number in range(PROPERTIES)}
    store = open_store(str(directory / "node" / "edgecore.db"))
    for number in range(devices):
        one = Device(f"default/{_name(number)}", _name(number), twins=twins, number=1)
        store.put(row_of(f"default/devicetwin/{_name(number)}", encode(one), 0))
    store.commit()
    store.close()
    (directory / "broker").mkdir()
    broker = Broker(directory / "broker").start()
    edge = mqtt.Edge(directory, mqtt.configuration(directory / "node", broker.port, f"127.0.0.1:{free_port()}"))
    application = Application(broker.port, "$hw/events/device/+/+/twin/update/result", MEMBERS)
    try:
        edge.start()
        _wait_for_members(application)
        yield edge, application
    finally:
        edge.kill()
        application.close()
        broker.stop()


def _wait_for_members(application: Application) -> None:
    """Wait until the node answers."""
    while application.heard.empty():
        application.publish(f"$hw/events/node/{_NODE}/membership/get", '{"event_id":"e","timestamp":1}')
        pass_time(0.2)
    while not application.heard.empty():
        application.hear()


def _answered(application: Application, name: str) -> float:
    """Return the seconds from the publication of a report to its answer."""
    begin = monotonic()
    application.publish(_topic(name), _report({"p0": str(begin)}))
    while not application.hear()[0].endswith(f"/{name}/twin/update/result"):
        pass
    return monotonic() - begin


def _to_status() -> list[Row]:
    """A report of one device, from MQTT to the DeviceStatus in cloudcore."""
    with _with_cloud() as (people, application):
        people.apply(model())
        people.apply(device(node=_NODE))
        _wait_for_answer(application, "thermo")
        delays = [_delay(people, application, "thermo", str(number)) * 1000 for number in range(REPORTS)]
    return [Row.of("a report, from MQTT to the DeviceStatus", delays, Unit.MILLISECONDS, goals=(Goal(50),))]


@contextmanager
def _with_cloud() -> Iterator[tuple[People, Application]]:
    with TemporaryDirectory(prefix="bench-") as text:
        directory = Path(text)
        (directory / "broker").mkdir()
        broker = Broker(directory / "broker").start()
        cloud = Cloud(directory)
        cloud.start()
        edge = mqtt.Edge(directory, mqtt.configuration(directory / "node", broker.port, cloud.address))
        application = Application(broker.port, "$hw/events/device/+/+/twin/get/result")
        try:
            edge.start()
            people = People(cloud.client)
            people.wait()
            yield people, application
        finally:
            edge.kill()
            application.close()
            cloud.kill()
            broker.stop()


def _name(number: int) -> str:
    return f"d{number}"


def _topic(name: str, verb: str = "update") -> str:
    return f"$hw/events/device/default/{name}/twin/{verb}"


def _report(values: dict[str, str]) -> str:
    twins = {name: {"actual": {"value": value}} for name, value in values.items()}
    return json.dumps({"event_id": "", "timestamp": 1, "twin": twins})


def _wait_for_answer(application: Application, name: str) -> None:
    """Wait until the node knows a device."""
    is_known = False
    while not is_known:
        application.publish(_topic(name, "get"), '{"event_id":"e","timestamp":1}')
        pass_time(0.2)
        while not application.heard.empty():
            is_known = "code" not in json.loads(application.hear()[1])


def _delay(people: People, application: Application, name: str, value: str) -> float:
    """Return the seconds from the publication of a report to the DeviceStatus that has it."""
    begin = monotonic()
    application.publish(_topic(name), _report({"temperature": value}))
    while people.reported(name).get("temperature") != value:
        assert monotonic() < begin + _LIMIT, f"{name}: no report"
    took = monotonic() - begin
    pass_time(1.1)  # devicecontroller gathers what a device reports within a second
    return took
