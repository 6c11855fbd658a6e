"""Why a pod does not run: each rule, with the objects that it needs."""

from copy import deepcopy
from typing import Any

import pytest

from edged.chains.model import ChainStep
from modules.insight.why.facts import NodeChain, PodFacts, rfc3339
from modules.insight.why.pods import MAX_STEPS, Answer, explain
from modules.insight.why.references import PULL, Missing, Reference, missing_of, references_of
from modules.insight.why.steps import ReportedStep, kill_of

NOW = 1_800_000_000.0
"""2027-01-15T08:00:00Z."""
BEFORE = "2027-01-15T07:58:20Z"
"""100 seconds before."""
LATE = "2027-01-15T07:59:00Z"
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


def held(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod, which its node holds."""
    return {**pod, "status": {**pod["status"], "conditions": [{"type": "HeldUpgrade", "status": "True"}]}}


def node(status: str, message: str = "") -> dict[str, Any]:
    ready = {"type": "Ready", "status": status, "lastTransitionTime": BEFORE, "message": message, "reason": "R"}
    return {"metadata": {"name": "n1"}, "status": {"conditions": [ready]}}


def event(reason: str, message: str, at: str = BEFORE, type_: str = "Warning", count: int = 1) -> dict[str, Any]:
    seen = {"lastTimestamp": at, "count": count, "source": {"component": "kubelet"}}
    return {"reason": reason, "message": message, "type": type_, **seen}


def answer(pod: dict[str, Any], program: str = "cloudcore", **known: Any) -> Answer:
    return explain(PodFacts(pod=pod, now=NOW, program=program, **known))


def crashed(code: int, reason: str = "Error", **more: str) -> dict[str, Any]:
    return {"lastState": {"terminated": {"exitCode": code, "reason": reason, **more}}}


def unscheduled(message: str, **spec: Any) -> dict[str, Any]:
    """A pod that the scheduler has found no node for."""
    return pod(
        spec={"nodeName": "", **spec}, conditions=[{"type": "PodScheduled", "status": "False", "message": message}]
    )


def about_app(event: dict[str, Any]) -> dict[str, Any]:
    """An Event about the container."""
    return {**event, "involvedObject": {"fieldPath": "spec.containers{app}"}}


def kept(seconds: float, reason: str, text: str, **more: Any) -> ChainStep:
    """A step that the node has kept, of so many seconds ago, which has come often before."""
    return ChainStep(NOW - 5000, reason, text, "app", count=6, last=NOW - seconds, **more)


LOG = "cloudcore -n default logs web -c app"
LIFE = {"exitCode": 143, "reason": "Error", "startedAt": "2027-01-15T07:59:10Z", "finishedAt": "2027-01-15T07:59:12Z"}
EARLIER = "2027-01-15T06:00:00Z"
"""Before the node has kept anything."""
STARTED = kept(50, "Started", "Started container app")
ENDED = kept(48, "Ended", "container app ended with exit code 143", is_warning=True)
BACK_OFF = kept(46, "BackOff", "Back-off restarting failed container app", is_warning=True)
LATER = {**LIFE, "startedAt": "2027-01-15T07:59:30Z", "finishedAt": "2027-01-15T07:59:40Z"}
"""A life of which nothing is known but the status."""
ENDED_ALONE = kept(30, "Ended", "container app ended with exit code 143", is_warning=True)
KILLED = NodeChain(
    "u",
    [
        STARTED,
        kept(49, "Unhealthy", "Liveness probe failed: exit code 1", is_warning=True),
        kept(49, "Killing", "Container app failed liveness probe, will be restarted"),
        ENDED,
        BACK_OFF,
    ],
)


EVENTS = [
    about_app(event("Unhealthy", "Liveness probe failed: exit code 1", "2027-01-15T07:59:11Z")),
    about_app(event("Killing", "Container app failed liveness probe, will be restarted", "2027-01-15T07:59:11Z")),
]
"""The last ones that a node without a tunnel has sent: of an earlier life of the container."""


@pytest.mark.parametrize(
    ("of", "known", "state", "sentence", "remedy"),
    [
        (
            pod(
                conditions=[READY], containerStatuses=[RUNNING, {**RUNNING, "state": {"running": {"startedAt": LATE}}}]
            ),
            {},
            "runs",
            "runs on n1 for 100s: 2 of 2 containers are ready",
            "",
        ),
        (
            pod(conditions=[READY], containerStatuses=[{**RUNNING, "restartCount": 2, **crashed(137, "OOMKilled")}]),
            {},
            "runs",
            "runs on n1 for 100s: 1 of 1 container is ready; container app was restarted 2 times: "
            "it ended with exit code 137 (OOMKilled)",
            "",
        ),
        (
            pod(conditions=[{**READY, "status": "False"}], containerStatuses=[RUNNING]),
            {"node": node("Unknown")},
            "unknown",
            "was running on n1 when it was last heard of: 1 of 1 container is ready",
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
            "(1 more is missing)",
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
            held(waiting("ContainerCreating")),
            {},
            "waits",
            "waits for the owner of its node to release it",
            "on n1: edgecore release web -n default",
        ),
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
            {"events": [event("Unhealthy", "Readiness probe failed: HTTP status 500")]},
            "fails",
            "runs, but is not ready: the readiness probe of container app does not succeed: HTTP status 500",
            LOG,
        ),
        (
            pod(startTime=BEFORE, containerStatuses=[container({"running": {"startedAt": BEFORE}}, started=False)]),
            {},
            "fails",
            "runs, but is not ready: the startup probe of container app does not succeed, and no event says how",
            LOG,
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
            {"is_node_missing": True},
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
            "has been ending for 2m10s; its containers had 30 s to end",
            "",
        ),
        (
            pod(meta={"deletionTimestamp": "2027-01-15T08:00:20Z", "deletionGracePeriodSeconds": 30}),
            {"events": [event("FailedKillPod", "the runtime does not answer")]},
            "ending",
            "has been ending for 10s; its containers have 30 s to end: the runtime does not answer",
            "",
        ),
        (
            pod(),
            {"node": node("Unknown"), "heard": "2027-01-15T07:57:00Z"},
            "waits",
            "does not run yet: node n1 has been away for 3m, and has not taken the pod",
            "cloudcore describe node n1",
        ),
        (
            unscheduled(
                "1 Insufficient memory.", containers=[{"name": "app", "resources": {"requests": {"memory": "9Gi"}}}]
            ),
            {},
            "waits",
            "has no node: 1 Insufficient memory (container app requests 9Gi of memory)",
            "cloudcore describe nodes",
        ),
        (
            unscheduled(
                "1 node(s) didn't have free ports for the requested pod ports.",
                containers=[{"name": "app", "ports": [{"containerPort": 80, "hostPort": 8080}]}],
            ),
            {},
            "waits",
            "has no node: 1 node(s) didn't have free ports for the requested pod ports "
            "(it asks for port 8080 of its node)",
            "cloudcore get pods -A -o wide",
        ),
        (
            unscheduled(
                "1 node(s) didn't have free ports for the requested pod ports.",
                containers=[{"name": "app", "ports": [{"containerPort": 80, "hostPort": 8080}]}],
            ),
            {"port_holders": ["default/old on n1"]},
            "waits",
            "has no node: 1 node(s) didn't have free ports for the requested pod ports "
            "(it asks for port 8080 of its node, which default/old on n1 has)",
            "cloudcore get pods -A -o wide",
        ),
        (
            unscheduled("1 node(s) didn't match Pod's node affinity/selector.", nodeSelector={"disk": "ssd"}),
            {},
            "waits",
            "has no node: 1 node(s) didn't match Pod's node affinity/selector "
            "(it asks for a node with the label disk=ssd)",
            "cloudcore get nodes --show-labels",
        ),
        (
            waiting(
                "ImagePullBackOff",
                'Back-off pulling image "shop/app:1": ErrImagePull: PullImage of shop/app:1 failed: no login',
            ),
            {"missing": [Missing(Reference("Secret", "login", PULL))]},
            "fails",
            "does not run: the image shop/app:1 of container app cannot be had (ImagePullBackOff): no login; "
            "the pull of its images needs the Secret login, which does not exist",
            "cloudcore -n default create secret docker-registry login --docker-server=SERVER --docker-username=USER "
            "--docker-password=PASSWORD",
        ),
        (
            waiting("ContainerCreating"),
            {
                "missing": [Missing(Reference("Secret", "login", PULL))],
                "events": [event("Failed", "Failed to pull image")],
            },
            "fails",
            "has been starting for 100s: Failed to pull image; the pull of its images needs the Secret login, "
            "which does not exist",
            "cloudcore -n default create secret docker-registry login --docker-server=SERVER --docker-username=USER "
            "--docker-password=PASSWORD",
        ),
        (
            {
                **waiting(
                    "ErrImagePull",
                    "PullImage of docker.io/shop/app:2 failed: cannot pull 'docker.io/shop/app:2': no route",
                ),
                "spec": {"nodeName": "n1", "containers": [{"name": "app", "image": "shop/app:2"}]},
            },
            {},
            "fails",
            "does not run: the image shop/app:2 of container app cannot be had (ErrImagePull): no route",
            "",
        ),
        (
            waiting("InvalidImageName", "in lower case"),
            {},
            "fails",
            "does not run: the image shop/app:1 of container app cannot be had (InvalidImageName): in lower case",
            "correct the name of the image in the pod's manifest",
        ),
        (
            waiting("ErrImageNeverPull", "not present"),
            {},
            "fails",
            "does not run: the image shop/app:1 of container app cannot be had (ErrImageNeverPull): not present",
            "load the image on n1, or let imagePullPolicy be IfNotPresent",
        ),
        (
            waiting("CrashLoopBackOff", **crashed(128, "StartError")),
            {},
            "fails",
            "does not run: container app ended with exit code 128 (StartError); it was restarted 3 times, and waits "
            "to be started again",
            "correct the command or the image of container app: it never ran, so it has no log if the reason is not "
            "the container's, see `edgecore doctor` on n1",
        ),
        (
            waiting("CrashLoopBackOff", **crashed(128, "StartError", message="crun: no cgroup of version 2")),
            {},
            "fails",
            "does not run: container app ended with exit code 128 (StartError, crun: no cgroup of version 2); it was "
            "restarted 3 times, and waits to be started again",
            "see `edgecore doctor` on n1: the machine lacks what a container needs",
        ),
        (
            {
                **waiting("CrashLoopBackOff", restartCount=1, **crashed(137, "OOMKilled")),
                "spec": {
                    "nodeName": "n1",
                    "containers": [{"name": "app", "resources": {"limits": {"memory": "20Mi"}}}],
                },
            },
            {},
            "fails",
            "does not run: container app ended with exit code 137 (OOMKilled); it was restarted once, and waits to be "
            "started again",
            f"raise resources.limits.memory of container app, which is 20Mi, or let it use less {LOG} --previous",
        ),
        (
            waiting("CrashLoopBackOff", lastState={"terminated": LIFE}),
            {"chain": KILLED},
            "fails",
            "does not run: container app was ended, because its liveness probe failed (exit code 1); "
            "it was restarted 3 times, and waits to be started again",
            f"{LOG} --previous",
        ),
        (
            waiting(
                "CrashLoopBackOff", lastState={"terminated": {**LIFE, "startedAt": EARLIER, "finishedAt": EARLIER}}
            ),
            {"chain": KILLED},
            "fails",
            "does not run: container app ended with exit code 143 (ended by SIGTERM); "
            "it was restarted 3 times, and waits to be started again",
            f"{LOG} --previous",
        ),
        (
            waiting("CrashLoopBackOff", lastState={"terminated": LATER}),
            {"events": EVENTS},
            "fails",
            "does not run: container app ended with exit code 143 (ended by SIGTERM, an earlier time because its "
            "liveness probe failed (exit code 1)); it was restarted 3 times, and waits to be started again",
            f"{LOG} --previous",
        ),
        (
            waiting("CrashLoopBackOff", lastState={"terminated": {**LATER, "exitCode": 1}}),
            {"events": EVENTS},
            "fails",
            "does not run: container app ended with exit code 1; "
            "it was restarted 3 times, and waits to be started again",
            f"{LOG} --previous",
        ),
        (
            waiting("CrashLoopBackOff", lastState={"terminated": LATER}),
            {"chain": NodeChain("u", [*KILLED.steps, ENDED_ALONE])},
            "fails",
            "does not run: container app ended with exit code 143 (ended by SIGTERM); "
            "it was restarted 3 times, and waits to be started again",
            f"{LOG} --previous",
        ),
        (
            waiting("CrashLoopBackOff", lastState={"terminated": LIFE}),
            {"events": [about_app(event("FailedPostStartHook", "PostStartHook failed", "2027-01-15T07:59:11Z"))]},
            "fails",
            "does not run: container app was ended, because its postStart hook failed; "
            "it was restarted 3 times, and waits to be started again",
            f"{LOG} --previous",
        ),
        (
            pod(
                startTime=BEFORE,
                initContainerStatuses=[
                    {**container({"waiting": {"reason": "CrashLoopBackOff"}}, **crashed(4)), "name": "prepare"}
                ],
            ),
            {},
            "fails",
            "does not run: init container prepare ended with exit code 4; it was restarted 3 times, and waits to be "
            "started again",
            "cloudcore -n default logs web -c prepare --previous",
        ),
        (
            pod(
                startTime=BEFORE,
                spec={
                    "containers": [
                        {"name": "app", "readinessProbe": {"exec": {"command": ["sh", "-c", "test -e /ok"]}}}
                    ]
                },
                containerStatuses=[container({"running": {"startedAt": BEFORE}}, started=True)],
            ),
            {"events": [event("Unhealthy", "Readiness probe failed: exit code 1")]},
            "fails",
            "runs, but is not ready: the readiness probe of container app does not succeed: exit code 1",
            "cloudcore -n default exec web -c app -- sh -c 'test -e /ok'",
        ),
        (pod(startTime=BEFORE, phase="Running"), {}, "unknown", "is Running, and nothing that is known says why", ""),
    ],
)
def test_the_first_sentence(of: dict[str, Any], known: dict[str, Any], state: str, sentence: str, remedy: str) -> None:
    found = answer(of, **known)
    assert (found.sentence, found.state) == (f"default/web {sentence}", state)
    assert " ".join(found.remedy) == remedy


def test_an_answer_names_unknown_facts() -> None:
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


@pytest.mark.parametrize(
    ("annotations", "who", "text"),
    [
        ({}, "API server", "the pod was created"),
        ({"kubernetes.io/config.source": "file"}, "kubelet", "the file of the static pod was read"),
        (
            {"kubernetes.io/config.source": "file", "kubernetes.io/config.mirror": "5c"},
            "API server",
            "the mirror of a static pod was created",
        ),
    ],
)
def test_who_has_created_a_pod(annotations: dict[str, str], who: str, text: str) -> None:
    """A node without a cloud has no API server."""
    made = pod()
    made["metadata"]["annotations"] = annotations
    step = answer(made).steps[0]
    assert (step.who, step.text) == (who, text)


PULLING = 'Failed to pull image "shop/app:1": no such host'
MOUNT = ChainStep(NOW - 90, "FailedMount", "no such export", is_warning=True)
UNREADY = kept(4, "Unhealthy", "Readiness probe failed: exit code 1", is_warning=True)


@pytest.mark.parametrize(
    ("steps", "cause"),
    [
        ([STARTED, ENDED, BACK_OFF], ENDED),
        (KILLED.steps, KILLED.steps[1]),
        ([MOUNT], MOUNT),
        ([MOUNT, STARTED], None),
        ([MOUNT, STARTED, ENDED], ENDED),
        ([UNREADY, ChainStep(NOW - 3, "Started", "Started container other", "other")], UNREADY),
        ([MOUNT, STARTED, UNREADY], UNREADY),
        ([STARTED, ChainStep(NOW - 47, "Failed", "no space", "other", is_warning=True), BACK_OFF], BACK_OFF),
        (
            [
                failed := kept(9, "Failed", PULLING, is_warning=True),
                kept(8, "Failed", "Error: ErrImagePull", is_warning=True),
                kept(7, "FailedToRetrieveImagePullSecret", "Unable to retrieve some", is_warning=True),
                kept(6, "BackOff", "Back-off pulling image", is_warning=True),
                kept(5, "Failed", "Error: ImagePullBackOff", is_warning=True),
            ],
            failed,
        ),
    ],
)
def test_a_consequence_is_not_the_cause(steps: list[ChainStep], cause: ChainStep | None) -> None:
    found = answer(waiting("ContainerCreating"), chain=NodeChain("u", steps))
    marked = [step.text.partition(": ")[2] for step in found.steps if step.is_cause]
    assert marked == ([cause.text] if cause is not None else [])


def test_the_answer_is_bounded() -> None:
    events = [
        event("Failed", "y" * 10_000),
        *(event("Failed", f"{at}", f"2027-01-15T07:59:{at}Z") for at in range(10, 60)),
    ]
    chain = NodeChain("u", left_out=7)
    found = answer(waiting("ErrImagePull", "x" * 10_000), events=[*events[:1] * 50, *events[1:]], chain=chain)
    assert (len(found.steps), found.left_out) == (MAX_STEPS, 101 - MAX_STEPS + 7)
    assert found.steps[-1].text == "Failed: 59", "the older ones are left out"
    assert len(found.sentence) < 1000
    assert all(len(step.text) < 1000 for step in found.steps)


@pytest.mark.parametrize(("seconds", "is_of_it"), [(45, False), (47, True), (49, True), (51, True), (53, False)])
def test_a_kill_within_a_second_of_a_life_is_of_it(seconds: int, *, is_of_it: bool) -> None:
    """The status has whole seconds, and the node notes the kill before and after."""
    steps = [
        ReportedStep(rfc3339(NOW - seconds), NOW - seconds, "kubelet", reason, text, "app", is_warning=False, times=1)
        for reason, text in (("Unhealthy", "Liveness probe failed: x"), ("Killing", "app failed liveness probe"))
    ]
    status = {"name": "app", "lastState": {"terminated": LIFE}}
    assert bool(kill_of(steps, status, "lastState.terminated")) == is_of_it
    assert not kill_of(steps[:1], status, "lastState.terminated"), "a probe that fails once kills nothing"


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
    "imagePullSecrets": [{"name": "login"}],
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
        {"name": "f", "ephemeral": {"volumeClaimTemplate": {}}},
    ],
}


def test_the_objects_that_a_pod_cannot_start_without() -> None:
    assert references_of({"metadata": {"name": "web"}, "spec": deepcopy(SPEC)}) == [
        Reference("Secret", "s1", "container first"),
        Reference("ConfigMap", "c1", "container app"),
        Reference("ConfigMap", "c2", "container app", ("k",)),
        Reference("ConfigMap", "c3", "volume a", ("k1",)),
        Reference("Secret", "s2", "volume b"),
        Reference("Secret", "s3", "volume c"),
        Reference("PersistentVolumeClaim", "data", "volume d"),
        Reference("PersistentVolumeClaim", "web-f", "volume f"),
        Reference("RuntimeClass", "kata", "the pod"),
        Reference("Secret", "login", PULL),
    ]


def test_missing_parts_of_a_reference() -> None:
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
