"""Each request that names the uid or the resourceVersion of its object is refused for another one's."""

from typing import Any

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.kinds import JsonObject, kind_named
from modules.cloud.apiserver.api_calls import serve
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.client.calls import JSON_PATCH, MERGE, STRATEGIC, ApiCall, ApiResult
from tests.modules.cloud.apiserver.updates.samples import sample

OTHER = {"uid": "other", "resourceVersion": "1"}


class Asked:
    """A cluster with an object, and requests for it."""

    def __init__(self, kind: str) -> None:
        self._kind = kind_named(kind)
        self._cluster = Cluster(Simulation(0).clock)
        made = dict(sample(kind, "web"))
        if kind == "Pod":
            made["spec"] = {key: value for key, value in made["spec"].items() if key != "nodeName"}
        self._cluster.create(made)
        self.made = self._cluster.storage.list(self._kind)[-1]

    def __call__(self, verb: str, body: Any = None, subresource: str = "", **fields: Any) -> ApiResult:
        name, namespace = self.made["metadata"]["name"], self.made["metadata"].get("namespace", "")
        return serve(
            self._cluster,
            ApiCall(
                verb=verb, api_version=self._kind.api_version, plural=self._kind.plural, namespace=namespace,
                name=name, body=body, subresource=subresource, **fields,
            ),
        )  # fmt: skip


def code_of(result: ApiResult) -> int:
    return int((result.refusal or {"code": 200})["code"])


def with_metadata(obj: JsonObject, **metadata: str) -> JsonObject:
    return {**obj, "metadata": {**obj["metadata"], **metadata}}


@pytest.mark.parametrize("field", [*OTHER])
@pytest.mark.parametrize(
    ("kind", "subresource"),
    [
        ("Pod", ""), ("Pod", "status"), ("Pod", "ephemeralcontainers"), ("ConfigMap", ""), ("Node", "status"),
        ("Deployment", "scale"), ("Deployment", "status"), ("Namespace", "finalize"), ("Namespace", "status"),
        ("CertificateSigningRequest", "approval"), ("CertificateSigningRequest", "status"),
    ],
)  # fmt: skip
def test_an_update_of_another_object_or_state_is_a_conflict(kind: str, subresource: str, field: str) -> None:
    asked = Asked(kind)
    read = asked("get", subresource=subresource).object if subresource == "scale" else asked.made
    assert read is not None
    assert code_of(asked("update", with_metadata(read, **{field: OTHER[field]}), subresource)) == 409
    assert code_of(asked("update", read, subresource)) == 200


@pytest.mark.parametrize(
    ("kind", "subresource", "patch_type"),
    [
        ("ConfigMap", "", MERGE), ("ConfigMap", "", STRATEGIC), ("ConfigMap", "", JSON_PATCH), ("Pod", "status", MERGE),
        ("Pod", "ephemeralcontainers", STRATEGIC), ("Deployment", "scale", MERGE), ("Deployment", "scale", JSON_PATCH),
        ("CertificateSigningRequest", "approval", MERGE),
    ],
)  # fmt: skip
def test_a_patch_of_another_state_is_a_conflict(kind: str, subresource: str, patch_type: str) -> None:
    asked = Asked(kind)
    for version, code in (("1", 409), (asked.made["metadata"]["resourceVersion"], 200)):
        body: Any = {"metadata": {"resourceVersion": version}}
        if patch_type == JSON_PATCH:
            body = [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}]
        assert code_of(asked("patch", body, subresource, patch_type=patch_type)) == code, version


@pytest.mark.parametrize("field", [*OTHER])
def test_a_binding_eviction_or_deletion_of_another_pod_or_state_is_a_conflict(field: str) -> None:
    pod = Asked("Pod")
    metadata = pod.made["metadata"]
    for value, code in ((OTHER[field], 409), (metadata[field], 200)):
        binding = {"metadata": {"name": "web", field: value}, "target": {"kind": "Node", "name": "n1"}}
        assert code_of(pod("create", binding, "binding")) == code
    for subresource in ("eviction", ""):
        asked = Asked("Pod")
        for value, code in ((OTHER[field], 409), (asked.made["metadata"][field], 200)):
            preconditions = {"preconditions": {field: value}}
            eviction = {"metadata": {"name": "web"}, "deleteOptions": preconditions}
            result = asked("create", eviction, subresource) if subresource else asked("delete", options=preconditions)
            assert code_of(result) == code, subresource
