"""The page of one node without a link: what it says, from a real edgecore's socket and database to a browser."""

import json
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.simulation import Simulation
from metamanager.rows import row_of
from metamanager.store import open_store
from modules.cli.rest import RestClient
from modules.edge.devicetwin import twins
from modules.edge.devicetwin.requests import TwinRequest
from modules.edge.devicetwin.state import Device, encode
from modules.edge.devicetwin.twins import At
from modules.insight.fleet.rows import FleetPodRow
from modules.page.api import About
from modules.page.node_api import NodeApi, own_node
from modules.page.own_devices import OwnDevice, OwnDevices
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.device_commands.page_devices import own_devices
from modules.processes.edgecore.store_commands.database import StoreReadError, reading
from tests.end_to_end.processes import Process, wait_until
from tests.modules.processes.cloudcore.stubs import Stub
from tests.support.browser import browser, why_none
from tests.support.own_node import write_node
from tests.support.ports import free_port

EDGECORE = "modules.processes.edgecore"
NOW = 1_800_000_000.0
READY = {"edged": {"state": "ready"}, "twin": {"state": "ready", "inbox": 2, "restarts": 1}}
STATE = {"now": NOW, "node": "n1", "version": "1", "started_at": NOW - 300, "modules": READY}
RUNS = FleetPodRow("default", "web", "n1", "Running", "1/1")
BROKEN = FleetPodRow("default", "shop", "n1", "CrashLoopBackOff", "0/1", is_troubled=True)
UP = {"enabled": True, "connected_at": NOW - 7200, "server": "cloud:10000"}
DOWN = {"enabled": True, "lost_at": NOW - 10_800, "why": "no route", "failures": 4}


@pytest.mark.parametrize(
    ("more", "link", "sentence"),
    [
        ({"link": UP}, "connected", "n1 has been connected to its cloud for 120m; 1 of 2 pods run."),
        ({"link": DOWN}, "away", "n1 has had no link to its cloud for 3h and goes on by itself; 1 of 2 pods run."),
        (
            {"link": {"enabled": True}}, "away",
            "n1 has had no link to its cloud since edgecore started 5m ago; 1 of 2 pods run.",
        ),
        ({}, "never", "n1 has no cloud; 1 of 2 pods run."),
        (
            {"link": {**UP, "certificate_ends": NOW + 90_000}}, "connected",
            "n1 has been connected to its cloud for 120m; 1 of 2 pods run; its certificate ends in 1 day.",
        ),
        (
            {"modules": {**READY, "dmi": {"state": "not ready", "reason": "its socket"}}}, "never",
            "n1 has no cloud; 1 of 2 pods run; dmi is not ready.",
        ),
    ],
)  # fmt: skip
def test_the_page_of_a_node_begins_with_its_link_and_its_pods(more: dict[str, Any], link: str, sentence: str) -> None:
    found = own_node({**STATE, **more}, [RUNS, BROKEN], NOW)
    assert (found.link, found.sentence) == (link, sentence)
    assert [each.name for each in found.pods] == ["shop", "web"]
    assert found.modules[0].name == ("dmi" if "dmi" in sentence else "edged")


def test_the_facts_of_a_node_say_why_the_link_is_down_and_what_waits() -> None:
    held = {"status": {"messages": 3, "bytes": 10}, "event": {"messages": 0, "bytes": 0}, "odd": 7}
    facts = own_node({**STATE, "link": DOWN, "held": held}, [], NOW).facts
    assert facts["why the last link ended"] == "no route"
    assert facts["attempts that failed since"] == "4"
    assert facts["waits for the cloud"] == "3 of status"
    ended = own_node({**STATE, "link": {"certificate_ends": NOW - 1}}, [], NOW)
    assert ended.facts["certificate"] == "has ended: `edgecore join` gets another"
    assert own_node({}, [], NOW).facts["waits for the cloud"] == "nothing"
    long = "x" * 9000
    said = {"modules": {"dmi": {"state": "not ready", "reason": long}}, "link": {**DOWN, "why": long}, "runtime": long}
    cut = own_node({**STATE, **said}, [], NOW)
    texts = (cut.modules[0].reason, cut.facts["why the last link ended"], cut.facts["container runtime"])
    assert [*map(len, texts)] == [500] * 3


