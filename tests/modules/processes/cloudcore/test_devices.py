"""Devices end to end: people at cloudcore's Kubernetes API, and a scripted node on its websocket."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beehive import Message
from modules.cloud.device_values import ValueQuery
from modules.processes.cloudcore.cli import main
from tests.end_to_end.processes import wait_until
from tests.modules.processes.cloudcore.devices import People, device, model, reports, twins
from tests.modules.processes.cloudcore.stubs import Edge, Stub, acknowledged


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[Stub]:
    with Stub(tmp_path) as made:
        yield made


@pytest.fixture
def people(stub: Stub) -> People:
    made = People(stub.client)
    made.wait()
    return made


def unasked(edge: Edge, count: int) -> list[Message]:
    """The next messages of the cloud, without repetitions; the node acknowledges as needed."""
    came: dict[tuple[str, str], Message] = {}
    while len(came) < count:
        message = edge.next()
        came.setdefault((message.route.operation, message.route.resource), message)
        if message.route.group == "resource":
            edge.acknowledge(message)
    return list(came.values())


def content_of(message: Message) -> Any:
    content: Any = message.content_as(Any)
    return content


def steps(messages: list[Message]) -> set[tuple[str, str]]:
    return {(each.route.operation, each.route.resource) for each in messages}


ALL = {("update", "membership"), ("insert", "default/devicemodel/thermo-model"), ("insert", "default/device/thermo")}


def test_a_device_comes_to_its_node_and_goes(stub: Stub, people: People) -> None:
    """The model comes before the device; at the end the device goes before the model, and its status with it."""
    with stub.edge() as edge:
        people.apply(model())
        people.apply(device())
        came = unasked(edge, 3)
        assert steps(came) == ALL
        assert {each.route.source for each in came} == {"devicecontroller"}
        objects = [each.route.resource for each in came if each.route.group == "resource"]
        assert objects == ["default/devicemodel/thermo-model", "default/device/thermo"]
        people.apply(device(desired="31.5"))
        (changed,) = unasked(edge, 1)
        assert content_of(changed)["spec"]["properties"][1]["desired"] == {"value": "31.5"}
        people.delete("devices", "thermo")
        came = unasked(edge, 3)
        gone = [each.route.resource for each in came if each.route.operation == "delete"]
        assert gone == ["default/device/thermo", "default/devicemodel/thermo-model"]
        (members,) = [each for each in came if each.route.resource == "membership"]
        assert content_of(members)["removed_devices"] == [{"id": "default/thermo", "name": "thermo"}]
        assert people.get("devicestatuses", "thermo") is None


def test_missed_changes_of_a_node_come_when_it_is_back(stub: Stub, people: People) -> None:
    """A changed device, a created one, a deleted one, and the membership of all."""
    people.apply(model())
    for name in ("thermo", "old"):
        people.apply(device(name))
    with stub.edge() as edge:
        unasked(edge, 4)
    wait_until(lambda: not stub.client.nodes(), "cloudcore has noticed the end of the connection")
    people.apply(device(desired="40.5"))
    people.apply(device("new"))
    people.delete("devices", "old")
    with stub.edge() as edge:
        came = unasked(edge, 4)
        assert steps(came) == {
            ("update", "membership"), ("update", "default/device/thermo"), ("insert", "default/device/new"),
            ("delete", "default/device/old"),
        }  # fmt: skip
        (members,) = [content_of(each) for each in came if each.route.resource == "membership"]
        assert [one["id"] for one in members["added_devices"]] == ["default/thermo", "default/new"]
        assert all(one["twin"] == {} for one in members["added_devices"])


def test_a_device_moves_to_another_node(stub: Stub, people: People) -> None:
    """Its former node gets the deletion, even if it is away meanwhile."""
    people.apply(model())
    people.apply(device())
    with stub.edge("n1") as edge:
        unasked(edge, 3)
    with stub.edge("n2") as other:
        people.apply(device(node="n2"))
        assert steps(unasked(other, 3)) == ALL
    with stub.edge("n1") as edge:
        came = unasked(edge, 2)
        gone = [("delete", "default/device/thermo"), ("delete", "default/devicemodel/thermo-model")]
        assert [(each.route.operation, each.route.resource) for each in came] == gone


def test_reported_values_and_states_are_in_the_status(stub: Stub, people: People) -> None:
    """The first report, too; a value with an earlier time does not overwrite a later one, whose time is the answer."""
    people.apply(model())
    people.apply(device())
    with stub.edge() as edge:
        assert reports(edge, "twin/edge_updated", twins({"temperature": "21"}, 2000)) == "OK"
        assert people.reported("thermo") == {"temperature": "21"}
        older = twins({"temperature": "20", "threshold": "3", "unknown": "x"}, 1000)
        answer = reports(edge, "twin/edge_updated", older)
        assert (answer["code"], list(answer["twin"])) == (409, ["temperature"])
        assert people.reported("thermo") == {"temperature": "21", "threshold": "3"}
        state = '{"event_id":"e","timestamp":1,"device":{"name":"thermo","state":"online","lastOnlineTime":"t"}}'
        assert reports(edge, "state/update", state) == "OK"
        found = people.status("thermo")
        assert (found["state"], found["lastOnlineTime"]) == ("online", "t")
        metadata = {"timestamp": "2000", "type": "int"}
        assert found["twins"][0] == {"propertyName": "temperature", "reported": {"value": "21", "metadata": metadata}}


def test_a_node_writes_nothing_of_another_nodes_device(stub: Stub, people: People) -> None:
    """It gets an error that ends the report, as for an unreadable one; both are counted."""
    people.apply(model())
    people.apply(device())
    with stub.edge("n2") as other:
        assert reports(other, "twin/edge_updated", twins({"temperature": "99"}))["code"] == 404
        assert reports(other, "twin/edge_updated", twins({"temperature": "99"}), name="nobody")["code"] == 404
    with stub.edge("n1") as edge:
        wrong: tuple[Any, ...] = (
            "no json",
            {"twin": []},
            {"twin": {"temperature": {"actual": {"value": "x" * 70_000}}}},
            None,
        )
        for content in wrong:
            assert reports(edge, "twin/edge_updated", content)["code"] in (400, 413)
        assert reports(edge, "twin/other", {})["code"] == 400
        assert reports(edge, "twin/edge_updated", twins({"temperature": "1"})) == "OK"
    assert people.reported("thermo") == {"temperature": "1"}
    assert [each.value for each in stub.client.device_values(ValueQuery("default", "thermo")).values] == ["1"]
    assert 'reason="not a device of the node"' in stub.client.metrics()


def test_a_node_asks_for_its_devices(stub: Stub, people: People) -> None:
    """It gets a confirmation, and a message of its own with the devices."""
    people.apply(model())
    people.apply(device())
    people.apply(device("other", node="n2"))
    with stub.edge() as edge:
        unasked(edge, 3)
        assert reports(edge, "membership/detail", "{}", name="", operation="get") == "OK"
        detail = edge.next()
        assert (detail.route.operation, detail.route.resource) == ("update", "membership/detail")
        assert [one["id"] for one in content_of(detail)["devices"]] == ["default/thermo"]


def test_a_device_without_a_model_has_a_condition_and_is_sent(stub: Stub, people: People) -> None:
    """A KubeEdge cloudcore ends with it. The condition changes when the model comes; from then on a value that it
    forbids is refused.
    """

    def valid() -> tuple[str, str]:
        conditions = people.status("thermo").get("conditions") or [{}]
        return conditions[0].get("status", ""), conditions[0].get("reason", "")

    with stub.edge() as edge:
        people.apply(device(of=""))
        assert steps(unasked(edge, 2)) == {("update", "membership"), ("insert", "default/device/thermo")}
        wait_until(lambda: valid() == ("False", "NoModelReference"), "the condition")
        people.apply(device(desired="warm"))
        wait_until(lambda: valid() == ("False", "ModelNotFound"), "the condition")
        people.apply(model())
        wait_until(lambda: valid() == ("False", "InvalidProperties"), "the condition")
        assert "not float" in people.status("thermo")["conditions"][0]["message"]
        people.apply(device())
        wait_until(lambda: valid() == ("True", "FitsModel"), "the condition")
        with pytest.raises(AssertionError, match=r"spec.properties\[1\].desired.value: .*the value is not float"):
            people.apply(device(desired="warm"))


def test_a_person_sees_devices_and_their_reports(
    stub: Stub, people: People, capsys: pytest.CaptureFixture[str]
) -> None:
    """`cloudcore get` has the columns of the definitions, as kubectl shows them, and `describe` all properties."""
    people.apply(model())
    people.apply(device())
    with stub.edge() as edge:
        reports(edge, "twin/edge_updated", twins({"temperature": "21"}))

    def shown(*arguments: str) -> list[list[str]]:
        assert main([*arguments, "--socket", str(stub.config.control_socket)]) == 0
        return [line.split() for line in capsys.readouterr().out.splitlines()]

    assert shown("get", "devices")[0] == ["NAME", "NODE", "MODEL", "PROPERTY", "DESIRED", "AGE"]
    assert shown("get", "devices")[1][:4] == ["thermo", "n1", "thermo-model", "temperature"]
    assert shown("get", "devicestatuses", "--no-headers")[0][:4] == ["thermo", "True", "temperature", "21"]
    assert shown("get", "devicemodels")[1][:2] == ["thermo-model", "demo"]
    described = shown("describe", "devicestatus", "thermo")
    assert ["Reason:", "FitsModel"] in described
    assert ["Value:", "21"] in described
    (head, (time, *row)) = shown("devices", "history", "default/thermo")
    assert (head, row) == (["TIME", "PROPERTY", "VALUE"], ["temperature", "21"])
    assert time.startswith("20")
    assert shown("devices", "history", "thermo", "threshold")[0][:2] == ["No", "values:"]
    assert main(["devices", "history", "thermo", "-o", "json", "--socket", str(stub.config.control_socket)]) == 0
    assert json.loads(capsys.readouterr().out) == [{"time": time, "property": "temperature", "value": "21"}]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.timeout(300)
def test_kubectl_shows_the_columns(tmp_path: Path) -> None:
    """Node, model and the first property; validity, state and what is reported of it."""
    with Stub(tmp_path, insecure_port=0) as stub:
        people = People(stub.client)
        people.wait()
        people.apply(model())
        people.apply(device())
        with stub.edge() as edge:
            reports(edge, "twin/edge_updated", twins({"temperature": "21"}))
            state = {"device": {"state": "online", "lastOnlineTime": "2026-11-20T16:43:05Z"}}
            assert reports(edge, "state/update", state) == "OK"
        home = {**os.environ, "HOME": str(tmp_path)}

        def shown(kind: str) -> list[list[str]]:
            command = ["kubectl", "--server", f"http://127.0.0.1:{stub.core.api_port}", "get", kind]
            done = subprocess.run(command, env=home, capture_output=True, text=True, timeout=120, check=True)
            return [line.split() for line in done.stdout.splitlines()]

        head, row = shown("devices")
        assert head == ["NAME", "NODE", "MODEL", "PROPERTY", "DESIRED", "AGE"]
        assert row[:4] == ["thermo", "n1", "thermo-model", "temperature"]
        head, row = shown("devicestatuses")
        assert head == ["NAME", "VALID", "STATE", "LAST-ONLINE", "PROPERTY", "DESIRED", "REPORTED", "AGE"]
        assert row[:-1] == ["thermo", "True", "online", "2026-11-20T16:43:05Z", "temperature", "21"]


def test_a_restart_of_cloudcore_sends_nothing_again(tmp_path: Path) -> None:
    """With a database: the definitions, what the node has acknowledged and what it has reported stay as they are."""
    url = str(tmp_path / "cloud.db")
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/devices.devices.kubeedge.io"
    with Stub(tmp_path, database=url) as stub:
        people = People(stub.client)
        people.wait()
        with stub.edge() as edge:
            people.apply(model())
            people.apply(device())
            people.apply(device("other"))
            unasked(edge, 4)
            wait_until(lambda: acknowledged(url, "n1") == 3, "acknowledgements are stored")
            reports(edge, "twin/edge_updated", twins({"temperature": "21"}))
        before = stub.client.request("GET", definition)
    with Stub(tmp_path, database=url) as stub:
        people = People(stub.client)
        people.wait()
        people.delete("devices", "other")
        with stub.edge() as edge:
            came = unasked(edge, 2)
            assert steps(came) == {("update", "membership"), ("delete", "default/device/other")}
        assert stub.client.request("GET", definition) == before
        assert [each.value for each in stub.client.device_values(ValueQuery("default", "thermo")).values] == ["21"]
