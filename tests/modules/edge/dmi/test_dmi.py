"""dmi on a real socket with metamanager and devicetwin, and mappers as mapper-framework makes them."""

import base64
import json
import os
import socket
import sqlite3
import stat
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest

from beehive.sockets.unix_sockets import connect_unix
from metamanager.rows import Row
from metamanager.store import open_store
from protos.dmi.v1beta1 import api_pb2 as dmi
from tests.beehive.sockets.activation.test_grpc_server import begun
from tests.end_to_end.processes import wait_until
from tests.modules.edge.dmi.framework import MANAGER, FrameworkMapper
from tests.modules.edge.dmi.node import DmiNode, device, model
from tests.support.patience import PATIENCE
from tests.support.stopping import stopping


@pytest.fixture(autouse=True)
def calls_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Call these mappers without the waits for real ones, which `test_session.py` demands: their sockets are there
    before they register.
    """
    monkeypatch.setattr("modules.edge.dmi.session.SETTLE_SECONDS", 0.01)
    monkeypatch.setattr("modules.edge.dmi.session.FIRST_DELAY", 0.1)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[DmiNode]:
    made = DmiNode(tmp_path).start()
    yield made
    made.stop()


@pytest.fixture
def mapper(tmp_path: Path, node: DmiNode) -> Iterator[FrameworkMapper]:
    made = FrameworkMapper(tmp_path, node.socket)
    yield made
    made.stop()


def _refusal(mapper: FrameworkMapper, method: str, request: object) -> tuple[str, str]:
    with pytest.raises(grpc.RpcError) as refused:
        mapper.call(method, request, dmi.ReportDeviceStatusResponse)
    return refused.value.code().name, refused.value.details()


def test_a_mapper_of_the_framework_from_registration_to_removal(node: DmiNode, mapper: FrameworkMapper) -> None:
    """Each call in the framework's order: registration with data, changes, reports, state, removal."""
    node.has(model(), device())
    answer = mapper.start()
    assert [one.name for one in answer.modelList] == ["tm"]
    assert [one.name for one in answer.deviceList] == ["thermo"]
    assert list(mapper.devices) == ["ns/thermo"], "and it lacks nothing that would end the mapper"
    mapper.report("thermo", {"temperature": "21", "switch": "false"})
    assert node.twins("thermo") == {"temperature": "21", "switch": "false"}, "it is stored when it is answered"
    mapper.report_state("thermo", "online")
    assert node.device("thermo").state == "online"
    node.put(device(desired="true"))
    mapper.hear("UpdateDevice", "thermo")
    assert mapper.devices["ns/thermo"].spec.properties[1].desired.value == "true"
    node.put(device("second"))
    mapper.hear("UpdateDevice", "second")
    node.put(device("second"), "delete")
    mapper.hear("RemoveDevice", "second")
    assert mapper.calls.empty(), "nothing is told twice, and a report is no reason to tell anything"


def test_a_mapper_that_comes_first_waits_for_its_devices(node: DmiNode, mapper: FrameworkMapper) -> None:
    answer = mapper.start()
    assert len(answer.deviceList) == 0
    node.put(device())
    node.put(model())
    mapper.hear("CreateDeviceModel", "tm")
    mapper.hear("UpdateDevice", "thermo")
    assert "ns/thermo" in mapper.devices


def test_a_restarted_mapper_gets_what_changed_meanwhile(node: DmiNode, mapper: FrameworkMapper) -> None:
    """It registers again, as the framework's do: it has the newest desired value, and no device that went. dmi hears of
    a change a moment after it is in the database, perhaps after its answer.
    """
    node.has(model(), device(), device("gone"))
    mapper.start()
    mapper.stop()
    node.put(device(desired="true"))
    node.put(device("gone"), "delete")
    wait_until(lambda: not node.device("gone").has_object, "the device is gone")
    wait_until(lambda: node.device("thermo").twins["switch"].desired == "true", "the desired value is stored")
    mapper.start()

    def values() -> dict[str, str]:
        return {key: one.spec.properties[1].desired.value for key, one in list(mapper.devices.items())}

    wait_until(lambda: values() == {"ns/thermo": "true"}, "the mapper has what changed")