def plant_device(path: Path, *, has_object: bool = True) -> None:
    """Write a thermometer, which has reported 20 and 21, into the database of a node."""
    twin = twins.update(None, TwinRequest(actual="20", type="int"), None, At(int(NOW * 1000), 1))
    twin = twins.update(twin, TwinRequest(actual="21", expected="22"), None, At(int(NOW * 1000) + 60_000, 2))
    assert twin is not None
    device = Device("default/thermo", "thermo", "by the door", "online", twins={"temperature": twin}, number=2)
    rows: dict[str, bytes] = {"default/devicetwin/thermo": encode(device), "default/devicetwin/odd": b"[]"}
    if has_object:
        properties = [{"name": "temperature", "reportCycle": 60_000, "reportToCloud": True}]
        spec = {"deviceModelRef": {"name": "tm"}, "properties": properties}
        named = {"namespace": "default", "name": "thermo", "uid": "u1"}
        rows["default/device/thermo"] = json.dumps({"metadata": named, "spec": spec}).encode()
        rows["default/devicemodel/tm"] = json.dumps(
            {
                "metadata": {"namespace": "default", "name": "tm"},
                "spec": {"properties": [{"name": "temperature", "unit": "C"}]},
            }
        ).encode()
    store = open_store(str(path))
    for key, value in rows.items():
        store.put(row_of(key, value, 0))
    store.commit()
    store.close()


class Asked(NamedTuple):
    """The API of a node's page, without an edgecore."""

    api: NodeApi

    def get(self, *parts: str) -> Any:
        """Return an answer."""
        request = Request(method="GET", target="/", parts=parts, body=b"", query=(), headers=())
        return msgspec.json.decode(self.api.serve(request, parts).body)


def asked(tmp_path: Path, read: Callable[[], Sequence[OwnDevice]], now: float = NOW) -> Asked:
    """Return the API for some devices."""
    clock = Simulation(1).clock
    clock.jump_wall(now - clock.now())
    about = About("sock", "1", "edgecore", "n1")
    return Asked(NodeApi(RestClient(tmp_path / "no.sock"), OwnDevices(read), about, clock))


@pytest.mark.parametrize("has_object", [True, False])
def test_a_device_is_shown_from_the_nodes_database(tmp_path: Path, *, has_object: bool) -> None:
    plant_device(tmp_path / "n.db", has_object=has_object)
    with reading(tmp_path / "n.db") as database:
        found = own_devices(database, "n1", int(NOW * 1000) + 60_000)
    page = asked(tmp_path, lambda: found, NOW + 60)
    (row,) = page.get("devices")["groups"][0]["rows"]
    assert (row["name"], row["state"], row["shown"]["desired"]) == ("thermo", "not as desired", "22")
    story = page.get("devices", "default", "thermo")
    assert story["sentence"].startswith("default/thermo is not as desired: temperature: 22 is desired")
    assert story["twins"][0].get("unit", "") == ("C" if has_object else "")
    assert page.get("history", "default", "thermo", "temperature")["values"] == [[NOW, "20"], [NOW + 60, "21"]]
    assert page.get("history", "default", "thermo", "no")["values"] == []
    for parts in (("devices", "default", "no"), ("nodes", "n2"), ("rollouts",)):
        with pytest.raises(HttpStatusError) as refusal:
            page.get(*parts)
        assert refusal.value.status == 404


def test_an_overdue_device_is_reported_with_its_mapper(tmp_path: Path) -> None:
    plant_device(tmp_path / "n.db")
    with reading(tmp_path / "n.db") as database:
        (found,) = own_devices(database, "n1", int(NOW * 1000))
    late = msgspec.structs.replace(found, status=_as_desired(found.status))
    story = asked(tmp_path, lambda: [late], NOW + 9999).get("devices", "default", "thermo")
    assert "is overdue" in story["sentence"]
    assert story["sentence"].endswith("no mapper has registered for its protocol on this node.")


def _as_desired(status: dict[str, Any]) -> dict[str, Any]:
    (twin,) = status["status"]["twins"]
    reported = {**twin["reported"], "value": "22"}
    return {**status, "status": {**status["status"], "twins": [{**twin, "reported": reported}]}}


