"""The module on messages from the cloud and from edged: what is stored, what goes where, what is acknowledged."""

from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest

from beehive import Group, Message, Module, ModuleName, Operation, State, handles
from metamanager.batch import Batch
from tests.metamanager.support import META, connect, from_cloud, from_edged, node, shape, store_of, thing
from tests.modules.traces import recordings, steps_of

EDGED, HUB, TWIN = ModuleName.EDGED, Group.HUB, ModuleName.DEVICETWIN

CASES: list[tuple[str, str, str, tuple[str, ...]]] = [
    ("default/pod/a", Operation.INSERT, "edgecontroller", (EDGED, HUB)),
    ("default/pod/a", Operation.UPDATE, "edgecontroller", (EDGED, HUB)),
    ("default/pod/a", Operation.UPDATE, "dynamiccontroller", (EDGED, HUB)),
    ("default/configmap/a", Operation.INSERT, "edgecontroller", (EDGED, HUB)),
    ("default/secret/a", Operation.UPDATE, "edgecontroller", (EDGED, HUB)),
    ("null/node/a", Operation.UPDATE, "edgecontroller", (EDGED, HUB)),
    ("default/node/a", Operation.INSERT, "edgecontroller", (EDGED, HUB)),
    ("default/device/a", Operation.INSERT, "devicecontroller", (TWIN, HUB)),
    ("default/device/a", Operation.UPDATE, "devicecontroller", (HUB, TWIN)),
    ("default/device/a", Operation.UPDATE, "edgecontroller", (TWIN, HUB)),
    ("default/serviceaccountaccess/a", Operation.INSERT, "policycontroller", (HUB,)),
    ("default/serviceaccountaccess/a", Operation.UPDATE, "policycontroller", (HUB,)),
]


@pytest.mark.parametrize(("resource", "operation", "source", "destinations"), CASES)
def test_objects_of_the_cloud_are_stored_handed_on_and_acknowledged(
    resource: str, operation: str, source: str, destinations: tuple[str, ...]
) -> None:
    """In the table's order; the object goes on as it came, the acknowledgement answers it."""
    with node() as bee:
        message = from_cloud(bee, resource, operation, thing(), source)
        bee.send(META, message)
        assert [sent.destination for sent in bee.sent] == list(destinations)
        (ok,) = bee.sent_to(HUB)
        assert (ok.parent_id, *shape(ok)) == (message.id, Operation.RESPONSE, resource, "OK")
        as_meta = (source, operation) == ("devicecontroller", Operation.INSERT)
        assert (ok.route.source, ok.route.group) == (("meta", Group.TWIN) if as_meta else (source, Group.RESOURCE))
        for handed_on in bee.sent_to(EDGED):
            assert handed_on == message
        for twin in bee.sent_to(TWIN):
            assert (twin.content, twin.route.source, twin.route.group) == (message.content, "meta", "twin")
        assert store_of(bee).get(resource) is not None


def test_an_older_state_is_acknowledged_and_not_applied() -> None:
    """It came late: the store keeps the newer one and edged never sees it."""
    with node() as bee:
        bee.send(META, from_cloud(bee, "default/pod/a", Operation.UPDATE, thing(version=5)))
        bee.forget()
        late = from_cloud(bee, "default/pod/a", Operation.UPDATE, thing(version=4))
        bee.send(META, late)
        assert [(sent.destination, sent.message.parent_id) for sent in bee.sent] == [(HUB, late.id)]
        assert '"5"' in (store_of(bee).get("default/pod/a") or "")


def test_an_update_of_unknown_source_is_not_acknowledged() -> None:
    """As KubeEdge has it: logged, nothing else."""
    with node() as bee:
        bee.send(META, from_cloud(bee, "default/pod/a", Operation.UPDATE, thing(), "somebody"))
        assert bee.sent == []
        assert store_of(bee).get("default/pod/a") is None


