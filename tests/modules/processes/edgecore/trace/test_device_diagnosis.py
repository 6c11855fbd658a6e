"""Why a desired value has not arrived, from the rows of a node and from traces."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from beehive import RealClock
from beehive.sockets import dialling
from beehive.trace import Change, StoreCommit
from beehive.trace.writer import open_writer
from metamanager.rows import row_of
from metamanager.store import open_store
from modules.edge.devicetwin.state import Device, Side, Twin, encode
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.cli import main
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.writing import render
from modules.processes.edgecore.trace import device_explanation
from modules.processes.edgecore.trace.device_diagnosis import NodeFacts, PropertyDiagnosis, diagnose_device
from modules.processes.edgecore.trace.device_diagnosis import ValuePlace as Place
from modules.processes.edgecore.trace.device_rows import rows_of
from tests.modules.processes.edgecore.trace.made import HEADER

NOW = 1_800_000_000_000
MINUTE = 60_000
TWIN, OBJECT, MODEL = "ns/devicetwin/thermo", "ns/device/thermo", "ns/devicemodel/model"


@pytest.mark.parametrize(
    ("mode", "there", "named"),
    [
        (0, "external", "internal MQTT broker tcp://127.0.0.1:1884"), (0, "internal", ""),
        (1, "external", "internal MQTT broker tcp://127.0.0.1:1884"), (1, "internal", "MQTT broker tcp://127.0.0.1:1883"),
        (2, "internal", "MQTT broker tcp://127.0.0.1:1883"), (2, "external", ""),
    ],
)  # fmt: skip
def test_the_broker_that_is_away_is_one_of_the_mode(
    monkeypatch: pytest.MonkeyPatch, mode: int, there: str, named: str
) -> None:
    """mqttMode 0 has the internal one, 2 the external one, and 1 both."""
    config = EdgeCoreConfig()
    bus = replace(config.modules.event_bus, enable=True, mqtt_mode=mode)
    config = replace(config, modules=replace(config.modules, event_bus=bus))

    def connect(_host: str, port: int, *_: object) -> socket.socket:
        if port == (1884 if there == "internal" else 1883):
            return socket.socket()
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(dialling, "connect", connect)
    why = device_explanation._mqtt(config, RealClock())
    assert why == (f"the {named} is away: Connection refused" if named else "")


def _object(protocol: str = "", **desired: str) -> bytes:
    properties = [{"name": name, "desired": {"value": value}} for name, value in desired.items()]
    spec: dict[str, Any] = {"deviceModelRef": {"name": "model"}, "properties": properties}
    if protocol:
        spec["protocol"] = {"protocolName": protocol}
    return json.dumps({"metadata": {"name": "thermo", "namespace": "ns"}, "spec": spec}).encode()


def _model(**properties: str) -> bytes:
    listed = [
        {"name": name, "type": kind, "accessMode": "ReadWrite", "maximum": "40"} for name, kind in properties.items()
    ]
    return json.dumps({"metadata": {"name": "model", "namespace": "ns"}, "spec": {"properties": listed}}).encode()


def _twin(desired: str | None, expected: str, actual: str | None = None, ago: int = 0, by: str = "") -> Twin:
    """A property whose expected value came 5 minutes before NOW; `ago`: milliseconds since the report."""
    reported = None if actual is None else Side(actual, NOW - ago, edge=1)
    return Twin(expected=Side(expected, NOW - 5 * MINUTE, cloud=1, by=by), actual=reported, desired=desired)


def _diagnosed(rows: dict[str, bytes], **facts: Any) -> PropertyDiagnosis:
    (found,) = diagnose_device(rows_of("ns/thermo", rows), NodeFacts(NOW, **facts)).properties
    return found


def _rows(
    twin: Twin | None, desired: str = "30", protocol: str = "", kind: str = "INT", name: str = "t"
) -> dict[str, bytes]:
    device = Device("ns/thermo", "thermo", twins={} if twin is None else {name: twin}, has_object=True)
    return {TWIN: encode(device), OBJECT: _object(protocol, **{name: desired}), MODEL: _model(t=kind)}


MAPPER = {"node/nodeID/namespace/devicemapper/m": b'{"name":"m","protocol":"modbus"}'}

CASES: dict[str, tuple[dict[str, bytes], dict[str, Any], Place, str]] = {
    "arrived": (_rows(_twin("30", "30", "30")), {}, Place.ARRIVED, "reported at"),
    "arrived in another spelling": (_rows(_twin("30", "30", "30.0"), kind="FLOAT"), {}, Place.ARRIVED, "reported at"),
    "another text": (_rows(_twin("30", "30", "30.0"), kind="STRING"), {}, Place.DIFFERENT, "reports 30.0"),
    "never from the cloud": (_rows(None, ""), {}, Place.NOT_DESIRED, "no desired value"),
    "not in the model": (_rows(_twin("30", "30"), name="tt"), {}, Place.NO_PROPERTY, "has: t"),
    "out of range": (_rows(None, "41"), {}, Place.REFUSED, "… to 40"),
    "wrong type": (_rows(None, "warm"), {}, Place.REFUSED, "not int"),
    "wrong type for the node": (
        _rows(Twin(type="int", actual=Side("20", NOW, edge=1)), "warm") | {MODEL: b"{}"},
        {},
        Place.REFUSED,
        "not int",
    ),
    "not in the model, and refused": (_rows(None, name="tt"), {}, Place.REFUSED, "no property tt"),
    "stored and not taken": (_rows(None), {}, Place.NOT_TAKEN, "has not taken"),
    "like KubeEdge": (_rows(None), {"like_kubeedge": True}, Place.KEPT_BACK, "likeKubeEdge"),
    "no broker": (_rows(_twin("30", "30")), {"mqtt": "the broker is away"}, Place.UNREACHABLE, "the broker is away"),
    "neither broker nor mapper": (
        _rows(_twin("30", "30"), protocol="modbus"),
        {"mqtt": "MQTT is off"},
        Place.UNREACHABLE,
        "MQTT is off; no mapper of protocol modbus has registered",
    ),
    "a mapper is enough": (
        _rows(_twin("30", "30", "20", 6 * MINUTE), protocol="modbus") | MAPPER,
        {"mqtt": "MQTT is off"},
        Place.WAITING,
        "it last reported 20",
    ),
    "edgecore is stopped": (
        _rows(_twin("30", "30")),
        {"stopped": "edgecore does not run"},
        Place.UNREACHABLE,
        "not run",
    ),
    "no subscriber known": (_rows(_twin("30", "30")), {}, Place.UNHEARD, "ns/thermo/twin/update/delta"),
    "no answer yet": (
        _rows(_twin("30", "30", "20", 6 * MINUTE)),
        {},
        Place.WAITING,
        "since 2027-01-15T07:55:00Z (5 min)",
    ),
    "told, and reports another": (
        _rows(_twin("30", "30", "20", MINUTE)),
        {},
        Place.DIFFERENT,
        "07:59:00Z the device reports 20",
    ),
    "set on the node": (
        _rows(_twin("30", "35", "20", 6 * MINUTE, "devices set")),
        {},
        Place.WAITING,
        "the cloud desires 30",
    ),
}


@pytest.mark.parametrize("case", list(CASES))
def test_where_a_desired_value_is(case: str) -> None:
    """Each place has its reason; one where it stays has a next step."""
    rows, facts, place, why = CASES[case]
    found = _diagnosed(rows, **facts)
    assert (found.place, why in found.why) == (place, True), found
    quiet = (Place.ARRIVED, Place.NOT_DESIRED, Place.KEPT_BACK)
    assert bool(found.next) == (place not in quiet)


def test_an_unknown_device_is_named_beside_those_there_are() -> None:
    found = diagnose_device(rows_of("ns/other", _rows(None)), NodeFacts(NOW))
    assert not found.known and "ns/thermo" in found.summary and "nodeName" in found.next


def test_rows_that_cannot_be_read_count_as_absent() -> None:
    spoilt: dict[str, bytes] = {**dict.fromkeys((TWIN, OBJECT, MODEL), b"["), "x/devicemapper/y": b"[", "": b"{}"}
    assert not diagnose_device(rows_of("ns/thermo", spoilt), NodeFacts(NOW)).known


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """The directory of a node with a device; edgecore does not run on it."""
    config = EdgeCoreConfig.below(tmp_path)
    (tmp_path / "edgecore.yaml").write_text(render(config))
    store = open_store(str(tmp_path / "edgecore.db"))
    for key, value in _rows(_twin("30", "30", "20", 6 * MINUTE)).items():
        store.put(row_of(key, value, 0))
    store.commit()
    store.close()
    return tmp_path


@pytest.mark.parametrize("words", [("device", "ns/thermo"), ("device/ns/thermo",)], ids=["two-words", "one-word"])
def test_the_node_itself_is_asked_without_a_trace(
    node: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "explain", *words, "--root", str(node)]) == ExitCode.OK
    text = capsys.readouterr().out
    assert text.startswith("device ns/thermo: 1 of 1 properties have not arrived\n")
    assert "t, desired 30 by cloud: nobody can be told" in text and "next: start edgecore" in text


def test_a_device_that_is_not_there_has_another_status(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "explain", "device", "ns/other", "--json", "--root", str(node)]) == ExitCode.USAGE
    assert json.loads(capsys.readouterr().out)["known"] is False


def test_a_trace_tells_how_it_was_at_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the rows at its opening and the commits after it; a failed commit changed nothing."""
    rows = _rows(_twin("30", "30", "20", 6 * MINUTE))
    opened = tuple(Change("put", key, key.split("/")[1], value) for key, value in rows.items())
    arrived = Change("put", TWIN, "devicetwin", _rows(_twin("30", "30", "30"))[TWIN])
    lost = Change("put", TWIN, "devicetwin", _rows(_twin("30", "30", "7"))[TWIN])
    records = [
        StoreCommit(0.0, 1, 0, 0, "opened", 0.0, "", opened),
        StoreCommit(1.0, 2, 0, 0, "commit", 0.0, "", (arrived,)),
        StoreCommit(2.0, 3, 0, 0, "rollback", 0.0, "disk full", (lost,)),
    ]
    for count, place in ((1, "nobody can be told"), (3, "arrived")):
        file = tmp_path / f"{count}.trace"
        writer = open_writer(file, HEADER)
        writer.write(records[:count])
        writer.close()
        assert main(["trace", "explain", str(file), "device", "ns/thermo"]) == ExitCode.OK
        assert f": {place}" in capsys.readouterr().out