def test_a_new_socket_of_a_mapper_is_noticed_without_a_registration(node: DmiNode, mapper: FrameworkMapper) -> None:
    """A mapper that only opens its socket again gets everything by calls."""
    node.has(model(), device())
    mapper.start()
    node.put(device(desired="true"))
    mapper.hear("UpdateDevice", "thermo")
    mapper.stop()
    mapper.models.clear()
    mapper.devices.clear()
    mapper.serve()
    mapper.hear("CreateDeviceModel", "tm")
    mapper.hear("UpdateDevice", "thermo")


def test_a_client_that_sends_no_requests_locks_no_mapper_out(node: DmiNode, mapper: FrameworkMapper) -> None:
    """It begins more calls than there are places."""
    silent = [begun(node.socket, f"{MANAGER}{method}", 100) for method in ("MapperRegister", "ReportDeviceStatus")]
    node.has(model(), device())
    assert [one.name for one in mapper.start().deviceList] == ["thermo"]
    mapper.report("thermo", {"temperature": "21"})
    for each in silent:
        each.close()


def test_a_restarted_edgecore_calls_the_mappers_it_knew(node: DmiNode, mapper: FrameworkMapper) -> None:
    """The framework's mappers register once in their life, so edgecore must come back to them."""
    node.has(model(), device())
    mapper.start()
    node.stop()
    node.start()
    mapper.hear("UpdateDevice", "thermo")
    node.put(device(desired="true"))
    mapper.hear("UpdateDevice", "thermo")
    mapper.report("thermo", {"temperature": "22"})
    assert node.twins("thermo")["temperature"] == "22"


def test_desired_values_of_the_nodes_owner_reach_the_mapper(node: DmiNode, mapper: FrameworkMapper) -> None:
    """`edgecore devices set`: at once, and after a restart without the cloud's value in between; given back, it is the
    cloud's again.
    """

    def switch() -> str:
        return next(one.desired.value for one in mapper.devices["ns/thermo"].spec.properties if one.name == "switch")

    node.has(model(), device(desired="false"))
    mapper.start()
    assert switch() == "false"
    assert node.desire("ns/thermo", {"switch": "true"}).code == 0
    mapper.hear("UpdateDevice", "thermo")
    assert switch() == "true"
    node.stop()
    node.start()
    mapper.hear("UpdateDevice", "thermo")
    assert switch() == "true"
    assert mapper.calls.empty()
    assert node.desire("ns/thermo", {"switch": None}).code == 0
    mapper.hear("UpdateDevice", "thermo")
    assert switch() == "false"


def test_a_late_end_of_an_earlier_device_leaves_the_mapper_todays(node: DmiNode, mapper: FrameworkMapper) -> None:
    """The cloud repeats a deletion that was not acknowledged. The mapper had to stop the device of that name, and got
    it back with its next change only.
    """
    node.has(model(), device())
    mapper.start()
    for late in (device(), model()):
        late["metadata"]["uid"] = "uid-of-the-one-before"
        node.put(late, "delete")
    node.put(device("second"))
    mapper.hear("UpdateDevice", "second")
    assert mapper.calls.empty()
    assert sorted(mapper.devices) == ["ns/second", "ns/thermo"]


def test_a_device_made_again_has_no_desired_value_of_the_nodes_owner(node: DmiNode, mapper: FrameworkMapper) -> None:
    """Also when the node hears nothing of the end of the one before."""
    node.has(model(), device(desired="false"))
    mapper.start()
    assert node.desire("ns/thermo", {"switch": "true"}).code == 0
    mapper.hear("UpdateDevice", "thermo")
    another = device(desired="false")
    another["metadata"]["uid"] = "uid-of-another"
    node.put(another)

    mapper.hear("RemoveDevice", "thermo")
    mapper.hear("UpdateDevice", "thermo")

    def switch() -> str:
        return next(one.desired.value for one in mapper.devices["ns/thermo"].spec.properties if one.name == "switch")

    wait_until(lambda: switch() == "false", "the mapper has the cloud's value")


def test_mappers_that_kubeedges_edgecore_knew_are_called(tmp_path: Path) -> None:
    """Its database is opened as it is, and its mappers register once in their life."""
    mapper = FrameworkMapper(tmp_path, tmp_path / "dmi.sock")
    address = base64.b64encode(str(mapper.socket).encode()).decode()
    row = {"name": "demo-mapper", "version": "v1", "api_version": "v1.0.0", "protocol": "demo", "address": address,
           "state": "ok"}  # fmt: skip
    store = open_store(str(tmp_path / "edgecore.db"))
    store.put(Row("node/nodeID/namespace/devicemapper/demo-mapper", "devicemapper", json.dumps(row)))
    store.commit()
    store.close()
    mapper.serve()
    node = DmiNode(tmp_path).start()
    try:
        node.put(model())
        node.put(device())
        mapper.hear("UpdateDevice", "thermo")
        mapper.report("thermo", {"temperature": "21"})
        assert node.counters.reports["demo-mapper", "stored"] == 1
    finally:
        mapper.stop()
        node.stop()