@pytest.mark.parametrize("namespace", ["default", "other"])
def test_a_deleted_pod_takes_its_patch_with_it_and_no_other(namespace: str) -> None:
    """The row and the patch row go, edged gets the deletion, the cloud its OK."""
    with node() as bee:
        for each in ("default", "other"):
            bee.send(META, from_cloud(bee, f"{each}/pod/a", Operation.INSERT, thing()))
            bee.hive.request(META, from_edged(bee, f"{each}/podpatch/a", Operation.PATCH, "{}"), 1)
        bee.settle()
        bee.forget()
        message = from_cloud(bee, f"{namespace}/pod/a", Operation.DELETE, thing())
        bee.send(META, message)
        assert [sent.destination for sent in bee.sent] == [EDGED, HUB]
        store = store_of(bee)
        for each in ("default", "other"):
            there = store.get(f"{each}/pod/a"), store.get(f"{each}/podpatch/a")
            assert (there == (None, None)) is (each == namespace)


def test_a_patch_of_a_pod_that_is_gone_is_sent_and_not_kept() -> None:
    """It came late; its row would stay for ever (found by `edgecore simulate --seed 10 --faults link`)."""
    with node(connected=True) as bee:
        message = from_edged(bee, "default/podpatch/a", Operation.PATCH, "{}")
        bee.future(META, message)
        bee.settle()
        assert [sent.id for sent in bee.sent_to(HUB)] == [message.id]
        assert store_of(bee).get("default/podpatch/a") is None


def test_a_delete_of_an_earlier_object_leaves_the_new_one() -> None:
    """The uid is not the stored one: the row stays, edged and the cloud still get their messages."""
    with node() as bee:
        bee.send(META, from_cloud(bee, "default/pod/a", Operation.INSERT, thing(uid="new")))
        bee.ask(META, from_edged(bee, "default/podpatch/a", Operation.PATCH, "{}"), 1)
        bee.forget()
        bee.send(META, from_cloud(bee, "default/pod/a", Operation.DELETE, thing(uid="old")))
        assert [sent.destination for sent in bee.sent] == [EDGED, HUB]
        assert store_of(bee).get("default/pod/a") is not None
        assert store_of(bee).get("default/podpatch/a") == "{}"


@pytest.mark.parametrize("content", [None, {"metadata": {"name": "a", "namespace": "default"}}])
def test_a_delete_without_a_uid_deletes_any(content: Any) -> None:
    """The cloud's skeleton of a pod that it has forgotten has no uid."""
    with node() as bee:
        bee.send(META, from_cloud(bee, "default/pod/a", Operation.INSERT, thing()))
        bee.send(META, from_cloud(bee, "default/pod/a", Operation.DELETE, content))
        assert store_of(bee).get("default/pod/a") is None


@pytest.mark.parametrize(
    ("source", "destinations"),
    [("devicecontroller", [TWIN, EDGED, HUB]), ("policycontroller", [HUB]), ("edgecontroller", [EDGED, HUB])],
)
def test_other_deletes_go_by_their_source(source: str, destinations: list[str]) -> None:
    """And the row is gone."""
    with node() as bee:
        bee.send(META, from_cloud(bee, "default/thing/a", Operation.INSERT, thing()))
        bee.forget()
        bee.send(META, from_cloud(bee, "default/thing/a", Operation.DELETE, thing(), source))
        assert [sent.destination for sent in bee.sent] == destinations
        assert store_of(bee).get("default/thing/a") is None


def test_a_status_from_edged_is_kept_sent_and_answered_immediately() -> None:
    """edged does not wait for the cloud: its message goes on with its id, connected or not."""
    with node() as bee:
        message = from_edged(bee, "default/podstatus/a", Operation.UPDATE, {"UID": "u", "Name": "a", "Status": {}})
        answer = bee.ask(META, message)
        assert shape(answer) == (Operation.RESPONSE, "default/podstatus/a", "OK")
        assert [(sent.id, sent.header.sync) for sent in bee.sent_to(HUB)] == [(message.id, False)]
        assert store_of(bee).get("default/podstatus/a") is not None


def test_a_patch_goes_to_the_cloud_and_its_answer_comes_from_there() -> None:
    """metamanager keeps the patch and leaves the answer to the hub, which finds edged by the id."""
    with node(connected=True) as bee:
        bee.send(META, from_cloud(bee, "default/pod/a", Operation.INSERT, thing()))
        bee.forget()
        patch = '{"status":{}}'
        message = from_edged(bee, "default/podpatch/a", Operation.PATCH, patch)
        future = bee.future(META, message)
        bee.settle()
        (sent,) = bee.sent_to(HUB)
        assert (sent.id, sent.content) == (message.id, patch)
        assert not future.settled
        bee.hive.respond(sent.reply(bee.clock, {"Object": {}, "Err": None}))
        assert future.get().content == {"Object": {}, "Err": None}
        assert store_of(bee).get("default/podpatch/a") == patch


