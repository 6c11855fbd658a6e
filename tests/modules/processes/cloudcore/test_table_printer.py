"""kubectl's words for objects."""

from typing import Any

import pytest

from modules.cloud.apiserver.kinds import kind_named
from modules.processes.cloudcore.table_printer import aligned, table
from modules.tools.printing.ages import human_duration
from modules.tools.printing.pods import pod_ready, pod_restarts, pod_status

NOW = 1_795_139_690.0
CREATED = "2026-11-20T01:54:00Z"


def container(name: str = "main", ready: bool = False, restarts: int = 0, **state: Any) -> dict[str, Any]:
    return {"name": name, "ready": ready, "restartCount": restarts, "state": state}


def pod(*containers: dict[str, Any], phase: str = "Running", init: tuple[dict[str, Any], ...] = (),
        **metadata: Any) -> dict[str, Any]:  # fmt: skip
    status = {"phase": phase, "containerStatuses": list(containers), "initContainerStatuses": list(init)}
    spec: dict[str, Any] = {"containers": [{}] * max(1, len(containers)), "initContainers": [{}] * len(init)}
    meta = {"name": "web", "namespace": "default", "creationTimestamp": CREATED, **metadata}
    return {"kind": "Pod", "metadata": meta, "spec": spec, "status": status}


@pytest.mark.parametrize(
    ("shown", "word"),
    [
        (pod(phase="Pending"), "Pending"),
        (pod(container(running={})), "Running"),
        (pod(container(waiting={"reason": "CrashLoopBackOff"})), "CrashLoopBackOff"),
        (pod(container(terminated={"reason": "Completed", "exitCode": 0}), phase="Succeeded"), "Completed"),
        (pod(container(terminated={"exitCode": 3}), phase="Failed"), "ExitCode:3"),
        (pod(container(terminated={"signal": 9}), phase="Failed"), "Signal:9"),
        (pod(container("a", terminated={"reason": "Completed"}), container("b", running={})), "Running"),
        (pod(container(running={}), deletionTimestamp="t"), "Terminating"),
        (pod(phase="Succeeded", deletionTimestamp="t"), "Succeeded"),
        (pod(init=(container(running={}),), phase="Pending"), "Init:0/1"),
        (pod(init=(container(waiting={"reason": "PodInitializing"}),)), "Init:0/1"),
        (pod(init=(container(waiting={"reason": "ErrImagePull"}),)), "Init:ErrImagePull"),
        (pod(init=(container(terminated={"exitCode": 1, "reason": "Error"}),)), "Init:Error"),
        (pod(container(running={}), init=(container(terminated={"exitCode": 0}),)), "Running"),
        ({"metadata": {"name": "bare"}}, "Unknown"),
    ],
)
def test_the_word_for_a_pod(shown: dict[str, Any], word: str) -> None:
    assert pod_status(shown) == word


def test_a_sidecar_counts_as_a_container_and_holds_nothing_up() -> None:
    """Once it has started."""
    shown = pod(container("a", ready=True, running={}), init=(container("s", ready=True, running={}),))
    shown["spec"]["initContainers"] = [{"name": "s", "restartPolicy": "Always"}]
    assert (pod_ready(shown), pod_status(shown)) == ("2/2", "Init:0/1")
    shown["status"]["initContainerStatuses"][0]["started"] = True
    assert pod_status(shown) == "Running"


def test_ready_and_restarts_count_all_containers() -> None:
    shown = pod(container("a", ready=True, restarts=2, running={}), container("b", restarts=1, running={}))
    assert (pod_ready(shown), pod_restarts(shown)) == ("1/2", 3)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (600, "10m"), (10_799, "179m"), (10_800, "3h"),
     (12_000, "3h20m"), (30_000, "8h"), (172_800, "2d"), (180_000, "2d2h"), (700_000, "8d")],
)  # fmt: skip
def test_ages_as_kubectl_rounds_them(seconds: int, text: str) -> None:
    assert human_duration(seconds) == text


def test_tables_are_aligned() -> None:
    rows = table(kind_named("Pod"), [pod(container(ready=True, running={}))], NOW, namespaces=True)
    assert aligned(rows) == [
        "NAMESPACE   NAME   READY   STATUS    RESTARTS   AGE",
        "default     web    1/1     Running   0          50s",
    ]


@pytest.mark.parametrize(
    ("kind", "obj", "row"),
    [
        ("ConfigMap", {"data": {"a": "1"}, "binaryData": {"b": ""}}, ["x", "2", "50s"]),
        ("Secret", {"type": "Opaque", "data": {}}, ["x", "Opaque", "0", "50s"]),
        ("Lease", {"spec": {"holderIdentity": "n1"}}, ["x", "n1", "50s"]),
        ("Namespace", {}, ["x", "50s"]),
        (
            "Node",
            {"status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1"}}},
            ["x", "Ready", "<none>", "50s", "v1"],
        ),
        ("Node", {}, ["x", "Unknown", "<none>", "50s", ""]),
    ],
)
def test_rows_of_other_kinds(kind: str, obj: dict[str, Any], row: list[str]) -> None:
    full = {"kind": kind, "metadata": {"name": "x", "creationTimestamp": CREATED}, **obj}
    assert table(kind_named(kind), [full], NOW)[1] == row


def test_nothing_that_a_node_says_moves_the_cursor_of_who_looks() -> None:
    """CVE-2021-25743 was the same in kubectl."""
    evil = "\x1b[2J\x1b]0;owned\x07\u202e\nroot   Ready"
    node = {
        "kind": "Node",
        "metadata": {"name": "n1", "labels": {f"node-role.kubernetes.io/{evil}": ""}},
        "status": {
            "nodeInfo": {"kubeletVersion": evil, "osImage": evil, "kernelVersion": evil},
            "addresses": [{"type": "InternalIP", "address": evil}],
        },
    }
    (line,) = aligned(table(kind_named("Node"), [node], NOW, wide=True))[1:]
    assert line.isprintable()
    assert "\\x1b[2J" in line
    (line,) = aligned(table(kind_named("Pod"), [pod(container(waiting={"reason": evil}), phase=evil)], NOW, wide=True))[
        1:
    ]
    assert line.isprintable()
