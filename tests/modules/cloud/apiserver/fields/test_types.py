"""Types of fields: Go's words for others, and what Go's decoder makes of nulls."""

from typing import Any

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.api_errors import BadRequestError
from modules.apimachinery.kinds import JsonObject, kind_named
from modules.cloud.apiserver.api_calls import serve
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.fields import types
from modules.cloud.apiserver.fields.types import decoded, with_stored_quantities
from modules.cloud.client.calls import ApiCall
from tests.modules.cloud.objects import pod

Json = dict[str, Any]


def container(**fields: Any) -> Json:
    """Return a pod's spec."""
    return {"spec": {"containers": [{"name": "a", **fields}]}}


def unmarshal(given: str, field: str, wanted: str) -> str:
    """Return Go's words for a value of another type."""
    return f"json: cannot unmarshal {given} into Go struct field {field} of type {wanted}"


_NO_TIME = 'parsing time "soon" as "2006-01-02T15:04:05Z07:00": cannot parse "soon" as "2006"'
_NO_MICRO = 'parsing time "2026-11-24T10:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"'
_NO_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_PORT = "HTTPGetAction.spec.containers.livenessProbe.httpGet.port"


def probe(*, port: Any) -> Json:
    """Return a pod with a probe of a port."""
    return container(livenessProbe={"httpGet": {"port": port}})


@pytest.mark.parametrize(
    ("kind", "obj", "words"),
    [
        ("Pod", {"metadata": []}, unmarshal("array", "Pod.metadata", "v1.ObjectMeta")),
        ("Pod", {"metadata": {"name": 5}}, unmarshal("number", "ObjectMeta.metadata.name", "string")),
        ("Pod", {"metadata": {"labels": {"a": 1}}}, unmarshal("number", "ObjectMeta.metadata.labels", "string")),
        ("Pod", {"metadata": {"labels": "a"}}, unmarshal("string", "ObjectMeta.metadata.labels", "map[string]string")),
        ("Pod", {"metadata": {"creationTimestamp": "soon"}}, _NO_TIME),
        ("Pod", {"metadata": {"creationTimestamp": 1}},
         unmarshal("number", "ObjectMeta.metadata.creationTimestamp", "string")),
        ("Pod", {"spec": {"containers": {}}}, unmarshal("object", "PodSpec.spec.containers", "[]v1.Container")),
        ("Pod", {"spec": {"containers": ["a"]}}, unmarshal("string", "PodSpec.spec.containers", "v1.Container")),
        ("Pod", {"spec": {"hostNetwork": "true"}}, unmarshal("string", "PodSpec.spec.hostNetwork", "bool")),
        ("Pod", {"spec": {"priority": 1.5}}, unmarshal("number 1.5", "PodSpec.spec.priority", "int32")),
        ("Pod", {"spec": {"priority": 1 << 31}}, unmarshal("number 2147483648", "PodSpec.spec.priority", "int32")),
        ("Pod", {"spec": {"terminationGracePeriodSeconds": "1"}},
         unmarshal("string", "PodSpec.spec.terminationGracePeriodSeconds", "int64")),
        ("Pod", container(resources={"limits": {"cpu": "much"}}), _NO_QUANTITY),
        ("Pod", container(resources={"limits": {"cpu": {}}}), _NO_QUANTITY),
        ("Pod", container(resources={"limits": {"cpu": True}}), _NO_QUANTITY),
        ("Pod", probe(port=True), unmarshal("bool", _PORT, "int32")),
        ("Pod", probe(port=80.5), unmarshal("number 80.5", _PORT, "int32")),
        ("Pod", probe(port=[80]), unmarshal("array", _PORT, "int32")),
        ("Deployment", {"spec": {"strategy": {"rollingUpdate": {"maxSurge": {}}}}},
         unmarshal("object", "RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge", "int32")),
        ("Secret", {"data": {"a": "YQ"}}, "illegal base64 data at input byte 0"),
        ("Secret", {"data": {"a": 1}}, unmarshal("number", "Secret.data", "[]uint8")),
        ("ConfigMap", {"binaryData": {"a": "!"}}, "illegal base64 data at input byte 0"),
        ("CertificateSigningRequest", {"spec": {"request": "?"}}, "illegal base64 data at input byte 0"),
        ("Node", {"spec": {"taints": [{"timeAdded": "soon"}]}}, _NO_TIME),
        ("Lease", {"spec": {"renewTime": "2026-11-24T10:00:00Z"}}, _NO_MICRO),
        ("Event", {"eventTime": "2026-11-24T10:00:00Z"}, _NO_MICRO),
        # the first of several, but a type that reads itself ends the decoding
        ("Secret", {"type": 1, "data": {"a": "YQ"}}, unmarshal("number", "Secret.type", "string")),
        ("Pod", {"spec": {"priority": "1"}, "metadata": {"creationTimestamp": "soon"}}, _NO_TIME),
    ],
)  # fmt: skip
def test_a_type(kind: str, obj: Json, words: str) -> None:
    with pytest.raises(BadRequestError) as refused:
        decoded(kind_named(kind), obj)
    assert refused.value.message == f'{kind} in version "v1" cannot be handled as a {kind}: {words}'