def test_a_patch_without_a_connection_is_kept_and_refused_immediately() -> None:
    """The error answers the request, in KubeEdge's words."""
    with node() as bee:
        bee.send(META, from_cloud(bee, "default/pod/a", Operation.INSERT, thing()))
        message = from_edged(bee, "default/podpatch/a", Operation.PATCH, "{}")
        answer = bee.ask(META, message, 1)
        assert (answer.parent_id, *shape(answer)) == (
            message.id, Operation.ERROR, "default/podpatch/a", "connection lost between EdgeCore and CloudCore",
        )  # fmt: skip
        assert store_of(bee).get("default/podpatch/a") == "{}"


@pytest.mark.parametrize("operation", [Operation.INSERT, Operation.UPDATE])
@pytest.mark.parametrize("report", [True, False])
def test_events_are_kept_and_go_to_the_cloud_only_when_it_is_to_have_them(operation: Operation, report: bool) -> None:
    """Nobody is answered; with or without a connection, for the hub lets them wait."""
    with node(report_events=report) as bee:
        message = from_edged(bee, "default/event/a", operation, thing())
        bee.send(META, message)
        assert [(sent.destination, sent.message) for sent in bee.sent] == ([(HUB, message)] if report else [])
        assert msgspec.json.decode(store_of(bee).get("default/event/a") or "") == thing()
        bee.forget()
        bee.send(META, message.with_header(sync=True))
        assert [sent.message.header.sync for sent in bee.sent if sent.destination == HUB] == ([False] if report else [])


def test_the_patch_of_an_event_passes_through() -> None:
    """As KubeEdge's edge sends it; it is no object that could be kept."""
    with node() as bee:
        message = from_edged(bee, "default/event/a", Operation.PATCH, {"event": thing(), "patchData": "{}"})
        bee.send(META, message)
        assert [(sent.destination, sent.message) for sent in bee.sent] == [(HUB, message)]
        assert store_of(bee).get("default/event/a") is None


@pytest.mark.parametrize("content", [thing(), {"Object": thing(), "Err": None}])
def test_a_late_answer_with_an_object_is_kept_and_handed_to_edged(content: Any) -> None:
    """Nobody waits for it any more, but what it says is true; stored is the bare object."""
    with node() as bee:
        bee.send(META, from_cloud(bee, "default/configmap/a", Operation.RESPONSE, content))
        assert [sent.destination for sent in bee.sent] == [EDGED]
        assert msgspec.json.decode(store_of(bee).get("default/configmap/a") or "") == thing()


def test_a_late_answer_does_not_resurrect_a_deleted_object() -> None:
    """The cloud repeats an answer whose acknowledgement it has not got. One of another uid is of a later object."""
    with node() as bee:
        bee.send(META, from_cloud(bee, "default/configmap/a", Operation.RESPONSE, thing()))
        bee.send(META, from_cloud(bee, "default/configmap/a", Operation.DELETE, thing()))
        bee.sent.clear()
        bee.send(META, from_cloud(bee, "default/configmap/a", Operation.RESPONSE, thing()))
        assert bee.sent == []
        assert store_of(bee).get("default/configmap/a") is None
        bee.send(META, from_cloud(bee, "default/configmap/a", Operation.RESPONSE, thing(uid="uid-2")))
        assert [sent.destination for sent in bee.sent] == [EDGED]


def test_a_late_answer_that_came_as_an_update_is_acknowledged_and_resurrects_nothing() -> None:
    """Like an answer without a waiter from edgehub."""
    with node() as bee:
        bee.send(META, from_cloud(bee, "default/configmap/a", Operation.DELETE, thing()))
        bee.sent.clear()
        bee.send(META, from_cloud(bee, "default/configmap/a", Operation.UPDATE, thing()))
        assert [sent.destination for sent in bee.sent] == [HUB]
        assert store_of(bee).get("default/configmap/a") is None


