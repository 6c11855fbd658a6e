"""Why a pod does not run: each rule, with the objects that it needs."""

from copy import deepcopy
from typing import Any

import pytest

from modules.tools.why.pods import MAX_STEPS, Answer, PodFacts, explain
from modules.tools.why.references import Missing, Reference, missing_of, references_of

NOW = 1_800_000_000.0
"""2027-01-15T08:00:00Z."""
BEFORE = "2027-01-15T07:58:20Z"
"""100 seconds before."""
READY = {"type": "Ready", "status": "True", "lastTransitionTime": BEFORE}
RUNNING = {
    "name": "app",
    "ready": True,
    "started": True,
    "restartCount": 0,
    "state": {"running": {"startedAt": BEFORE}},
}
MISSING = (Missing(Reference("ConfigMap", "settings", "container app")),)


def pod(*, spec: dict[str, Any] | None = None, meta: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    """A pod on n1."""
    return {
        "metadata": {"name": "web", "namespace": "default", "creationTimestamp": BEFORE} | (meta or {}),
        "spec": {"nodeName": "n1", "containers": [{"name": "app"}]} | (spec or {}),
        "status": status,
    }


def container(state: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The status of its container, which is not ready."""
    return {"name": "app", "image": "shop/app:1", "ready": False, "restartCount": 3, "state": state, **more}


def waiting(reason: str, message: str = "", **more: Any) -> dict[str, Any]:
    return pod(
        startTime=BEFORE, containerStatuses=[container({"waiting": {"reason": reason, "message": message}}, **more)]
    )


def node(status: str, message: str = "") -> dict[str, Any]:
    ready = {"type": "Ready", "status": status, "lastTransitionTime": BEFORE, "message": message, "reason": "R"}
    return {"metadata": {"name": "n1"}, "status": {"conditions": [ready]}}


def event(reason: str, message: str, at: str = BEFORE, type_: str = "Warning", count: int = 1) -> dict[str, Any]:
    seen = {"lastTimestamp": at, "count": count, "source": {"component": "kubelet"}}
    return {"reason": reason, "message": message, "type": type_, **seen}


def answer(pod: dict[str, Any], program: str = "cloudcore", **known: Any) -> Answer:
    return explain(PodFacts(pod=pod, now=NOW, program=program, **known))


def crashed(code: int, reason: str = "Error") -> dict[str, Any]:
    return {"lastState": {"terminated": {"exitCode": code, "reason": reason}}}


LOG = "cloudcore -n default logs web -c app"


@pytest.mark.parametrize(
    ("of", "known", "state", "sentence", "remedy"),
    [
        (
            pod(conditions=[READY], containerStatuses=[RUNNING]),
            {},
            "runs",
            "runs on n1 for 100s: 1 of 1 containers are ready",
            "",
        ),
        (
            pod(conditions=[READY], containerStatuses=[{**RUNNING, "restartCount": 2, **crashed(137, "OOMKilled")}]),
            {},
            "runs",
            "runs on n1 for 100s: 1 of 1 containers are ready; container app was restarted 2 times: "
            "it ended with exit code 137 (OOMKilled)",
            "",
        ),
        (
            pod(conditions=[{**READY, "status": "False"}], containerStatuses=[RUNNING]),
            {"node": node("Unknown")},
            "unknown",
            "was running on n1 when it was last heard of: 1 of 1 containers are ready",
            "",
        ),
        (pod(phase="Succeeded"), {}, "ended", "has ended: all its containers ended with exit code 0", ""),
        (
            pod(phase="Failed", reason="Evicted", message="the disk is full"),
            {},
            "fails",
            "has failed: Evicted: the disk is full",
            "",
        ),
        (
            pod(phase="Failed", containerStatuses=[container({"terminated": {"exitCode": 127, "reason": "Error"}})]),
            {},
            "fails",
            "has failed: container app ended with exit code 127 (the command does not exist in the image)",
            LOG,
        ),
        (pod(phase="Failed"), {}, "unknown", "has failed, and its status does not say why", ""),
        (
            pod(spec={"nodeName": "", "schedulingGates": [{"name": "quota"}]}),
            {},
            "waits",
            "has no node: its scheduling gates are closed: quota",
            "",
        ),
        (
            pod(
                spec={"nodeName": ""},
                conditions=[{"type": "PodScheduled", "status": "False", "message": "0/1 nodes fit."}],
            ),
            {},
            "waits",
            "has no node: 0/1 nodes fit",
            "cloudcore get nodes",
        ),
        (
            pod(spec={"nodeName": "", "schedulerName": "mine"}),
            {},
            "waits",
            "has no node: it waits for the scheduler mine, which has said nothing about it",
            "",
        ),
        (pod(spec={"nodeName": ""}), {}, "unknown", "has no node, and no scheduler has said why", ""),
        (
            pod(),
            {"is_node_missing": True},
            "waits",
            "is bound to the node n1, which does not exist",
            "cloudcore get nodes",
        ),
        (
            waiting("CreateContainerConfigError"),
            {"missing": MISSING},
            "waits",
            "does not run: container app needs the ConfigMap settings, which does not exist",
            "cloudcore -n default create configmap settings --from-literal=KEY=VALUE",
        ),
        (
            waiting("ContainerCreating"),
            {"missing": MISSING * 2, "program": "edgecore"},
            "waits",
            "does not run: container app needs the ConfigMap settings, which this node does not have "
            "(1 more are missing)",
            "see that the cloud has the ConfigMap settings",
        ),
        (
            pod(),
            {"missing": [Missing(Reference("Secret", "key", "volume v"), "tls.crt")]},
            "waits",
            "does not run: volume v needs the Secret key, which has no key tls.crt",
            "add the key tls.crt to the Secret key",
        ),
        (
            waiting("CrashLoopBackOff", **crashed(3)),
            {"missing": MISSING},
            "fails",
            "does not run: container app ended with exit code 3; "
            "it was restarted 3 times, and waits to be started again",
            f"{LOG} --previous",
        ),
        (
            pod(),
            {"node": node("Unknown")},
            "waits",
            "does not run yet: node n1 has been away for 100s, and has not taken the pod",
            "cloudcore describe node n1",
        ),
        (
            pod(),
            {"node": node("False", "no network")},
            "waits",
            "does not run yet: node n1 has not been ready for 100s (no network), and has not taken the pod",
            "cloudcore describe node n1",
        ),
        (pod(), {"node": node("True")}, "waits", "is bound to n1, which has said nothing about it yet", ""),
        (
            waiting("ImagePullBackOff", "not found"),
            {},
            "fails",
            "does not run: the image shop/app:1 of container app cannot be had (ImagePullBackOff): not found",
            "",
        ),
        (
            waiting("ErrImagePull"),
            {"events": [event("Failed", "no such host")]},
            "fails",
            "does not run: the image shop/app:1 of container app cannot be had (ErrImagePull): no such host",
            "",
        ),
        (
            waiting("RunContainerError", "exec: no such file"),
            {},
            "fails",
            "does not run: container app cannot be made (RunContainerError): exec: no such file",
            "",
        ),
        (waiting("ContainerCreating"), {}, "waits", "has been starting for 100s, and nothing has failed yet", ""),
        (
            waiting("ContainerCreating"),
            {"events": [event("FailedMount", "no such export")]},
            "fails",
            "has been starting for 100s: no such export",
            "",
        ),
        (
            pod(
                startTime=BEFORE,
                initContainerStatuses=[{"name": "prepare", "state": {"running": {"startedAt": BEFORE}}}],
            ),
            {},
            "waits",
            "waits for its init container prepare, which has run for 100s",
            "cloudcore -n default logs web -c prepare",
        ),
        (
            pod(
                startTime=BEFORE, initContainerStatuses=[{"name": "prepare", "state": {"terminated": {"exitCode": 1}}}]
            ),
            {},
            "fails",
            "does not run: init container prepare ended with exit code 1",
            "cloudcore -n default logs web -c prepare",
        ),
        (
            pod(startTime=BEFORE, containerStatuses=[container({"running": {"startedAt": BEFORE}}, started=True)]),
            {"events": [event("Unhealthy", "HTTP status 500")]},
            "fails",
            "runs, but is not ready: the readiness probe of container app does not succeed: HTTP status 500",
            "",
        ),
        (
            pod(startTime=BEFORE, containerStatuses=[container({"running": {"startedAt": BEFORE}}, started=False)]),
            {},
            "fails",
            "runs, but is not ready: the startup probe of container app does not succeed, and no event says how",
            "",
        ),
        (
            pod(startTime=BEFORE, spec={"readinessGates": [{"conditionType": "lb"}]}, containerStatuses=[RUNNING]),
            {},
            "waits",
            "runs, but is not ready: its readiness gate lb is not True",
            "",
        ),
        (
            pod(
                startTime=BEFORE, containerStatuses=[container({"terminated": {"exitCode": 0, "reason": "Completed"}})]
            ),
            {},
            "fails",
            "is not ready: container app ended with exit code 0 (Completed)",
            LOG,
        ),
        (
            pod(meta={"deletionTimestamp": BEFORE, "finalizers": ["a/b"]}),
            {},
            "ending",
            "is being deleted, and waits for who removes its finalizers: a/b",
            "",
        ),
        (
            pod(meta={"deletionTimestamp": BEFORE}),
            {"node": node("Unknown")},
            "ending",
            "is being deleted: node n1 has been away for 100s, and ends the pod when it is back",
            "",
        ),
        (
            pod(meta={"deletionTimestamp": BEFORE, "deletionGracePeriodSeconds": 30}),
            {},
            "ending",
            "has been ending for 100s; its containers have 30 s to end",
            "",
        ),
        (pod(startTime=BEFORE, phase="Running"), {}, "unknown", "is Running, and nothing that is known says why", ""),
    ],
)
def test_the_first_sentence(of: dict[str, Any], known: dict[str, Any], state: str, sentence: str, remedy: str) -> None:
    found = answer(of, **known)
    assert (found.sentence, found.state) == (f"default/web {sentence}", state)
    assert " ".join(found.remedy) == remedy


def test_an_answer_says_what_is_not_known() -> None:
    found = answer(waiting("ContainerCreating"), node=node("Unknown"), unread=["Secret key: forbidden"])
    assert found.notes == [
        "node n1 has been away for 100s: what the node has said is as old as that",
        "not known: Secret key: forbidden",
    ]


def test_the_steps_come_in_the_order_of_time_and_the_last_warning_is_the_cause() -> None:
    conditions = [
        {**READY, "status": "False"},
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": BEFORE},
    ]
    of = waiting("ErrImagePull")
    of["status"]["conditions"] = conditions
    first, last = event("Failed", "no such host", count=4), event("Failed", "refused", "2027-01-15T07:59:00Z")
    steps = answer(of, events=[last, event("Pulling", "pulling", type_="Normal"), first]).steps
    assert [(step.text, step.is_cause) for step in steps] == [
        ("the pod was created", False),
        ("PodScheduled is True", False),
        ("Pulling: pulling", False),
        ("Failed (4 times): no such host", False),
        ("Failed: refused", True),
    ]
    runs = pod(conditions=[READY], containerStatuses=[RUNNING])
    assert not any(step.is_cause for step in answer(runs, events=[first]).steps)


def test_the_answer_is_bounded() -> None:
    found = answer(waiting("ErrImagePull", "x" * 10_000), events=[event("Failed", "y" * 10_000)] * 100)
    assert (len(found.steps), found.left_out) == (MAX_STEPS, 101 - MAX_STEPS)
    assert len(found.sentence) < 1000
    assert all(len(step.text) < 1000 for step in found.steps)


@pytest.mark.parametrize("hostile", [None, 3, "text", [], {}, [None, 3, "text", [], {}]])
def test_objects_of_any_shape_are_explained(hostile: Any) -> None:
    """The status comes from a node."""
    fields = ("conditions", "containerStatuses", "initContainerStatuses", "phase", "startTime", "reason")
    for field in fields:
        of = pod(startTime=BEFORE)
        of["status"][field] = hostile
        assert answer(of).sentence
    inner = {"state": hostile, "lastState": hostile, "name": hostile, "restartCount": hostile, "ready": hostile}
    assert answer(pod(containerStatuses=[inner], conditions=[{"type": hostile, "status": hostile}])).sentence
    assert references_of({"spec": {"volumes": hostile, "containers": hostile}}) == []


SPEC: dict[str, Any] = {
    "runtimeClassName": "kata",
    "priorityClassName": "system-node-critical",
    "initContainers": [{"name": "first", "envFrom": [{"secretRef": {"name": "s1"}}]}],
    "containers": [
        {
            "name": "app",
            "envFrom": [{"configMapRef": {"name": "c1"}}, {"configMapRef": {"name": "o1", "optional": True}}],
            "env": [
                {"name": "A", "value": "plain"},
                {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "c2", "key": "k"}}},
                {"name": "C", "valueFrom": {"secretKeyRef": {"name": "o2", "key": "k", "optional": True}}},
            ],
        }
    ],
    "volumes": [
        {"name": "a", "configMap": {"name": "c3", "items": [{"key": "k1", "path": "p"}]}},
        {"name": "b", "secret": {"secretName": "s2"}},
        {
            "name": "c",
            "projected": {"sources": [{"secret": {"name": "s3"}}, {"configMap": {"name": "o3", "optional": True}}]},
        },
        {"name": "d", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "e", "emptyDir": {}},
    ],
}


def test_the_objects_that_a_pod_cannot_start_without() -> None:
    assert references_of({"spec": deepcopy(SPEC)}) == [
        Reference("Secret", "s1", "container first"),
        Reference("ConfigMap", "c1", "container app"),
        Reference("ConfigMap", "c2", "container app", ("k",)),
        Reference("ConfigMap", "c3", "volume a", ("k1",)),
        Reference("Secret", "s2", "volume b"),
        Reference("Secret", "s3", "volume c"),
        Reference("PersistentVolumeClaim", "data", "volume d"),
        Reference("RuntimeClass", "kata", "the pod"),
    ]


def test_what_is_missing_of_a_reference() -> None:
    reference = Reference("ConfigMap", "c", "container app", ("a", "b"))
    assert missing_of(reference, {"data": {"a": ""}, "binaryData": {"b": ""}}) is None
    assert missing_of(reference, {"data": {"a": ""}}) == Missing(reference, "b")
    assert missing_of(reference, None) == Missing(reference)


@pytest.mark.parametrize("strange", ["²", "٣", "9" * 5000])
def test_counts_and_exit_codes_that_are_no_numbers(strange: str) -> None:
    """A cluster's API server refuses them; a node's mirror pod, an older database or a proxy may have them."""
    ended = pod(startTime=BEFORE, containerStatuses=[container({"terminated": {"exitCode": strange}})])
    given = answer(ended, events=[{**event("BackOff", "again"), "count": strange}])
    assert [step.text for step in given.steps if step.text.startswith("BackOff")] == ["BackOff: again"]