@pytest.mark.parametrize(
    ("kind", "obj", "read"),
    [
        ("Pod", {"spec": {"containers": [None], "hostname": None}}, {"spec": {"containers": [{}]}}),
        ("Pod", container(args=["a", None]), container(args=["a", ""])),
        ("Pod", container(resources={"limits": {"cpu": None}}), container(resources={"limits": {"cpu": "0"}})),
        ("Pod", {"metadata": {"labels": {"a": None}, "finalizers": None}}, {"metadata": {"labels": {"a": ""}}}),
        ("Pod", {"spec": {"securityContext": {"supplementalGroups": [None]}}},
         {"spec": {"securityContext": {"supplementalGroups": [0]}}}),
        ("ConfigMap", {"data": {"a": None}, "x": {"y": None}}, {"data": {"a": ""}, "x": {}}),
        ("Secret", {"data": {"a": None}, "stringData": None}, {"data": {"a": ""}}),
        ("ControllerRevision", {"data": {"a": None}}, {"data": {"a": None}}),
    ],
)  # fmt: skip
def test_a_null(kind: str, obj: Json, read: Json) -> None:
    assert decoded(kind_named(kind), obj) == read


@pytest.mark.parametrize(
    ("kind", "obj"),
    [
        ("CronJob", {"spec": {"startingDeadlineSeconds": 1 << 40}}),
        ("Node", {"status": {"images": [{"names": ["app:1"], "sizeBytes": 5 << 30}]}}),
        ("ControllerRevision", {"data": {"a": "b"}, "revision": 1 << 62}),
        ("Pod", {"status": {"containerStatuses": [{"user": {"linux": {"uid": 1 << 32, "gid": 1 << 32}}}]}}),
    ],
)
def test_numbers_of_64_bits(kind: str, obj: Json) -> None:
    """An image of more than 2 GiB is one of a Node's."""
    assert decoded(kind_named(kind), obj) == obj


def test_an_object_without_nulls_is_not_copied() -> None:
    web = pod(priority=5, nodeSelector={"a": "b"})
    assert decoded(kind_named("Pod"), web) is web


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(Simulation(0).clock)


def _refused(cluster: Cluster, verb: str, plural: str, body: Json, **options: Any) -> JsonObject:
    name = "" if verb == "create" else "c"
    call = ApiCall(verb=verb, api_version="v1", plural=plural, namespace="ns", name=name, body=body, options=options)
    return serve(cluster, call).refusal or {}


def test_a_wrong_type_comes_before_an_unknown_field_and_another_name(cluster: Cluster) -> None:
    both = {"metadata": {"name": "d"}, "immutable": "yes", "dta": {}}
    for verb in ("create", "update"):
        told = _refused(cluster, verb, "configmaps", both, fieldValidation="Strict")
        assert (told["code"], told["message"].rpartition(": ")[2]) == (
            400, unmarshal("string", "ConfigMap.immutable", "bool").removeprefix("json: "),
        )  # fmt: skip


def test_a_null_in_a_list_is_refused_by_the_rules_of_its_kind(cluster: Cluster) -> None:
    told = _refused(cluster, "create", "pods", {"metadata": {"name": "a"}, "spec": {"containers": [None]}})
    causes = {(each["field"], each["message"]) for each in told["details"]["causes"]}
    assert told["code"] == 422
    assert ("spec.containers[0].name", "Required value") in causes


