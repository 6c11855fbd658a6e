"""The mirrors of static pods in the cloud, answer by answer."""

from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from beehive.decoding import decode_json
from edged.node.state import NodeState
from edged.pods.labels import ref_of
from edged.pods.manager import PodManager
from edged.pods.model import PodUid
from edged.static_pods.manifest import CONFIG_HASH
from edged.static_pods.mirror_pods import MirrorPods
from edged.status.manager import StatusManager
from modules.apimachinery.pods.static import CONFIG_MIRROR, CONFIG_SOURCE
from modules.apimachinery.types import Node, ObjectMeta, Pod, PodIP, PodSpec, PodStatus, encode
from tests.edged.status.meta_requests import MetaRequests

UID = PodUid("of-the-file")


def running(address: str) -> PodStatus:
    """Runs under this address."""
    return PodStatus(phase="Running", pod_ip=address, pod_ips=(PodIP(ip=address),))


NOTES = {CONFIG_SOURCE: "file", CONFIG_HASH: "hash"}
POD = Pod(
    metadata=ObjectMeta(name="web-n1", namespace="default", uid=UID, annotations=NOTES),
    spec=PodSpec(),
    status=PodStatus(phase="Pending"),
)


def a_mirror(version: str, status: PodStatus = POD.status) -> Pod:
    """The cloud's, at a version."""
    annotations = {**NOTES, CONFIG_MIRROR: "hash"}
    metadata = replace(POD.metadata, uid="of-the-cloud", annotations=annotations, resource_version=version)
    return replace(POD, metadata=metadata, status=status)


@pytest.fixture
def requests() -> MetaRequests:
    return MetaRequests()


@pytest.fixture
def reporter(requests: MetaRequests) -> StatusManager:
    """Knows the static pod."""
    reporter = StatusManager(requests.client, requests)
    reporter.add_pod(ref_of(POD), POD)
    return reporter


@pytest.fixture
def mirrors(requests: MetaRequests, reporter: StatusManager) -> MirrorPods:
    """Have asked for a mirror, and have no answer yet."""
    pods = PodManager()
    pods.put(POD)
    mirrors = MirrorPods(requests.client, reporter, pods, Mock(state=NodeState(registered=Node())))
    mirrors.cloud_pods_listed()
    assert requests.asked() == ["create pod"]
    return mirrors


def test_a_late_answer_does_not_take_back_newer_news_of_the_cloud(
    requests: MetaRequests, reporter: StatusManager, mirrors: MirrorPods
) -> None:
    """The pod's next life would say the difference to a status that the cloud has no more: its former address stayed
    beside the new one.
    """
    mirrors.mirror_added(a_mirror("6", running("10.0.0.1")))
    reporter.forget_pod(UID)
    reporter.add_pod(ref_of(POD), POD)
    requests.answer(decode_json(encode(a_mirror("5")), dict))
    reporter.set_pod_status(UID, running("10.0.0.2"))
    said = requests.answer({}).value["status"]
    assert said["podIPs"] == [{"ip": "10.0.0.2"}, {"ip": "10.0.0.1", "$patch": "delete"}]


def test_a_late_answer_does_not_bring_back_a_mirror_that_is_gone(requests: MetaRequests, mirrors: MirrorPods) -> None:
    made = a_mirror("5")
    mirrors.mirror_added(made)
    assert mirrors.mirror_removed("default", "web-n1", made.metadata.uid)
    requests.answer(decode_json(encode(made), dict))
    assert requests.asked() == ["create pod"]


def test_a_mirror_that_others_changed_just_before_our_patch_is_put_right(
    requests: MetaRequests, reporter: StatusManager, mirrors: MirrorPods
) -> None:
    """The cloud tells of it at the version of its answer to the patch, as of any pod."""
    mirrors.mirror_added(a_mirror("5"))
    reporter.set_pod_status(UID, running("10.0.0.2"))
    requests.open.pop(0)
    requests.answer({"metadata": {"resourceVersion": "7"}})
    both = (PodIP(ip="10.0.0.1"), PodIP(ip="10.0.0.2"))
    mirrors.mirror_added(a_mirror("7", replace(running("10.0.0.2"), pod_ips=both)))
    reporter.sync_all()
    said = requests.answer({"metadata": {"resourceVersion": "8"}}).value["status"]
    assert {"ip": "10.0.0.1", "$patch": "delete"} in said["podIPs"]
    mirrors.sync()
    reporter.sync_all()
    assert requests.asked() == []