def test_a_mapper_that_wants_registrations_gets_them(node: DmiNode, mapper: FrameworkMapper) -> None:
    """One of another make, which refuses updates of devices that it does not know."""
    mapper.refuses = lambda method: method == "UpdateDevice"
    mapper.start()
    node.put(model())
    node.put(device())
    mapper.hear("RegisterDevice", "thermo")
    wait_until(lambda: "ns/thermo" in mapper.devices, "the device is registered")


def test_reports_that_cannot_be_taken_are_refused_with_their_code(node: DmiNode, mapper: FrameworkMapper) -> None:
    """KubeEdge answers OK, or ends."""
    node.has(model(), device())
    mapper.start()

    def report(name: str, *twins: dmi.Twin) -> tuple[str, str]:
        status = dmi.DeviceStatus(twins=twins)
        request = dmi.ReportDeviceStatusRequest(deviceName=name, deviceNamespace="ns", reportedDevice=status)
        return _refusal(mapper, "ReportDeviceStatus", request)

    hot = dmi.Twin(propertyName="temperature", reported=dmi.TwinProperty(value="200"))
    assert report("nobody", hot)[0] == "NOT_FOUND"
    code, why = report("thermo", hot)
    assert code == "INVALID_ARGUMENT" and "-40 to 125" in why
    assert report("thermo") == ("INVALID_ARGUMENT", "ReportDeviceStatusRequest does not have twin data")
    assert report("thermo", dmi.Twin(propertyName="temperature"))[0] == "INVALID_ARGUMENT"
    assert report("../thermo", hot)[0] == "INVALID_ARGUMENT"
    states = dmi.ReportDeviceStatesRequest(deviceName="thermo", deviceNamespace="ns")
    assert _refusal(mapper, "ReportDeviceStates", states) == (
        "INVALID_ARGUMENT", "ReportDeviceStatesRequest is invalid data")  # fmt: skip
    states.state = "broken"
    assert "online" in _refusal(mapper, "ReportDeviceStates", states)[1]
    assert node.twins("thermo") == {}
    assert node.restarts() == 0


@pytest.mark.parametrize(
    ("info", "why"),
    [
        (None, "because the protocol is nil"),
        (dmi.MapperInfo(name="a/b", protocol="demo"), "a mapper's name"),
        (dmi.MapperInfo(name="m", protocol="demo", address=b"relative.sock"), "absolute path"),
        (dmi.MapperInfo(name="m", protocol="demo", address=b"/a/../b"), "absolute path"),
        (dmi.MapperInfo(name="m", protocol="demo", address=b"/" + b"x" * 107), "107"),
        (dmi.MapperInfo(name="m", protocol="demo", address="/ä".encode() + b"x" * 105), "107"),
        (dmi.MapperInfo(name="m", protocol="x" * 254), "253"),
    ],
)
def test_a_registration_that_makes_no_sense_is_refused(
    mapper: FrameworkMapper, info: dmi.MapperInfo | None, why: str
) -> None:
    request = dmi.MapperRegisterRequest(withData=True, mapper=info)
    code, reason = _refusal(mapper, "MapperRegister", request)
    assert code == "INVALID_ARGUMENT" and why in reason


def test_a_registration_may_be_as_long_as_a_sockets_path_may(node: DmiNode, mapper: FrameworkMapper) -> None:
    info = dmi.MapperInfo(name="m" * 253, protocol="x" * 253, address=b"/" + b"x" * 106)
    request = dmi.MapperRegisterRequest(withData=True, mapper=info)
    assert mapper.call("MapperRegister", request, dmi.MapperRegisterResponse) == dmi.MapperRegisterResponse()