@pytest.mark.parametrize(("desired", "actual"), [("", None), ("30", None), ("30", "30")])
def test_a_device_that_its_mapper_refuses_has_not_arrived(desired: str, actual: str | None) -> None:
    """Whatever is desired of it, or was reported before."""
    twin = _twin(desired, desired, actual) if desired else None
    device = Device("ns/thermo", "thermo", twins={"t": twin} if twin else {}, state="unknown", refusal="no driver")
    rows = {TWIN: encode(device), OBJECT: _object("modbus", t=desired), MODEL: _model(t="INT"), **MAPPER}
    found = diagnose_device(rows_of("ns/thermo", rows), NodeFacts(NOW))
    assert (found.summary, bool(found.next)) == ("its mapper refuses it: no driver", True)
    assert ("refuses" in found.properties[0].why) is (desired != "" and actual is None)


@pytest.mark.parametrize(
    ("desired", "summary"), [("", "no value is desired"), ("30", "all that is desired has arrived")]
)
def test_only_what_is_desired_arrives(desired: str, summary: str) -> None:
    rows = _rows(_twin(desired, desired, "30"), desired, "modbus")
    found = diagnose_device(rows_of("ns/thermo", rows), NodeFacts(NOW))
    assert (found.summary, found.remarks) == (summary, ("no mapper of protocol modbus has registered",))


def test_a_protocol_that_only_the_model_names_has_its_mapper() -> None:
    model = {"metadata": {"name": "model", "namespace": "ns"}, "spec": {"protocol": "modbus"}}
    found = rows_of("ns/thermo", {OBJECT: _object(t="30"), MODEL: json.dumps(model).encode(), **MAPPER})
    assert (found.protocol, found.has_mapper) == ("modbus", True)