def test_a_late_answer_to_a_patch_does_not_overwrite_the_patch() -> None:
    """The newest patch is what edged asks for under that name."""
    with node() as bee:
        bee.send(META, from_cloud(bee, "default/pod/a", Operation.INSERT, thing()))
        bee.ask(META, from_edged(bee, "default/podpatch/a", Operation.PATCH, "{}"))
        bee.send(META, from_cloud(bee, "default/podpatch/a", Operation.RESPONSE, {"Object": thing(), "Err": None}))
        assert store_of(bee).get("default/podpatch/a") == "{}"


@pytest.mark.parametrize(
    "content", ["OK", {"ErrStatus": {"code": 404}}, {}, None, [1], {"Object": None, "Err": {"ErrStatus": {}}}]
)
def test_a_late_answer_without_an_object_overwrites_nothing(content: Any) -> None:
    """KubeEdge stores it in the place of the object."""
    with node() as bee:
        bee.send(META, from_cloud(bee, "default/pod/a", Operation.INSERT, thing()))
        bee.forget()
        bee.send(META, from_cloud(bee, "default/pod/a", Operation.RESPONSE, content))
        assert bee.sent == []
        assert "uid-1" in (store_of(bee).get("default/pod/a") or "")


def test_a_volume_operation_is_edgeds_and_its_answer_the_clouds() -> None:
    """The cloud's driver gets what edged answered, as the answer to its own message."""
    with node(connected=True) as bee:
        bee.answer(EDGED, lambda request: request.reply(bee.clock, {"volume": 1}))
        message = from_cloud(bee, "default/volume/v", Operation.CREATE_VOLUME, "{}", "csidriver")
        bee.send(META, message)
        (answer,) = bee.sent_to(HUB)
        assert (answer.parent_id, *shape(answer)) == (
            message.id, Operation.RESPONSE, "default/volume/v", {"volume": 1},
        )  # fmt: skip


def test_a_volume_operation_without_an_answer_is_an_error_for_the_cloud() -> None:
    """After a minute, so that the driver is not left waiting."""
    with node(connected=True) as bee:
        message = from_cloud(bee, "default/volume/v", Operation.DELETE_VOLUME, "{}", "csidriver")
        bee.send(META, message, wait=61)
        (answer,) = bee.sent_to(HUB)
        assert (answer.parent_id, answer.route.operation) == (message.id, Operation.ERROR)


def test_a_volume_operation_that_is_lost_with_the_module_is_an_error_for_the_cloud_and_an_answered_one_is_not() -> None:
    with node(connected=True) as bee:
        bee.expect_failures()
        bee.answer(
            EDGED, lambda request: request.reply(bee.clock, {}) if request.route.resource.endswith("v") else None
        )
        bee.send(META, from_cloud(bee, "default/volume/v", Operation.CREATE_VOLUME, "{}", "csidriver"))
        lost = from_cloud(bee, "default/volume/w", Operation.CREATE_VOLUME, "{}", "csidriver")
        bee.send(META, lost)
        bee.forget()
        with mock.patch.object(Batch, "add", side_effect=RuntimeError("a bug")):
            bee.send(META, from_cloud(bee, "default/configmap/a", Operation.INSERT, thing()))
        bee.run_for(5)
        assert bee.hive.restarts()[META] >= 1
        failed = [each for each in bee.sent_to(HUB) if each.route.operation == Operation.ERROR]
        assert lost.id in [each.parent_id for each in failed]
        assert [each for each in bee.sent_to(HUB) if each.route.resource == "default/volume/v"] == []


@pytest.mark.parametrize("operation", ["", "keepalive", "nonsense", Operation.CONNECT])
def test_an_operation_that_is_not_supported_is_logged_and_no_more(operation: str) -> None:
    """A waiting module gets an error."""
    with node() as bee:
        bee.send(META, from_cloud(bee, "default/x/y", operation, None))
        assert bee.sent == []
        assert bee.ask(META, from_edged(bee, "default/x/y", operation), 1).route.operation == Operation.ERROR


