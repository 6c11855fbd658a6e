"""The mirrors of static pods in the cloud, answer by answer."""

import msgspec
import pytest
from msgspec.structs import replace

from edged.api import Node, ObjectMeta, Pod, PodIP, PodSpec, PodStatus, encode
from edged.pods.critical import CONFIG_MIRROR, CONFIG_SOURCE
from edged.pods.labels import ref_of
from edged.pods.model import PodUid
from edged.report.pods import PodReporter
from edged.static_pods.manifest import CONFIG_HASH
from edged.static_pods.mirrors import Mirrors
from tests.edged.report.turns import Turns

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
def turns() -> Turns:
    return Turns()


@pytest.fixture
def reporter(turns: Turns) -> PodReporter:
    """Knows the static pod."""
    reporter = PodReporter(turns.client, turns)
    reporter.track(ref_of(POD), POD)
    return reporter


@pytest.fixture
def mirrors(turns: Turns, reporter: PodReporter) -> Mirrors:
    """Have asked for a mirror, and have no answer yet."""
    mirrors = Mirrors(turns.client, reporter, lambda: [POD], Node)
    mirrors.listed()
    assert turns.asked() == ["create pod"]
    return mirrors


def test_a_late_answer_does_not_take_back_what_the_cloud_has_said_since(
    turns: Turns, reporter: PodReporter, mirrors: Mirrors
) -> None:
    """The pod's next life would say the difference to a status that the cloud has no more: its former address stayed
    beside the new one.
    """
    mirrors.seen(a_mirror("6", running("10.0.0.1")))
    reporter.forget(UID)
    reporter.track(ref_of(POD), POD)
    turns.answer(msgspec.json.decode(encode(a_mirror("5")), type=dict))
    reporter.report(UID, running("10.0.0.2"))
    said = turns.answer({}).value["status"]
    assert said["podIPs"] == [{"ip": "10.0.0.2"}, {"ip": "10.0.0.1", "$patch": "delete"}]


def test_a_late_answer_does_not_bring_back_a_mirror_that_is_gone(turns: Turns, mirrors: Mirrors) -> None:
    made = a_mirror("5")
    mirrors.seen(made)
    assert mirrors.gone("default", "web-n1", made.metadata.uid)
    turns.answer(msgspec.json.decode(encode(made), type=dict))
    assert turns.asked() == ["create pod"]


def test_a_mirror_that_others_changed_just_before_our_patch_is_put_right(
    turns: Turns, reporter: PodReporter, mirrors: Mirrors
) -> None:
    """The cloud tells of it at the version of its answer to the patch, as of any pod."""
    mirrors.seen(a_mirror("5"))
    reporter.report(UID, running("10.0.0.2"))
    turns.open.pop(0)
    turns.answer({"metadata": {"resourceVersion": "7"}})
    both = (PodIP(ip="10.0.0.1"), PodIP(ip="10.0.0.2"))
    mirrors.seen(a_mirror("7", replace(running("10.0.0.2"), pod_ips=both)))
    reporter.send_all()
    said = turns.answer({"metadata": {"resourceVersion": "8"}}).value["status"]
    assert {"ip": "10.0.0.1", "$patch": "delete"} in said["podIPs"]
    mirrors.tick()
    reporter.send_all()
    assert turns.asked() == []
