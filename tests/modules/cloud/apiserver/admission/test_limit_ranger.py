"""What LimitRanges give to pods and refuse, in kube-apiserver's words (held against one of 1.32.13)."""

from typing import Any

import pytest

from beehive.clock import RealClock
from modules.apimachinery.api_errors import ApiError, ForbiddenError
from modules.apimachinery.kinds import ObjectKey
from modules.cloud.apiserver.admission.chain import PLUGINS
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.system_objects import make_system_objects
from tests.modules.cloud.objects import pod

Json = dict[str, Any]

CONTAINER = "Container"


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(RealClock(), plugins=PLUGINS)
    make_system_objects(made)
    return made


def limit_range(*limits: Json, name: str = "x") -> Json:
    """Return a LimitRange."""
    return {"kind": "LimitRange", "apiVersion": "v1", "metadata": {"name": name}, "spec": {"limits": [*limits]}}


def container(name: str = "main", **resources: Json) -> Json:
    """Return a container that asks for amounts."""
    return {"name": name, "image": "busybox", "resources": resources}


def claim(storage: str) -> Json:
    """Return a claim."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}
    return {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {"name": "data"}, "spec": spec}


def refusal(cluster: Cluster, obj: Json) -> str:
    """Return why an object is refused with 403."""
    with pytest.raises(ForbiddenError) as refused:
        cluster.create(obj)
    return refused.value.message.partition(" is forbidden: ")[2]


def test_a_limit_has_the_defaults_of_containers_without_resources(cluster: Cluster) -> None:
    limits = {"type": CONTAINER, "max": {"cpu": "2"}, "min": {"cpu": "500m", "memory": "1Mi"}}
    stored = cluster.create(limit_range(limits))
    assert stored["spec"]["limits"] == [
        {**limits, "default": {"cpu": "2"}, "defaultRequest": {"cpu": "2", "memory": "1Mi"}}
    ]


def test_containers_get_defaults_and_the_pod_lists_them(cluster: Cluster) -> None:
    limit = {"type": CONTAINER, "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "500m"}}
    cluster.create(limit_range(limit))
    first = container("first", requests={"cpu": "100m"})
    made = cluster.create(
        pod(containers=[first, container("second", limits={"cpu": "2"})], initContainers=[container("third")])
    )
    assert made["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: memory request for container first; cpu, memory limit for container first; "
        "memory request for container second; memory limit for container second; "
        "cpu, memory request for init container third; cpu, memory limit for init container third"
    )
    assert [one["resources"] for one in made["spec"]["containers"]] == [
        {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
        {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
    ]
    assert made["status"]["qosClass"] == "Burstable", "its class is that of the amounts it got"


def test_the_class_of_a_pod_follows_from_its_defaults(cluster: Cluster) -> None:
    cluster.create(limit_range({"type": CONTAINER, "defaultRequest": {"cpu": "500m"}}))
    assert cluster.create(pod())["status"]["qosClass"] == "Burstable"


def test_a_limit_is_at_most_the_request_times_the_ratio(cluster: Cluster) -> None:
    cluster.create(limit_range({"type": CONTAINER, "maxLimitRequestRatio": {"cpu": "2"}}))
    assert cluster.create(pod(containers=[container(requests={"cpu": "1"}, limits={"cpu": "2"})]))


def test_a_stored_claim_is_changed_within_the_limits_only(cluster: Cluster) -> None:
    stored = cluster.create(claim("5Gi"))
    cluster.create(limit_range({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}))
    with pytest.raises(ForbiddenError, match="maximum storage usage"):
        cluster.update({**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}})


def test_a_pod_that_names_everything_gets_no_annotation(cluster: Cluster) -> None:
    cluster.create(limit_range({"type": CONTAINER, "default": {"cpu": "1"}}))
    made = cluster.create(pod(containers=[container(limits={"cpu": "500m"})]))
    assert not made["metadata"].get("annotations")


def test_a_pod_of_another_namespace_and_a_stored_pod_are_left_alone(cluster: Cluster) -> None:
    before = cluster.create(pod())
    namespace = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "shop"}}
    cluster.create(namespace)
    strict = limit_range({"type": CONTAINER, "min": {"cpu": "1"}, "maxLimitRequestRatio": {"memory": "1"}})
    cluster.create({**strict, "metadata": {"name": "x", "namespace": "shop"}})
    cluster.create({**pod(), "metadata": {"name": "other"}})
    cluster.create(strict)
    assert cluster.update({**before, "metadata": {**before["metadata"], "labels": {"a": "b"}}})


@pytest.mark.parametrize(
    ("limit", "resources", "why"),
    [
        ({"type": CONTAINER, "min": {"cpu": "1"}}, {"requests": {"cpu": "0.5"}},
         "minimum cpu usage per Container is 1, but request is 500m"),
        ({"type": CONTAINER, "max": {"cpu": "1"}}, {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}, ""),
        ({"type": CONTAINER, "max": {"memory": "1024Mi"}}, {"limits": {"memory": "2Gi"}},
         "maximum memory usage per Container is 1Gi, but limit is 2Gi"),
        ({"type": CONTAINER, "maxLimitRequestRatio": {"cpu": "2"}}, {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}},
         "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000"),
        ({"type": CONTAINER, "maxLimitRequestRatio": {"cpu": "2"}}, {"requests": {"cpu": "1"}},
         "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0"),
        ({"type": CONTAINER, "maxLimitRequestRatio": {"cpu": "2"}}, {},
         "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"),
        ({"type": "Pod", "min": {"cpu": "1"}}, {}, "minimum cpu usage per Pod is 1.  No request is specified"),
        (
            {"type": "Pod", "max": {"memory": "1Gi", "cpu": "1"}},
            {"limits": {"memory": "600Mi"}},
            "[maximum cpu usage per Pod is 1.  No limit is specified, "
            "maximum memory usage per Pod is 1Gi, but limit is 1200Mi]",
        ),
        ({"type": "Pod", "min": {"cpu": "2"}}, {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}, ""),
    ],
)  # fmt: skip
def test_refusals_and_their_reasons(cluster: Cluster, limit: Json, resources: Json, why: str) -> None:
    """The pod has the container twice: what both do is told once."""
    cluster.create(limit_range(limit))
    wanted = pod(containers=[container("first", **resources), container("second", **resources)])
    if why:
        assert refusal(cluster, wanted) == why
    else:
        cluster.create(wanted)


def test_amounts_are_compared_in_thousandths_unless_they_are_too_large(cluster: Cluster) -> None:
    cluster.create(limit_range({"type": "Pod", "max": {"memory": "9E"}, "min": {"memory": "8999999999999999999"}}))
    cluster.create(pod(containers=[container(limits={"memory": "9E"})]))


@pytest.mark.parametrize(
    ("storage", "why"),
    [
        ("512Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 512Mi"),
        ("3Gi", "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"),
    ],
)
def test_claims(cluster: Cluster, storage: str, why: str) -> None:
    cluster.create(limit_range({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}))
    assert refusal(cluster, claim(storage)) == why
    cluster.apply(claim("1Gi"))


def test_a_claim_that_is_being_deleted_goes_on(cluster: Cluster) -> None:
    made = cluster.create({**claim("1Mi"), "metadata": {"name": "data", "finalizers": ["a.b/c"]}})
    cluster.delete(ObjectKey("PersistentVolumeClaim", "default", "data"))
    cluster.create(limit_range({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}}))
    gone = {name: value for name, value in made["metadata"].items() if name not in ("finalizers", "resourceVersion")}
    cluster.update({**made, "metadata": gone})
    assert cluster.storage.find(ObjectKey("PersistentVolumeClaim", "default", "data")) is None


def test_defaults_without_number_do_not_make_a_pod_of_any_size(cluster: Cluster) -> None:
    """70,000 names for each of a thousand containers would be gigabytes."""
    names = {f"a.b/c{number}": "1" for number in range(5_000)}
    cluster.create(limit_range({"type": CONTAINER, "default": names}))
    made = pod(containers=[container(f"c{number}") for number in range(3)])
    assert "name 10000 amounts: too many for its containers" in refusal(cluster, made)


def test_a_pod_whose_defaults_contradict_it_is_invalid(cluster: Cluster) -> None:
    cluster.create(limit_range({"type": CONTAINER, "default": {"cpu": "1"}}))
    with pytest.raises(ApiError, match="must be less than or equal to cpu limit of 1"):
        cluster.create(pod(containers=[container(requests={"cpu": "2"})]))
