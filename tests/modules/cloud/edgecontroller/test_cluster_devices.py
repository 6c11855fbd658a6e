"""Devices of a cluster: mirrored if it has them, sent to their nodes, and told to devicecontroller."""

from typing import Any

import pytest

from beehive import Message
from beehive.names import ModuleName, Operation
from beehive.testing import Harness
from modules.apimachinery.kinds import ObjectKey, key_of, uid_of, version_of
from modules.cloud.api_messages import Verb
from modules.cloud.devicecontroller.definitions import definitions
from modules.cloud.devicecontroller.module import DeviceController
from modules.cloud.devices import API_VERSION, DEVICE
from modules.cloud.edgecontroller.module import EdgeController
from modules.cloud.messages import ConnectEvent
from modules.cloud.refusals import Refusals
from modules.cloud.storage.object_sync import ObjectSync
from modules.cloud.storage.watch_history import WatchQuery, WatchStart
from tests.modules.cloud.edgecontroller.cluster_server import ClusterController, ClusterServer
from tests.modules.cloud.test_device_forms import OLD_DEVICE, OLD_MODEL
from tests.modules.processes.cloudcore.devices import device, model

INSERTED = ["insert node/n1/default/devicemodel/thermo-model", "insert node/n1/default/device/thermo"]

GONE = ["delete node/n1/default/device/thermo", "delete node/n1/default/devicemodel/thermo-model"]


def new(obj: dict[str, Any], version: str = API_VERSION) -> dict[str, Any]:
    """An object with its apiVersion and namespace."""
    return {**obj, "apiVersion": version, "metadata": {"namespace": "default", **obj["metadata"]}}


def server_with(bee: Harness, *objects: dict[str, Any]) -> ClusterServer:
    """A cluster that defines the kinds."""
    server = ClusterServer(bee.clock)
    server.apply(*definitions(), *map(new, objects))
    return server


def sent(core: ClusterController, after: float = 0.0) -> list[str]:
    """What nodes were sent of devices since the last look, once each, some seconds later; it is all acknowledged."""
    core.pass_time(after)
    messages = [each for each in core.unasked() if "/device" in each.route.resource]
    assert {each.route.source for each in messages} <= {"devicecontroller"}
    for each in messages:
        acknowledge(core, each)
    core.bee.settle()
    core.bee.forget()
    return list(dict.fromkeys(f"{each.route.operation} {each.route.resource}" for each in messages))


def acknowledge(core: ClusterController, message: Message) -> None:
    content: Any = message.content_as(Any)
    is_delete = message.route.operation == "delete"
    core.acknowledged(content["metadata"]["uid"], int(message.header.resourceversion or 0), is_delete=is_delete)


def watch(core: ClusterController, kind: str, **fields: Any) -> WatchStart:
    """The beginning of devicecontroller's watch."""
    asked = core.bee.message("cloudcore/objects", Verb.WATCH, WatchQuery(kind, **fields), source="devicecontroller")
    return core.bee.ask(EdgeController.name, asked).content_as(WatchStart)


def test_a_device_comes_to_its_node_after_its_model_and_goes(bee: Harness) -> None:
    """What is there at the start, what changes, and what is deleted."""
    core = ClusterController(bee, server_with(bee, device(), model()))
    assert sent(core) == INSERTED
    core.server.apply(new(device(desired="40.5")))
    assert sent(core) == ["update node/n1/default/device/thermo"]
    core.server.remove("devices", "thermo")
    assert sent(core) == GONE


def test_a_node_that_was_away_gets_missing_objects_and_the_deletions(bee: Harness) -> None:
    """Also over a restart of cloudcore, whose first lists say what is not there any more."""
    server = server_with(bee, model(), device(), device("old"))
    core = ClusterController(bee, server)
    assert len(sent(core)) == 3
    with Harness() as other:
        server.remove("devices", "old")
        server.apply(new(device("added")))
        server._clock = other.clock
        again = ClusterController(other, server, core.database)
        missed = ["delete node/n1/default/device/old", "insert node/n1/default/device/added"]
        assert sent(again)[:2] == missed, "what follows is sent again, as the node has connected again"