@pytest.mark.parametrize("metadata", [{}, {"name": ""}, {"name": None}, {"generateName": ""}, None])
def test_a_missing_name_is_refused_with_all_other_faults(cluster: Cluster, metadata: Json | None) -> None:
    told = _refused(cluster, "create", "configmaps", {"metadata": metadata, "data": {"a/b": ""}})
    causes = [(each["field"], each["message"]) for each in told["details"]["causes"]]
    assert (told["code"], told["message"].partition(":")[0]) == (422, 'ConfigMap "" is invalid')
    assert causes[0] == ("metadata.name", "Required value: name or generateName is required")
    assert causes[1][0] == "data[a/b]"


def test_an_update_names_its_object(cluster: Cluster) -> None:
    told = _refused(cluster, "update", "configmaps", {"metadata": {}})
    words = "the name of the object (c based on URL) was undeterminable: name must be provided"
    assert (told["code"], told["message"]) == (400, words)


def limits(**quantities: Any) -> Json:
    """Return a pod whose container has limits."""
    return {"kind": "Pod", **container(resources={"limits": quantities})}


def test_quantities_are_canonical() -> None:
    """Text and numbers; other text of the same form stays."""
    given = {**limits(cpu=0.5, memory=" 1024Mi "), "metadata": {"name": "1000m", "labels": {"limits": "1000m"}}}
    wanted = {**limits(cpu="500m", memory="1Gi"), "metadata": {"name": "1000m", "labels": {"limits": "1000m"}}}
    assert decoded(kind_named("Pod"), given) == wanted
    quota = {"kind": "ResourceQuota", "spec": {"hard": {"pods": 1000}}}
    assert decoded(kind_named("ResourceQuota"), quota)["spec"] == {"hard": {"pods": "1k"}}
    overhead = {"kind": "RuntimeClass", "handler": "kata", "overhead": {"podFixed": {"cpu": 0.5}}}
    assert decoded(kind_named("RuntimeClass"), overhead)["overhead"] == {"podFixed": {"cpu": "500m"}}
    assert decoded(kind_named("Pod"), wanted) is wanted


def test_a_stored_quantity_of_the_same_value_keeps_its_text() -> None:
    """Nodes make a container anew when its text changes, so an update that changes something else leaves it alone."""
    new = {**limits(cpu="500m", memory="2Gi"), "metadata": {"labels": {"a": "b"}}}
    kept = {**limits(cpu=0.5, memory="2Gi"), "metadata": {"labels": {"a": "b"}}}
    assert with_stored_quantities(new, limits(cpu=0.5, memory="1024Mi")) == kept
    assert with_stored_quantities(new, limits(cpu="much")) is new
    assert with_stored_quantities(new, limits(cpu="500m", memory="1Gi")) is new
    more = {"kind": "Pod", "spec": {"containers": [*new["spec"]["containers"], {"name": "b"}]}}
    assert with_stored_quantities(more, limits(cpu=0.5, memory="1024Mi")) == more
    lease = {"kind": "Lease", "spec": {"holderIdentity": "1000m"}}
    assert with_stored_quantities(lease, {**lease, "spec": {"holderIdentity": None}}) is lease


def test_an_update_that_writes_no_quantity_in_another_way_decodes_no_stored_object(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Decoding takes a tenth of a millisecond for a small pod, and cloudcore updates hundreds in a second."""
    monkeypatch.setattr(types, "decoded", None)
    live = limits(cpu=0.5, memory="1024Mi")
    for changed in ({"labels": {"a": "b"}}, {"annotations": {"a": "1000m"}}, {"generation": 2}):
        new = {**live, "metadata": changed}
        assert with_stored_quantities(new, live) is new
    other = limits(cpu="501m", memory="1Gi5")
    assert with_stored_quantities(other, live) is other


def test_structs_of_the_stored_object_are_not_read_again() -> None:
    stored = {"type": "Ready", "lastProbeTime": "as an earlier version took it"}
    obj = {"status": {"conditions": [stored]}}
    assert decoded(kind_named("Pod"), obj, [stored]) is obj
    with pytest.raises(BadRequestError):
        decoded(kind_named("Pod"), {"status": {"conditions": [{**stored}]}}, [stored])
