"""What nodes are sent unasked: what their pods need, changes, what they lack when they connect, and what again."""

import pytest

from beehive.names import Operation
from modules.apimachinery.kinds import ObjectKey
from modules.cloud.client.calls import STRATEGIC
from modules.cloud.edgecontroller.cluster.restores import Restores
from modules.cloud.edgecontroller.downstream_messages import object_message
from modules.cloud.edgecontroller.mirror.mirror import Mirror
from modules.cloud.edgecontroller.state.newest_versions import NewestVersions
from modules.cloud.edgecontroller.state.object_syncs import ObjectSyncs
from modules.cloud.storage.object_sync import ObjectSync
from tests.modules.cloud.edgecontroller.controller import USES, WEB, Controller, lone_downstream
from tests.modules.cloud.objects import configmap, pod, secret


@pytest.mark.parametrize("is_bound_later", [False, True])
def test_references_of_a_pod_go_ahead_of_it(controller: Controller, is_bound_later: bool) -> None:
    controller.apply(configmap(), secret(), *([pod(**USES, nodeName="")] if is_bound_later else []))
    assert controller.down() == []
    if is_bound_later:
        target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web"}, "target": target}
        controller.call("create", "pod", "web", subresource="binding", body=body)
    else:
        controller.apply(pod(**USES))
    assert controller.down() == [
        "insert node/n1/default/configmap/settings",
        "update node/n1/default/secret/key",
        "insert node/n1/default/pod/web",
    ]


def test_a_changed_configmap_goes_to_the_nodes_that_hold_it(controller: Controller) -> None:
    controller.apply(configmap(a="1"), pod(**USES), pod("other", nodeName="n2"))
    controller.down()
    controller.apply(configmap(a="2"))
    assert controller.down() == ["update node/n1/default/configmap/settings"]
    controller.remove("cm", "settings")
    assert controller.down() == ["delete node/n1/default/configmap/settings"]
    controller.apply(configmap(a="3"))
    assert controller.down() == ["insert node/n1/default/configmap/settings"], "its pod still wants it"


def test_a_node_that_asked_for_a_configmap_gets_its_changes(controller: Controller) -> None:
    controller.apply(configmap(a="1"), pod(**USES))
    controller.down()
    request = controller.asks("default/configmap/settings", "query")
    assert controller.answer_to(request).content["data"] == {"a": "1"}
    controller.bee.forget()
    controller.apply(configmap(a="2"))
    assert controller.down() == ["update node/n1/default/configmap/settings"]
    controller.remove("pod", "web", grace=0)
    controller.down()
    controller.apply(configmap(a="3"))
    assert controller.down() == [], "nothing of it refers to the configmap any more"


def test_a_node_gets_no_changes_of_a_configmap_after_its_pod_has_gone(controller: Controller) -> None:
    """It may not read it any more; of the deletion it hears, and with the next pod it has the newest."""
    controller.apply(configmap(a="1"), pod(**USES))
    controller.remove("pod", "web", grace=0)
    controller.down()
    controller.apply(configmap(a="2"))
    controller.connected(seconds=60)
    assert "update node/n1/default/configmap/settings" not in controller.down()
    controller.apply(pod("next", **USES))
    assert controller.down() == ["insert node/n1/default/configmap/settings", "insert node/n1/default/pod/next"]
    controller.remove("pod", "next", grace=0)
    controller.down()
    controller.remove("cm", "settings")
    assert controller.down() == ["delete node/n1/default/configmap/settings"]


def test_a_pod_that_refers_to_more_brings_its_node_what_that_is_now(controller: Controller) -> None:
    """The node may have it from a pod of before, in a version of before (`kubectl debug`)."""
    controller.apply(configmap(a="1"), pod(**USES), pod("stays"))
    controller.remove("pod", "web", grace=0)
    controller.apply(configmap(a="2"))
    controller.down()
    debugger = {"name": "debugger", "image": "busybox:1.35", "envFrom": [{"configMapRef": {"name": "settings"}}]}
    controller.call(
        "patch", "pod", "stays", subresource="ephemeralcontainers", patch_type=STRATEGIC,
        body={"spec": {"ephemeralContainers": [debugger]}},
    )  # fmt: skip
    assert controller.down() == ["insert node/n1/default/configmap/settings", "update node/n1/default/pod/stays"]