def test_nothing_is_deleted_before_the_devices_are_listed(bee: Harness) -> None:
    """A node that has devices keeps them while the API server refuses the list, and gets deletions when it does not."""
    server = server_with(bee, model(), device())
    core = ClusterController(bee, server)
    assert len(sent(core)) == 2
    with Harness() as other:
        server._clock = other.clock
        server.remove("devices", "thermo")
        server.answers["devices"] = lambda exchange: exchange.answer(403, {"kind": "Status", "message": "no"})
        again = ClusterController(other, server, core.database)
        assert sent(again, after=30) == []
        server.answers.clear()
        assert sent(again, after=61) == [
            "delete node/n1/default/device/thermo",
            "delete node/n1/default/devicemodel/thermo-model",
        ]


def test_a_device_that_the_watch_has_not_told_of_yet_is_not_deleted(bee: Harness) -> None:
    """Another cloudcore has sent it to the node, which has connected here since."""
    core = ClusterController(bee, server_with(bee, model(), device()))
    assert len(sent(core)) == 2
    watches = core.server.hold_watches()
    core.server.apply(new(device("added")))
    added = core.server.cluster.storage.get(ObjectKey(DEVICE.key_name, "default", "added"))
    core.database.begin()
    sync = ObjectSync(key_of(added), int(version_of(added)))
    core.database.put_object_sync("n1", uid_of(added), sync)
    core.database.commit(1)
    core.connected()
    bee.run_for(30)
    assert [each for each in sent(core) if each.startswith("delete")] == []
    core.server.go_on(watches)
    core.server.remove("devices", "added")
    assert sent(core) == ["delete node/n1/default/device/added"]


def test_a_cluster_without_devices_is_served_and_asked_again(bee: Harness, caplog: pytest.LogCaptureFixture) -> None:
    """One line in the log; one request in half a minute or more. The kinds may be defined later."""
    with caplog.at_level("INFO", logger="modules.cloud.edgecontroller"):
        core = ClusterController(bee)
        bee.run_for(600)
    told = [record for record in caplog.records if "devices" in record.getMessage()]
    assert [record.levelname for record in told] == ["INFO"]
    refused = watch(core, DEVICE.key_name).refusal
    assert refused is not None
    assert refused["code"] == 404
    core.server.apply(*definitions(), new(model()), new(device()))
    assert sent(core, after=61)[:2] == INSERTED, "what follows is sent again, as it was not acknowledged"


def test_a_new_device_waits_for_its_model_for_a_moment(bee: Harness) -> None:
    """The watch of models may be late; a device whose model does not come is sent all the same, as it was last, and one
    that is deleted meanwhile is not.
    """
    core = ClusterController(bee, server_with(bee))
    bee.settle()
    core.server.apply(new(device(desired="1.5")), new(device("gone")))
    core.server.apply(new(device(desired="2.5")))
    core.server.remove("devices", "gone")
    assert sent(core) == []
    core.server.apply(new(model()))
    assert sent(core) == INSERTED
    core.server.apply(new(device("alone", of="none")))
    assert sent(core) == []
    core.server.apply(new(device("alone", of="none", desired="3.5")))
    bee.run_for(3)
    (message,) = [each for each in core.unasked() if "/device/" in each.route.resource]
    assert message.content_as(dict[str, Any])["spec"]["properties"][1]["desired"]["value"] == "3.5"


def test_a_device_of_the_first_list_waits_for_a_newer_model(bee: Harness) -> None:
    """It was made between the two lists, after its model. Until it is handed over, the list counts as incomplete: the
    device of a node is not deleted.
    """
    server = server_with(bee, model(), device())
    core = ClusterController(bee, server)
    assert sent(core) == INSERTED
    with Harness() as other:
        server._clock = other.clock
        server.remove("devices", "thermo")
        server.remove("devicemodels", "thermo-model")
        server.apply(new(device("late", of="late-model")), new(device("alone", of="none")))
        again = ClusterController(other, server, core.database)
        assert sent(again) == []
        server.apply(new(model("other-model")))
        assert sent(again) == []
        server.apply(new(model("late-model")))
        late = ["insert node/n1/default/devicemodel/late-model", "insert node/n1/default/device/late"]
        assert sent(again) == late
        assert sent(again, after=3) == ["insert node/n1/default/device/alone", *GONE]


