"""What a pod asks for in sum, by the cases of Kubernetes' own resource helper."""

from typing import Any

import pytest

from modules.apimachinery.pods.demand import all_limited, pod_limits, pod_requests
from modules.apimachinery.types import Pod, from_value


def _pod(containers: list[Any], inits: list[Any] | None = None, **spec: Any) -> Pod:
    def build(number: int, value: Any) -> dict[str, Any]:
        cpu, sidecar = value if isinstance(value, tuple) else (value, False)
        resources = {"requests": {"cpu": cpu}} if cpu else {}
        return {"name": f"c{number}", "resources": resources, **({"restartPolicy": "Always"} if sidecar else {})}

    return from_value(
        Pod,
        {
            "spec": {
                "containers": [build(n, c) for n, c in enumerate(containers)],
                "initContainers": [build(n + 10, c) for n, c in enumerate(inits or [])],
                **spec,
            }
        },
    )


@pytest.mark.parametrize(
    ("containers", "inits", "cpus"),
    [
        (["1", "500m"], [], 1.5),
        ([None], [], 0),
        (["1"], ["3", "2"], 3),
        (["4"], ["3", "2"], 4),
        (["1"], [("1", True)], 2),
        (["1"], [("1", True), "3"], 4),
        (["1"], ["3", ("1", True)], 3),
        (["5"], ["3", ("1", True), "2"], 6),
        (["1"], [("1", True), ("2", True), "3"], 6),
    ],
)
def test_init_containers_come_one_by_one_and_sidecars_stay(
    containers: list[Any], inits: list[Any], cpus: float
) -> None:
    assert float(pod_requests(_pod(containers, inits)).get("cpu", 0)) == cpus


def test_the_sandbox_costs_its_overhead() -> None:
    assert pod_requests(_pod(["1"], overhead={"cpu": "250m", "memory": "64Mi"})) == {"cpu": 1.25, "memory": 64 * 2**20}


def test_resources_of_the_pod_as_a_whole_come_before_the_sum() -> None:
    assert pod_requests(_pod(["1", "1"], resources={"requests": {"cpu": "3"}})) == {"cpu": 3}
    assert pod_requests(_pod(["1", "1"], resources={"limits": {"cpu": "3"}})) == {"cpu": 2}


def test_a_limit_without_a_request_stands_for_it() -> None:
    pod = from_value(Pod, {"spec": {"containers": [{"name": "c", "resources": {"limits": {"memory": "1Mi"}}}]}})
    assert pod_requests(pod) == pod_limits(pod) == {"memory": 2**20}


def test_a_pod_is_limited_when_every_container_is() -> None:
    limited = {"name": "a", "resources": {"limits": {"memory": "1Mi"}}}
    pods = [from_value(Pod, {"spec": {"containers": cs}}) for cs in ([limited], [limited, {"name": "b"}])]
    assert [all_limited(pod, "memory") for pod in pods] == [True, False]
    whole = from_value(Pod, {"spec": {"containers": [{"name": "b"}], "resources": {"limits": {"memory": "1Mi"}}}})
    assert all_limited(whole, "memory")