def test_a_flood_is_refused_and_other_mappers_are_not(tmp_path: Path) -> None:
    """Each mapper has a quota of its own; KubeEdge's is one for all."""
    with (
        stopping(DmiNode(tmp_path, report_rate=0.001, report_burst=5).start()) as node,
        stopping(FrameworkMapper(tmp_path, node.socket)) as flood,
        stopping(FrameworkMapper(tmp_path, node.socket, "quiet", "quiet-mapper")) as other,
    ):
        node.has(model(), device(), device("calm", protocol="quiet"))
        flood.start()
        other.start()
        flood.report("thermo", {"temperature": "20"})
        results = []
        for value in range(10):
            try:
                flood.report("thermo", {"temperature": str(value)})
                results.append("OK")
            except grpc.RpcError as error:
                results.append(error.code().name)
        assert results == ["OK"] * 4 + ["RESOURCE_EXHAUSTED"] * 6
        other.report("calm", {"temperature": "7"})
        assert node.twins("calm") == {"temperature": "7"}
        assert node.counters.reports["demo-mapper", "stored"] == 5
        assert node.counters.reports["quiet-mapper", "stored"] == 1


def test_a_flood_of_many_calls_at_once_ends_nothing(tmp_path: Path) -> None:
    """More calls than are handled at a time, most beyond the quota; the quiet mapper's report is stored meanwhile."""
    node = DmiNode(tmp_path, report_rate=0.5, report_burst=20).start()
    flood = FrameworkMapper(tmp_path, node.socket)
    other = FrameworkMapper(tmp_path, node.socket, "quiet", "quiet-mapper")
    codes: Counter[str] = Counter()
    ended = threading.Event()

    def report() -> None:
        while not ended.is_set():
            try:
                flood.report("thermo", {"temperature": "20"})
                codes["OK"] += 1
            except grpc.RpcError as error:
                codes[error.code().name] += 1

    threads = [threading.Thread(target=report) for _ in range(80)]
    try:
        node.has(model(), device(), device("calm", protocol="quiet"))
        flood.start()
        other.start()
        for thread in threads:
            thread.start()
        wait_until(lambda: codes["RESOURCE_EXHAUSTED"] > 100, "the flood is refused")
        wait_until(lambda: _is_taken(other), "the quiet mapper has its turn")
        ended.set()
        for thread in threads:
            thread.join(PATIENCE)
        assert node.twins("calm") == {"temperature": "7"}
        assert not {"INTERNAL", "UNKNOWN"} & set(codes), "nothing failed in the node"
        assert node.restarts() == 0
    finally:
        ended.set()
        flood.stop()
        other.stop()
        node.stop()


def _is_taken(mapper: FrameworkMapper) -> bool:
    try:
        mapper.report("calm", {"temperature": "7"})
    except grpc.RpcError:
        return False
    return True


def test_a_mapper_that_hangs_holds_up_no_other(tmp_path: Path, node: DmiNode, mapper: FrameworkMapper) -> None:
    with stopping(FrameworkMapper(tmp_path, node.socket, "quiet", "quiet-mapper")) as other:
        mapper.hangs = threading.Event()
        mapper.start()
        other.start()
        for one in (model(), device(), device("calm", protocol="quiet")):
            node.put(one)
        other.hear("UpdateDevice", "calm")
        other.report("calm", {"temperature": "7"})
        assert node.twins("calm") == {"temperature": "7"}