def test_a_node_that_connects_gets_all_it_needs(controller: Controller) -> None:
    controller.apply(configmap(), pod(**USES), pod("going"), pod("other", nodeName="n2"))
    controller.remove("pod", "going")
    controller.down()
    controller.connected()
    assert controller.down() == [
        "insert node/n1/default/configmap/settings",
        "update node/n1/default/pod/going",
        "insert node/n1/default/pod/web",
    ]


def test_only_objects_that_a_node_has_lacked_for_a_while_are_sent_again(controller: Controller) -> None:
    """A deletion whose acknowledgement was under way went to the node twice."""
    controller.apply(pod())
    controller.down()
    live = controller.cluster.storage.get(WEB)["metadata"]
    controller.acknowledged(live["uid"], int(live["resourceVersion"]))
    controller.bee.run_for(9.9)
    controller.remove("po", "web", grace=0)
    assert controller.down() == ["update node/n1/default/pod/web", "delete node/n1/default/pod/web"]
    assert controller.down(after=1.0) == [], "it may be on its way"
    assert controller.down(after=10.0) == ["delete node/n1/default/pod/web"]
    controller.acknowledged(live["uid"], -1, is_delete=True)
    assert controller.down(after=60.0) == []


def test_an_acknowledgement_counts_in_one_transaction_with_a_reconnection(controller: Controller) -> None:
    """Otherwise the reconnection reads the database as before the transaction, and the deletion is sent twice."""
    controller.apply(configmap(), pod(**USES), pod("gone"))
    gone = controller.cluster.storage.get(ObjectKey("Pod", "default", "gone"))["metadata"]
    web = controller.cluster.storage.get(WEB)["metadata"]
    controller.remove("po", "gone", grace=0)
    controller.down()
    controller.acknowledged(gone["uid"], -1, is_delete=True)
    controller.acknowledged(web["uid"], int(web["resourceVersion"]))
    controller.connected()
    assert controller.down() == ["insert node/n1/default/configmap/settings"], "it has not been acknowledged"


@pytest.mark.parametrize("is_made_late", [False, True])
@pytest.mark.parametrize("is_acknowledged", [False, True])
def test_a_pod_that_was_replaced_while_its_node_was_away_is_deleted_before_the_next_comes(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, *, is_acknowledged: bool, is_made_late: bool
) -> None:
    """Also when the API server has not answered yet whether the pod is gone."""
    monkeypatch.setattr(Restores, "confirm_end", lambda *_args: None)
    controller.apply(pod())
    live = controller.cluster.storage.get(WEB)["metadata"]
    if is_acknowledged:
        controller.acknowledged(live["uid"], int(live["resourceVersion"]))
    controller.of_link("disconnected", 1)
    controller.remove("po", "web", grace=0)
    if not is_made_late:
        controller.apply(pod())
    controller.down()
    controller.connected()
    if is_made_late:
        controller.apply(pod())
    assert controller.down() == ["delete node/n1/default/pod/web", "insert node/n1/default/pod/web"]


@pytest.mark.parametrize("waiting", ["disconnected", "connected"])
def test_a_node_that_came_and_went_while_the_cloud_was_busy_is_gone(controller: Controller, waiting: str) -> None:
    """Of what waits, an end takes the place of an earlier end, which is before the beginning of its connection."""
    if waiting == "connected":
        controller.of_link("connected", 3)
    controller.of_link("disconnected", 1 if waiting == "disconnected" else 3)
    for link in (4, 5):
        controller.of_link("connected", link)
        controller.of_link("disconnected", link)
    controller.apply(pod())
    assert "n1" not in controller.database.connected
    assert controller.down() == []
    controller.connected()
    assert controller.down() == ["insert node/n1/default/pod/web"]