@pytest.mark.parametrize("content", [object(), "\ud800"])
def test_a_content_that_cannot_be_stored_is_an_error_answer_and_no_failure(content: Any) -> None:
    """To the cloud for what the cloud sent; the module lives on."""
    with node() as bee:
        message = from_cloud(bee, "default/pod/a", Operation.INSERT, content)
        bee.send(META, message)
        (answer,) = bee.sent_to(HUB)
        assert (answer.parent_id, answer.route.operation) == (message.id, Operation.ERROR)
        assert bee.sent_to(EDGED) == []
        assert bee.hive.restarts()[META] == 0


def test_a_failed_write_is_answered_with_an_error_and_never_acknowledged(tmp_path: Path) -> None:
    """Disk full: an error answer, edged learns of that alone, not ready; with room again it takes the message."""
    with node(tmp_path / "edgecore.db") as bee:
        store_of(bee)._connection.execute("PRAGMA max_page_count=6")
        message = from_cloud(bee, "default/pod/a", Operation.INSERT, thing(spec="x" * 100_000))
        bee.send(META, message)
        sent = [(each.destination, each.message.route.operation) for each in bee.sent]
        assert sent == [(EDGED, Operation.UPDATE), (HUB, Operation.ERROR)]
        assert [each.route.resource for each in bee.sent_to(EDGED)] == ["node/disk"]
        assert bee.hive.readiness()[META].state is State.NOT_READY
        store_of(bee)._connection.execute("PRAGMA max_page_count=1000")
        bee.forget()
        bee.send(META, message)
        assert [sent.destination for sent in bee.sent] == [EDGED, HUB]
        assert bee.hive.readiness()[META].state is State.READY


def test_after_a_restart_everything_is_there(tmp_path: Path) -> None:
    """A second module on the same file, without a cloud, lists the pods that the first one stored."""
    with node(tmp_path / "edgecore.db") as bee:
        bee.send(META, from_cloud(bee, "default/pod/a", Operation.INSERT, thing()))
    with node(tmp_path / "edgecore.db") as bee:
        answer = bee.ask(META, from_edged(bee, "null/pod", Operation.QUERY))
        assert len(answer.content) == 1


def test_a_file_that_cannot_be_opened_fails_the_start(tmp_path: Path) -> None:
    """With the path in the error."""
    (tmp_path / "notes.txt").write_bytes(b"no database" * 500)
    with pytest.raises(Exception, match=r"notes\.txt"), node(tmp_path / "notes.txt"):
        pass


@pytest.mark.parametrize("path", recordings(), ids=lambda path: path.stem)
def test_recorded_messages_are_acknowledged_as_kubeedge_did(path: Path) -> None:
    """Every insert, update and delete of a real cloudcore gets the acknowledgement that a real edgecore gave."""
    steps = list(steps_of(path))
    recorded = {step.parent: step for step in steps if step.from_edge and step.operation == "response"}
    with node() as bee:
        connect(bee)
        for step in steps:
            if step.from_edge or step.operation not in ("insert", "update", "delete"):
                continue
            route = step.message["route"]
            message = from_cloud(bee, step.resource, step.operation, step.content, route["source"])
            bee.forget()
            bee.send(META, message)
            (ok,) = bee.sent_to(HUB)
            theirs = recorded[step.id].message
            ours = {"source": ok.route.source, "group": ok.route.group, "operation": str(ok.route.operation),
                    "resource": ok.route.resource}  # fmt: skip
            assert (ours, ok.content) == (theirs["route"], theirs["content"])
            assert [sent.content for sent in bee.sent_to(EDGED)] == [step.content]


@pytest.mark.parametrize(
    ("kind", "source", "receives"),
    [
        ("device", "devicecontroller", [TWIN, HUB]),
        ("devicemodel", "devicecontroller", [TWIN, HUB]),
        ("serviceaccountaccess", "policycontroller", [HUB]),
    ],
)
def test_what_left_the_node_may_come_back_as_the_same_object(kind: str, source: str, receives: list[str]) -> None:
    """A Device goes to another node and returns; a model goes with the last Device of it, and comes with the next. So
    do the rights of a service account with its pods (KubeEdge's policycontroller).
    """
    resource = f"default/{kind}/a"
    with node() as bee:
        for operation in (Operation.INSERT, Operation.DELETE, Operation.INSERT):
            bee.sent.clear()
            bee.send(META, from_cloud(bee, resource, operation, thing(), source))
        assert store_of(bee).get(resource) is not None
        assert [sent.destination for sent in bee.sent] == receives