def test_devices_that_cannot_be_read_are_no_lost_server(tmp_path: Path) -> None:
    def unreadable() -> list[Any]:
        raise StoreReadError("open the database", "it is no SQLite file")

    with pytest.raises(HttpStatusError, match="the devices of this node cannot be read: open the database") as refusal:
        asked(tmp_path, unreadable).get("devices")
    assert refusal.value.status == 404


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Path]:
    """Start an edgecore without a cloud, with a device, and a static pod whose configmap is missing."""
    root = tmp_path / "n"
    write_node(root)
    plant_device(root / "edgecore.db")
    container = {"name": "c", "image": "none", "command": ["true"], "envFrom": [{"configMapRef": {"name": "prices"}}]}
    spec = {"containers": [container]}
    (root / "manifests").mkdir()
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shop"}, "spec": spec}
    (root / "manifests" / "shop.json").write_text(json.dumps(pod))
    edge = Process(EDGECORE, ["run", "--root", str(root)], tmp_path / "edge.log")
    try:
        wait_until(lambda: (root / "edged" / "edged.sock").exists() or not edge.runs, "the owner's socket is there")
        yield root
    finally:
        edge.signal(signal.SIGTERM)
        edge.wait()


@pytest.mark.skipif(bool(why_none()), reason=why_none() or "-")
def test_each_question_about_a_node_is_answered_without_a_link(node: Path, tmp_path: Path) -> None:
    page = Process(EDGECORE, ["page", "--root", str(node)], tmp_path / "page.log")
    said = "(document.getElementById('sentence') || {textContent: ''}).textContent"
    follow = "[...document.querySelectorAll('a')].find((each) => each.textContent.trim() === arguments[0]).click()"
    try:
        wait_until(lambda: "\n" in page.text() or not page.runs, "the address is printed")
        address = page.text().split()[0]
        with browser(1280, 900) as window:
            window.open(address)
            window.wait(f"{said}.includes('n1 has no cloud; the pod does not run.')")
            tabs = window.run("return [...document.querySelectorAll('nav a')].map((each) => each.textContent)")
            assert tabs == ["Node", "Pods", "Devices"]
            window.run(follow, "default/shop-n1")
            window.wait(f"{said}.includes('default/shop-n1')")
            window.wait("document.querySelector('main').textContent.includes('prices')")
            window.wait("document.querySelector('main').textContent.includes('edgecore why pod default/shop-n1')")
            window.run(follow, "Devices")
            window.wait(f"{said}.includes('0 of 1 device is as desired')")
            window.run(follow, "default/thermo")
            window.wait(f"{said}.includes('22 is desired')")
            window.run("document.querySelector('td button').click()")
            window.wait("document.querySelector('main').textContent.includes('History of temperature')")
            assert window.console() == []
            origin = address.partition("/page")[0]
            assert all(url.startswith(origin) for url in window.requests())
    finally:
        page.signal(signal.SIGTERM)
        assert page.wait() == ExitCode.OK, page.tail()


@pytest.mark.skipif(bool(why_none()), reason=why_none() or "-")
def test_the_link_comes_back_while_the_page_is_open(tmp_path: Path) -> None:
    """The page says so by itself, and none of its requests has left this machine."""
    port = free_port()
    write_node(tmp_path / "n", cloud=f"ws://127.0.0.1:{port}")
    edge = Process(EDGECORE, ["run", "--root", str(tmp_path / "n")], tmp_path / "edge.log")
    socket = tmp_path / "n" / "edged" / "edged.sock"
    said = "(document.getElementById('sentence') || {textContent: ''}).textContent"
    processes = [edge]
    try:
        wait_until(lambda: socket.exists() or not edge.runs, "the owner's socket is there")
        page = Process(EDGECORE, ["page", "--root", str(tmp_path / "n")], tmp_path / "page.log")
        processes.append(page)
        wait_until(lambda: "\n" in page.text() or not page.runs, "the address is printed")
        address = page.text().split()[0]
        with browser(1280, 900) as window:
            window.open(address)
            window.wait(f"{said}.includes('n1 has had no link to its cloud since edgecore started')")
            (tmp_path / "cloud").mkdir()
            with Stub(tmp_path / "cloud", listen_port=port):
                window.wait(f"{said}.includes('n1 has been connected to its cloud')")
            window.wait(f"{said}.includes('n1 has had no link to its cloud for')")
            origin = address.partition("/page")[0]
            assert all(url.startswith(origin) for url in window.requests())
    finally:
        for process in processes:
            process.signal(signal.SIGTERM)
            process.wait()
