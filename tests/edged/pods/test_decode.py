"""Pods that cannot be read, or not be computed with: they are left out, and keep no other from running."""

import json
from pathlib import Path
from typing import Any

import pytest

from edged.pods.decode import read_node, read_pod
from tests.edged.conftest import Bench, pod


def with_amounts(**resources: Any) -> dict[str, Any]:
    """A pod whose container asks for these."""
    return pod("bad", containers=[{"name": "main", "image": "busybox:1.36", "resources": resources}])


UNREADABLE: dict[str, dict[str, Any]] = {
    "no uid": pod("bad", metadata={"uid": ""}),
    "a name that is a path": pod("bad", metadata={"name": "a/b"}),
    "a uid that is a directory": pod("bad", metadata={"uid": ".."}),
    "a uid with a zero byte": pod("bad", metadata={"uid": "a\0b"}),
    "a name that is too long": pod("bad", metadata={"name": "n" * 254}),
    "a request": with_amounts(requests={"cpu": "much"}),
    "a limit": with_amounts(limits={"ephemeral-storage": "1 Gi"}),
    "an exponent without end": with_amounts(limits={"memory": "9e99999999"}),
    "the pod's own amounts": pod("bad", resources={"limits": {"memory": "x"}}),
    "the overhead": pod("bad", overhead={"cpu": "x"}),
    "the time of its start": {**pod("bad", activeDeadlineSeconds=9), "status": {"startTime": "today"}},
}
"""Go's decoder takes none of them, so that no kubelet sees one."""

ODD: dict[str, dict[str, Any]] = {
    "a resourceVersion without end": pod("bad", metadata={"resourceVersion": "9" * 5000}),
    "a port without end": pod(
        "bad",
        containers=[{"name": "main", "image": "busybox:1.36", "livenessProbe": {"tcpSocket": {"port": "9" * 5000}}}],
    ),
    "a volume whose name is none": pod("bad", volumes=[{"name": "..", "emptyDir": {"sizeLimit": "1Mi"}}]),
}
"""What is a pod, as far as a decoder can tell."""


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_pod_with_invalid_quantities_or_times_is_left_out(what: str) -> None:
    assert read_pod(json.dumps(UNREADABLE[what]).encode(), "from a test") is None


def test_the_object_of_another_node_is_not_this_nodes() -> None:
    raw = b'{"metadata":{"name":"n1"},"spec":{},"status":{}}'
    node = read_node(raw, "null/node/n1", "n1")
    assert node is not None
    assert node.metadata.name == "n1"
    assert read_node(raw, "null/node/n1", "n2") is None
    assert read_node(b"{", "null/node/n1", "n1") is None


@pytest.mark.parametrize("what", ODD)
def test_a_pod_with_valid_quantities_and_times_is_read(what: str) -> None:
    assert read_pod(json.dumps(ODD[what]).encode(), "from a test") is not None


@pytest.mark.parametrize("what", [*UNREADABLE, *ODD])
def test_one_such_pod_in_the_store_keeps_no_other_from_running(what: str, tmp_path: Path) -> None:
    """Nor does it end edged, which would read it again at each start."""
    bench = Bench(tmp_path)
    bench.meta.objects = {"default/pod/bad": {**UNREADABLE, **ODD}[what], "default/pod/good": pod("good")}
    try:
        bench.start(wait=25)
        assert bench.bee.hive.restarts().get("edged", 0) == 0
        assert {p.metadata.name: p.status.phase for p in bench.snapshots.pods}["good"] == "Running"
    finally:
        bench.stop()


def test_a_pod_whose_logs_have_too_long_a_name_goes_as_any_other(tmp_path: Path) -> None:
    """Its name is allowed; with namespace and uid it is longer than the name of a directory may be."""
    bench = Bench(tmp_path)
    wanted = pod("n" * 240)
    try:
        bench.start(wanted, wait=5)
        waiting = bench.snapshots.pods[0].status.container_statuses[0].state.waiting
        assert "namespace and name have 247 characters" in str(waiting)
        bench.tell("delete", wanted, wait=5)
        assert bench.snapshots.pods == ()
    finally:
        bench.stop()
