"""Objects that a node has and that no pod of it refers to any more."""

from modules.apimachinery.kinds import ObjectKey, uid_of, version_of
from tests.modules.cloud.edgecontroller.cluster_server import ClusterController
from tests.modules.cloud.edgecontroller.controller import USES, WEB
from tests.modules.cloud.objects import configmap, pod

SETTINGS = ObjectKey("ConfigMap", "default", "settings")


def test_an_object_that_a_node_may_not_read_any_more_is_no_reason_to_send_again(core: ClusterController) -> None:
    """Its row stays: the node has it, and gets its deletion."""
    core.applied(configmap(a="1"), pod(**USES))
    stored = core.server.cluster.storage
    for key in (SETTINGS, WEB):
        core.acknowledged(uid_of(stored.get(key)), int(version_of(stored.get(key))))
    core.removed("pods", "web")
    core.applied(configmap(a="2"))
    core.down()
    core.connected(seconds=60.0)
    assert "update node/n1/default/configmap/settings" not in core.down()
    core.removed("configmaps", "settings")
    assert "delete node/n1/default/configmap/settings" in core.down()


def test_the_next_pod_brings_the_present_version(core: ClusterController) -> None:
    core.applied(configmap(a="1"), pod(**USES))
    core.server.remove("pods", "web")
    core.applied(configmap(a="2"))
    core.down()
    core.applied(pod("next", **USES))
    sent = {one.route.resource: one.content_as(dict) for one in core.unasked()}
    assert sent["node/n1/default/configmap/settings"]["data"] == {"a": "2"}