def test_objects_sent_at_a_reconnection_have_not_been_lacked_for_a_while(controller: Controller) -> None:
    controller.apply(pod())
    controller.remove("po", "web", grace=0)
    controller.bee.run_for(9.9)
    controller.down()
    controller.bee.run_for(9.0)
    controller.down()
    controller.connected()
    assert controller.down() == ["delete node/n1/default/pod/web"]
    assert controller.down(after=2.0) == [], "it may be on its way"
    assert controller.down(after=10.0) == ["delete node/n1/default/pod/web"]


@pytest.mark.parametrize("sync", [ObjectSync(WEB, 7), ObjectSync(WEB, sent=7)])
def test_an_object_that_is_missing_in_a_newer_version_than_it_existed_in_was_deleted(sync: ObjectSync) -> None:
    """Until that version the watch is behind."""
    newest = NewestVersions()
    assert not newest.is_behind(sync), "nothing was listed"
    newest.listed("Pod", "5")
    newest.observe("Node", "8")
    newest.observe("Pod", "6")
    assert newest.is_behind(sync)
    assert not newest.is_behind(ObjectSync(WEB)), "only its deletion was sent"
    newest.observe("Pod", "7")
    assert not newest.is_behind(sync)


def test_a_node_may_have_a_newer_object_of_a_name_until_the_watch_has_told_of_it() -> None:
    settings, syncs = ObjectKey("ConfigMap", "default", "settings"), ObjectSyncs(lambda *_args: None)
    syncs.node_connected("n1", {"next": ObjectSync(settings, 9)})
    downstream = lone_downstream(Mirror(lambda *_args: True), syncs)
    for told, may_have in ("5", True), ("9", False):
        downstream.newest.listed("ConfigMap", told)
        downstream.stale.records_loaded("n1")
        assert downstream.stale.may_have_newer("n1", settings) is may_have
        assert not downstream.stale.may_have_newer("n1", ObjectKey("ConfigMap", "default", "other"))


def test_a_version_that_is_acknowledged_after_the_deletion_was_sent_does_not_stand_for_it(
    controller: Controller,
) -> None:
    """Another cloudcore would take it for what the node has."""
    controller.apply(pod())
    live = controller.cluster.storage.get(WEB)["metadata"]
    controller.remove("po", "web", grace=0)
    controller.down()
    recorded = controller.database.object_syncs_of("n1")[live["uid"]]
    assert recorded.sent > int(live["resourceVersion"])
    controller.acknowledged(live["uid"], int(live["resourceVersion"]))
    controller.bee.run_for(1)
    assert controller.database.object_syncs_of("n1")[live["uid"]] == recorded


@pytest.mark.parametrize("is_confirmed", [True, False])
def test_no_pod_is_remembered_whose_deletion_was_confirmed_or_whose_node_has_gone(*, is_confirmed: bool) -> None:
    """Each pod that ended while its node was away was remembered until cloudcore was restarted."""
    syncs = ObjectSyncs(lambda *_args: None)
    syncs.node_connected("n1", {"ended": ObjectSync(WEB, 3)})
    downstream = lone_downstream(Mirror(lambda *_args: True), syncs)
    if not is_confirmed:
        downstream.unconfirmed._confirm = lambda *_args: None
    downstream.newest.listed("Pod", "5")
    downstream.node_connected("n1")
    assert ("n1" in downstream.unconfirmed.by_node) is not is_confirmed
    following = pod() | {"metadata": {"name": "web", "uid": "next", "resourceVersion": "2"}}
    downstream.send(object_message("n1", Operation.INSERT, WEB, following))
    assert ("next" in syncs.of("n1")) is is_confirmed, "what has waited only is not deleted there"
    downstream.node_disconnected("n1")
    assert not downstream.unconfirmed.by_node
