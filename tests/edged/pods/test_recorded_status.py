"""The statuses of recorded pods equal a real kubelet's, key for key."""

import json
from typing import Any

import pytest

from edged.pods.facts import pod_facts
from edged.pods.labels import ref_of
from edged.pods.model import ContainerFacts, ContainerId, ProbeFacts, RunState, SandboxFacts, SandboxId
from edged.pods.pod_status.patch import diff_pod_status
from edged.pods.pod_status.status import NodeView, pod_status
from modules.apimachinery.types import Pod, decode, parse_time, seconds
from tests.edged.pods.builders import at
from tests.interop.traces import RECORDINGS, messages

NODE = NodeView(ips=("192.0.2.2",), runtime="containerd")


def _messages(file: str, kind: str, operation: str) -> list[Any]:
    return [
        m["content"]
        for m in messages(RECORDINGS / "today" / file)
        if m["route"]["resource"].split("/")[1:2] == [kind] and m["route"]["operation"] == operation
    ]


def _recorded_container(seen: dict[str, Any], sandbox: str, created: int) -> ContainerFacts:
    """The facts behind a recorded container status."""
    state = seen["state"].get("running") or seen["state"]["terminated"]
    ended = "finishedAt" in state
    return ContainerFacts(
        id=ContainerId(seen["containerID"].removeprefix("containerd://")),
        sandbox_id=SandboxId(sandbox),
        name=seen["name"],
        attempt=seen["restartCount"],
        state=RunState.EXITED if ended else RunState.RUNNING,
        created_at=at(created),
        started_at=parse_time(state["startedAt"]),
        finished_at=parse_time(state["finishedAt"]) if ended else seconds(0),
        exit_code=state.get("exitCode", 0),
        reason=state.get("reason", ""),
        image=seen["image"],
        image_ref=seen["imageID"],
    )


@pytest.mark.parametrize("file", ["01-pod-add.jsonl", "04-configmap-secret-pod.jsonl"])
def test_life_of_a_recorded_pod_up_to_ready(file: str) -> None:
    """From the pod that came and the facts at each step, the patches that a kubelet sent come out."""
    pod = decode(Pod, json.dumps(_messages(file, "pod", "insert")[0]))
    ref, old = ref_of(pod), pod.status
    for text in _messages(file, "podpatch", "patch"):
        patch = json.loads(text)["status"]
        seen = patch["containerStatuses"][0]
        now = max(parse_time(c["lastTransitionTime"]) for c in patch["conditions"])
        known, probes = pod_facts(ref), ProbeFacts()
        if "containerID" in seen:
            sandbox = SandboxFacts(
                SandboxId("s"), 0, ready=True, created_at=at(0), ips=(patch.get("podIP") or old.pod_ip,)
            )
            container = _recorded_container(seen, "s", 1)
            known = pod_facts(ref, [sandbox], [container])
            probes = ProbeFacts(readiness={container.id: seen["ready"]})
        new = pod_status(pod, known, NODE, now, old=old, probes=probes)
        assert json.loads(diff_pod_status(old, new, pod.metadata.uid) or "")["status"] == patch
        old = new


def test_end_of_a_recorded_pod() -> None:
    """A deleted pod that always restarts is reported Succeeded when its containers are gone, as a kubelet
    did.
    """
    pod = decode(Pod, json.dumps(_messages("06-pod-delete.jsonl", "pod", "update")[0]))
    (text,) = _messages("06-pod-delete.jsonl", "podpatch", "patch")
    patch = json.loads(text)["status"]
    seen = patch["containerStatuses"][0]
    former = seen | {"state": seen["lastState"], "restartCount": 0}
    former["containerID"] = former["state"]["terminated"]["containerID"]
    known = pod_facts(
        ref_of(pod),
        [SandboxFacts(SandboxId("s"), 0, ready=False, created_at=at(0), ips=())],
        [_recorded_container(former, "s", 1), _recorded_container(seen, "s", 2)],
    )
    now = parse_time(patch["conditions"][0]["lastTransitionTime"])
    new = pod_status(pod, known, NODE, now, ended=True)
    assert json.loads(diff_pod_status(pod.status, new, pod.metadata.uid) or "")["status"] == patch