def test_devicecontroller_gets_all_devices_and_their_changes(bee: Harness) -> None:
    """It writes into the cluster what a node reports, and which conditions there are; it deletes nothing there."""
    server = server_with(bee, model(), device())
    bee.add(DeviceController, Refusals(bee.clock), is_embedded=False)
    core = ClusterController(bee, server)
    event = ConnectEvent(Operation.CONNECTED, 0, "n1", "c1")
    link = bee.message("node/n1", Operation.CONNECTED, event, source=ModuleName.CLOUDHUB)
    bee.send(DeviceController.name, link)
    bee.run_for(10)
    server.apply(new(device("second", of="absent")))
    server.remove("devices", "thermo")
    bee.run_for(10)
    content = {"twin": {"temperature": {"actual": {"value": "21"}}}}
    resource = "node/n1/device/default/second/twin/edge_updated"
    told = bee.message(resource, "update", content, source="system:node:n1", group="resource")
    bee.send(DeviceController.name, told)
    bee.run_for(5)
    assert core.answer_to(told).content_as(str) == "OK"
    found = {one["metadata"]["name"]: one["status"] for one in server.objects() if one["kind"] == "DeviceStatus"}
    reasons = {name: status["conditions"][0]["reason"] for name, status in found.items()}
    assert reasons == {"thermo": "FitsModel", "second": "ModelNotFound"}
    assert found["second"]["twins"][0]["reported"]["value"] == "21"


def test_a_restarted_edgecontroller_finds_its_unsent_changes(bee: Harness) -> None:
    """A device was deleted while it could not tell."""
    bee.expect_failures()
    server = server_with(bee, model(), device(), device("kept"))
    bee.add(DeviceController, Refusals(bee.clock), is_embedded=False)
    core = ClusterController(bee, server)
    bee.run_for(10)
    core.down()
    server.stop_watches()
    server.remove("devices", "thermo")
    core.database_fails()
    core.asks("null/node/n1", "query")
    bee.run_for(60)
    assert bee.hive.restarts()["edgecontroller"] == 1
    told = [each.content_as(dict[str, Any]) for each in core.unasked() if each.route.resource.endswith("/membership")]
    assert [each["removed_devices"] for each in told] == [[{"id": "default/thermo", "name": "thermo"}]]


def test_other_watches_of_a_cluster_are_not_served(bee: Harness) -> None:
    core = ClusterController(bee, server_with(bee, model(), device()))
    assert [each.object["metadata"]["name"] for each in watch(core, DEVICE.key_name).changes] == ["thermo"]
    for refused in (watch(core, "Pod"), watch(core, DEVICE.key_name, version=1)):
        assert (refused.refusal or {})["code"] == 405


def test_objects_of_v1alpha2_are_kept_whole_and_sent_in_the_new_form(bee: Harness) -> None:
    """The node is the selector's."""
    server = server_with(bee)
    core = ClusterController(bee, server)
    server.apply(*(new(each, "devices.kubeedge.io/v1alpha2") for each in (OLD_MODEL, OLD_DEVICE)))
    bee.settle()
    messages = [message for message in core.unasked() if "/device" in message.route.resource]
    down = {message.route.resource: message.content_as(dict[str, Any]) for message in messages}
    assert down["node/n1/default/devicemodel/sensor"]["spec"]["properties"][0]["type"] == "INT"
    found = down["node/n1/default/device/hall"]
    assert (found["apiVersion"], found["spec"]["nodeName"]) == (API_VERSION, "n1")
    assert found["spec"]["properties"][1]["desired"]["value"] == "ON"
    (stored,) = [one for one in server.objects() if one["kind"] == "Device"]
    assert (stored["spec"], stored["status"]) == (OLD_DEVICE["spec"], OLD_DEVICE["status"])
