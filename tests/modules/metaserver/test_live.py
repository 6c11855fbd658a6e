"""What edged publishes comes into the view, once for each change."""

from __future__ import annotations

import json

from edged.api import Nanoseconds, ObjectMeta, Pod, PodStatus
from edged.api.pods import PodSpec
from edged.server.snapshots import Snapshots
from edged.static_pods.manifest import is_static
from modules.metaserver.live import LiveFeed
from modules.metaserver.view import Key, View
from tests.edged.node.test_status import REPORT
from tests.modules.metaserver.objects import FIRST, key, obj, put


def pod(name: str, uid: str, phase: str, **annotations: str) -> Pod:
    meta = ObjectMeta(name=name, namespace="default", uid=uid, annotations=annotations)
    return Pod(metadata=meta, spec=PodSpec(), status=PodStatus(phase=phase))


def phase(view: View, name: str) -> str:
    text = view.get(key(name))
    assert text is not None
    return str(json.loads(text)["status"]["phase"])


def test_statuses_of_pods_and_node() -> None:
    view, snapshots = View(FIRST), Snapshots()
    view.load({})
    put(view, obj("a", uid="1"), {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1", "namespace": ""}})
    LiveFeed(snapshots, view, "n1").begin()
    static = pod("s", "2", "Running", **{"kubernetes.io/config.source": "file"})
    assert is_static(static)
    first = pod("a", "1", "Pending")
    snapshots.pods = (first, static)
    assert (phase(view, "a"), phase(view, "s")) == ("Pending", "Running")
    begin = view.revision
    snapshots.pods = (first, static)
    assert view.revision == begin, "nothing has changed"
    snapshots.pods = (pod("a", "1", "Running"),)
    assert phase(view, "a") == "Running"
    assert view.get(key("s")) is None
    snapshots.reported(REPORT, Nanoseconds(0))
    node = view.get(Key("node", "", "n1"))
    assert node is not None
    assert "Ready" in {each["type"] for each in json.loads(node)["status"]["conditions"]}
    begin = view.revision
    snapshots.reported(REPORT, Nanoseconds(10**10))
    assert view.revision == begin, "a heartbeat alone is no other status"


def test_of_two_pods_of_a_name_the_stored_one_counts() -> None:
    """The older still goes."""
    view, snapshots = View(FIRST), Snapshots()
    view.load({})
    put(view, obj("a", uid="new"))
    LiveFeed(snapshots, view, "n1").begin()
    snapshots.pods = (pod("a", "old", "Running"), pod("a", "new", "Pending"))
    assert phase(view, "a") == "Pending"