def test_rubbish_on_the_socket_ends_nothing(node: DmiNode, mapper: FrameworkMapper) -> None:
    """Bytes that are no HTTP/2, no protobuf, or too many; and a mapper whose address is a file."""
    node.has(model(), device())
    for rubbish in (b"\x00" * 64, os.urandom(4096), b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
        with socket.socket(socket.AF_UNIX) as raw:
            raw.connect(str(node.socket))
            raw.sendall(rubbish)
    for rubbish in (b"\xff" * 100, os.urandom(1000)):
        with pytest.raises(grpc.RpcError):
            mapper.call("ReportDeviceStatus", rubbish, dmi.ReportDeviceStatusResponse)
    with pytest.raises(grpc.RpcError) as refused:
        mapper.call("ReportDeviceStatus", b"\x0a" + b"x" * 3_000_000, dmi.ReportDeviceStatusResponse)
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    mapper.socket.write_text("no socket")
    mapper.start(serves=False)
    mapper.report("thermo", {"temperature": "21"})
    mapper.serve()
    node.put(device(desired="true"))
    mapper.hear("UpdateDevice", "thermo")
    assert node.restarts() == 0


def test_the_socket_is_its_owners_and_its_groups(tmp_path: Path) -> None:
    """Mode 0660 and the chosen group; it replaces a killed process's socket, and goes with the node."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "dmi.sock"))
    with stopping(DmiNode(tmp_path, group=str(os.getgid()))) as node:
        before = node.socket.stat().st_ino
        node.start()
        wait_until(lambda: node.socket.stat().st_ino != before, "a new socket")
        status = node.socket.stat()
        assert stat.S_IMODE(status.st_mode) == 0o660
        assert status.st_gid == os.getgid()
        assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".dmi")] == []
    assert not node.socket.exists()


def test_a_socket_of_another_process_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is logged once, however often it is tried."""
    monkeypatch.setattr("modules.edge.dmi.module.BIND_AGAIN_AFTER", 0.01)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "dmi.sock"))
        other.listen()
        with stopping(DmiNode(tmp_path).start()) as node:
            for _ in range(3):
                other.accept()[0].close()
    assert caplog.text.count("another process serves on it") == 1
    assert node.socket.exists()


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_socket_that_is_no_longer_the_nodes_is_left_alone(tmp_path: Path, *, is_replaced: bool) -> None:
    """As when the next process has begun before this one ends, or somebody has removed it."""
    with stopping(DmiNode(tmp_path)) as node, socket.socket(socket.AF_UNIX) as other:
        node.start()
        own = node.socket.rename(tmp_path / "own")
        if is_replaced:
            other.bind(str(node.socket))
        node.stop()
        assert node.socket.exists() == is_replaced
        with pytest.raises(ConnectionRefusedError):
            connect_unix(own, PATIENCE)


def test_the_mapper_that_registers_last_has_the_protocol(
    tmp_path: Path, node: DmiNode, mapper: FrameworkMapper
) -> None:
    with stopping(FrameworkMapper(tmp_path, node.socket, name="newer-mapper")) as other:
        mapper.start()
        other.start()
        node.put(model())
        node.put(device())
        other.hear("UpdateDevice", "thermo")
        node.stop()
        node.start()
        other.hear("UpdateDevice", "thermo")
        assert mapper.calls.empty()