@pytest.mark.parametrize(
    ("resource", "source", "destinations"),
    [
        ("default/pod/a", "edgecontroller", [EDGED, HUB]),
        ("default/configmap/a", "edgecontroller", [EDGED, HUB]),
        ("default/device/a", "edgecontroller", [TWIN, HUB]),
        ("default/device/a", "devicecontroller", [TWIN, EDGED, HUB]),
        ("default/serviceaccountaccess/a", "policycontroller", [HUB]),
        ("default/service/a", "metaserver", []),
    ],
)
def test_the_deletion_of_an_object_that_is_not_stored_reaches_who_may_have_it(
    resource: str, source: str, destinations: list[str]
) -> None:
    """The store was lost, or the deletion comes again because its acknowledgement was lost. Only metaserver, which
    compares the store with the cloud, knows that nobody has it.
    """
    with node() as bee:
        bee.send(META, from_cloud(bee, resource, Operation.DELETE, thing(), source))
        assert [sent.destination for sent in bee.sent] == destinations


def test_a_status_of_an_older_object_is_sent_and_not_kept() -> None:
    """edged changes the object that it has read; the cloud decides about its version."""
    with node() as bee:
        bee.send(META, from_cloud(bee, "null/node/a", Operation.UPDATE, thing(version=5)))
        bee.forget()
        assert bee.ask(META, from_edged(bee, "null/node/a", Operation.UPDATE, thing(version=4))).content == "OK"
        assert [sent.content for sent in bee.sent_to(HUB)] == [thing(version=4)]
        assert '"5"' in (store_of(bee).get("null/node/a") or "")


def test_a_successor_of_a_pod_is_untouched_by_late_messages_about_the_pod() -> None:
    """A StatefulSet makes a pod of the same name. The old one's deletion, and an older state of it that the cloud
    repeats, may come after it.
    """
    with node() as bee:
        bee.send(META, from_cloud(bee, "default/pod/a", Operation.INSERT, thing(uid="old", version=1)))
        bee.send(META, from_cloud(bee, "default/pod/a", Operation.INSERT, thing(uid="new", version=7)))
        bee.send(META, from_cloud(bee, "default/pod/a", Operation.DELETE, thing(uid="old", version=6)))
        bee.forget()
        bee.send(META, from_cloud(bee, "default/pod/a", Operation.UPDATE, thing(uid="old", version=5)))
        assert [sent.destination for sent in bee.sent] == [HUB]
        assert '"new"' in (store_of(bee).get("default/pod/a") or "")


class Mesh(Module):
    """In the place of edgemesh."""

    name = ModuleName.EDGEMESH
    group = Group.MESH
    taken: list[tuple[str, str]] = []  # noqa: RUF012 - cleared by the test

    @handles()
    def take(self, message: Message) -> None:
        """Note what comes."""
        self.taken.append((message.route.operation, message.route.resource))


def test_edgemesh_receives_what_services_need_once_it_is_stored() -> None:
    """Beside edged. An older state and a deletion of another object are not for it; what metaserver deletes is."""
    Mesh.taken = []
    with node(beside=Mesh) as bee:
        for kind in ("service", "endpoints", "endpointslice", "node", "pod", "configmap"):
            bee.send(META, from_cloud(bee, f"default/{kind}/a", Operation.INSERT, thing(version=5)))
        assert [resource for _, resource in Mesh.taken] == [
            f"default/{kind}/a" for kind in ("service", "endpoints", "endpointslice", "node")
        ]
        Mesh.taken.clear()
        bee.forget()
        bee.send(META, from_cloud(bee, "default/service/a", Operation.UPDATE, thing(version=4)))
        assert (Mesh.taken, len(bee.sent_to(HUB))) == ([], 1)
        bee.forget()
        for uid in ("another", "uid-1"):
            bee.send(META, from_cloud(bee, "default/service/a", Operation.DELETE, thing(uid=uid), "metaserver"))
        assert Mesh.taken == [(Operation.DELETE, "default/service/a")]
        assert bee.sent == []
