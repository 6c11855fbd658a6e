"""What cloudcore asks the API server of a cluster for: nothing for what it sends; one list of each kind at a start."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from beehive.testing import Harness
from modules.apimachinery.kinds import kind_named, uid_of, version_of
from modules.cloud.edgecontroller.mirror.reflectors import MIRRORED
from modules.cloud.storage.database.database import Database
from tests.modules.cloud.edgecontroller.cluster_server import ClusterController, ClusterServer
from tests.modules.cloud.edgecontroller.controller import USES
from tests.modules.cloud.objects import configmap, node, pod, secret

EDGE = {"node-role.kubernetes.io/edge": ""}
_PLURALS = {kind_named(name).plural for name in MIRRORED}


def _lists(server: ClusterServer) -> Counter[str]:
    """How often each kind was listed. Devices are asked for each minute: the cluster has no definition of them."""
    assert all("limit" in query for _, query in server.lists)
    return Counter(plural for plural, _ in server.lists if not plural.startswith("device"))


def _acknowledge(core: ClusterController) -> None:
    """The node acknowledges each object that it was sent."""
    for message in core.unasked():
        if message.route.operation in ("insert", "update", "delete"):
            content = message.content_as(dict[str, Any])
            is_delete = message.route.operation == "delete"
            core.acknowledged(uid_of(content), int(version_of(content)), is_delete=is_delete)
    core.bee.settle()
    core.bee.forget()


def test_an_object_that_is_sent_and_acknowledged_costs_no_request() -> None:
    """Nor its changes and its deletion; KubeEdge's cloudcore makes four for each object."""
    with Harness() as bee:
        core = ClusterController(bee)
        core.server.requests.clear()
        core.server.lists.clear()
        for number in range(20):
            core.server.apply(configmap(a="1"), secret(), pod(f"web-{number}", **USES))
            bee.settle()
            _acknowledge(core)
        core.server.apply(configmap(a="2"))
        core.server.remove("Pod", "web-0")
        assert {"update node/n1/default/configmap/settings", "delete node/n1/default/pod/web-0"} <= set(core.down())
        bee.run_for(60.0)
        assert core.server.requests == []
        assert not _lists(core.server)


@pytest.mark.parametrize("pods", [1, 120])
def test_a_restart_costs_one_list_of_each_kind_and_no_message(tmp_path: Path, pods: int) -> None:
    """In pages; all that the node has acknowledged stays as it is."""
    path = str(tmp_path / "cloud.db")
    with Harness() as bee:
        server = ClusterServer(bee.clock)
        server.apply({"apiVersion": "v1", "kind": "Node", **node(**EDGE)}, configmap(a="1"), secret())
        server.apply(*(pod(f"web-{number}", **USES) for number in range(pods)))
        database = Database(path, "cloudcore", stores_objects=False)
        core = ClusterController(bee, server, database)
        core.asks("null/node/n1", "insert", node())
        bee.settle()
        assert len(core.unasked()) >= pods + 2
        _acknowledge(core)
        objects = server.objects()
        database.close()
    with Harness() as bee:
        again = ClusterServer(bee.clock)
        again.restore(objects)
        core = ClusterController(bee, again, Database(path, "cloudcore", stores_objects=False))
        bee.run_for(60.0)
        assert core.down() == []
        assert _lists(again) == Counter(_PLURALS)
        assert again.requests == []