def test_registrations_without_end_are_refused(
    node: DmiNode, mapper: FrameworkMapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer may have a thousand devices: a mapper that registers in a circle is slowed down."""
    monkeypatch.setattr("modules.edge.dmi.quotas.REGISTRATIONS", (0.001, 10))
    mapper.start(serves=False)
    codes = set()
    for _ in range(40):
        try:
            mapper.register()
        except grpc.RpcError as error:
            codes.add(error.code().name)
    assert codes == {"RESOURCE_EXHAUSTED"}


def _reports(mapper: FrameworkMapper, node: DmiNode) -> str:
    """Report, and return the state."""
    mapper.report("thermo", {"temperature": "21"})
    return node.device("thermo").state


def test_a_device_that_falls_silent_is_unknown_until_it_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its mapper also gets it again, in case it could not open the device."""
    monkeypatch.setattr("modules.edge.dmi.watchdog.SHORTEST", 0.3)
    monkeypatch.setattr("modules.edge.dmi.module.WATCH_SECONDS", 0.1)
    with stopping(DmiNode(tmp_path).start()) as node, stopping(FrameworkMapper(tmp_path, node.socket)) as mapper:
        node.put(model())
        made = device()
        made["spec"]["properties"] = [{"name": "temperature", "reportToCloud": True, "collectCycle": 1}]
        node.has(made)
        mapper.start()
        mapper.report_state("thermo", "ok")
        mapper.hear("UpdateDevice", "thermo")
        wait_until(lambda: node.device("thermo").state == "unknown", "it is unknown")
        wait_until(lambda: _reports(mapper, node) == "online", "it is online again")


def test_a_device_that_fell_silent_before_a_restart_is_online_when_it_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its mapper has told its state to the earlier process, and tells it only when it changes."""
    with stopping(FrameworkMapper(tmp_path, tmp_path / "dmi.sock")) as mapper:
        with monkeypatch.context() as impatient:
            impatient.setattr("modules.edge.dmi.watchdog.SHORTEST", 0.3)
            impatient.setattr("modules.edge.dmi.module.WATCH_SECONDS", 0.1)
            with stopping(DmiNode(tmp_path).start()) as node:
                node.put(model())
                made = device()
                made["spec"]["properties"] = [{"name": "temperature", "reportToCloud": True, "collectCycle": 1}]
                node.has(made)
                mapper.start()
                mapper.report_state("thermo", "ok")
                wait_until(lambda: node.device("thermo").state == "unknown", "it is unknown")
        with stopping(DmiNode(tmp_path).start()) as node:
            wait_until(lambda: _reports(mapper, node) == "online", "it is online again")


def test_a_device_whose_mapper_has_ended_is_not_online(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks for no reports, and its mapper has never told a state: the node tells one, and an event of it."""
    monkeypatch.setattr("modules.edge.dmi.registered_mappers.LOST_SECONDS", 0.1)
    with (
        stopping(DmiNode(tmp_path, node="n1").start()) as node,
        stopping(FrameworkMapper(tmp_path, node.socket)) as mapper,
    ):
        node.put(model())
        made = device()
        made["spec"]["properties"] = [{"name": "switch"}]
        node.has(made)
        mapper.start()
        wait_until(lambda: node.counters.mappers.get("demo-mapper") == (True, 1), "the mapper is up")
        mapper.stop()
        wait_until(lambda: node.device("thermo").state == "unknown", "it is unknown")
        assert node.counters.mappers["demo-mapper"] == (False, 1)
        mapper.serve()
        wait_until(lambda: node.device("thermo").state == "online", "it is online again")
        events = _events(tmp_path, "MapperReady")
        assert {one["reason"]: one["involvedObject"]["name"] for one in events} == {
            "MapperNotReady": "n1", "MapperReady": "n1",
        }  # fmt: skip
        assert any("its devices (1) is unknown" in one["message"] for one in events)


@pytest.mark.parametrize("is_restarted", [True, False])
def test_a_device_whose_mapper_has_ended_is_online_with_its_next_mapper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_restarted: bool
) -> None:
    """It makes no reports, and edgecore was restarted in between, or the next mapper has another name."""
    made = device()
    made["spec"]["properties"] = [{"name": "switch"}]
    with stopping(DmiNode(tmp_path).start()) as node:
        with stopping(FrameworkMapper(tmp_path, node.socket)) as mapper, monkeypatch.context() as impatient:
            impatient.setattr("modules.edge.dmi.registered_mappers.LOST_SECONDS", 0.1)
            node.put(model())
            node.has(made)
            mapper.start()
            mapper.stop()
            wait_until(lambda: node.device("thermo").state == "unknown", "it is unknown")
        if is_restarted:
            node.stop()
            node.counters.mappers = {}
            node.start()
            wait_until(lambda: node.counters.mappers.get("demo-mapper") == (False, 1), "edgecore has looked")
            assert node.device("thermo").state == "unknown"
        name = "demo-mapper" if is_restarted else "newer-mapper"
        with stopping(FrameworkMapper(tmp_path, node.socket, name=name)) as mapper:
            mapper.start()
            wait_until(lambda: node.device("thermo").state == "online", "it is online again")


def _events(directory: Path, last: str) -> list[dict[str, Any]]:
    """The node's events, once the last one is stored."""
    found: list[dict[str, Any]] = []

    def read() -> bool:
        with closing(sqlite3.connect(f"file:{directory / 'edgecore.db'}?mode=ro", uri=True)) as database:
            rows = database.execute("SELECT value FROM meta WHERE type = 'event'").fetchall()
        found[:] = [json.loads(row[0]) for row in rows]
        return any(one["reason"] == last for one in found)

    wait_until(read, "the events")
    return found


def test_a_report_of_kubeedges_form_sets_the_expected_value_only_when_asked_to(tmp_path: Path) -> None:
    """A mapper that has not seen a change yet must not take it back; one that has confirms it."""
    expected = {}
    for like_kubeedge in (False, True):
        directory = tmp_path / str(like_kubeedge)
        directory.mkdir()
        with stopping(DmiNode(directory, like_kubeedge=like_kubeedge).start()) as node:
            mapper = FrameworkMapper(directory, node.socket)
            node.has(model(), device(desired="true"))
            mapper.report("thermo", {"switch": "false"}, desired="false")
            side = node.device("thermo").twins["switch"].expected
            expected[like_kubeedge] = side.value if side is not None else None
            mapper.report("thermo", {"switch": "false"}, desired="true")
            side = node.device("thermo").twins["switch"].expected
            assert side is not None and (side.value, bool(side.due)) == ("true", True), "the cloud is told"
    assert expected == {False: "true", True: "false"}
