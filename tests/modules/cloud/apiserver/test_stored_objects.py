"""What is stored keeps the rules by which it was checked: the API server completes an object before it checks it, and
what it adds afterwards breaks none.
"""

import copy
from typing import Any

import pytest

from beehive.simulation.scheduler import VirtualClock
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of, kind_named
from modules.apimachinery.validation.objects import validate_object
from modules.cloud.apiextensions.admission import Find
from modules.cloud.apiserver.admission.chain import PLUGINS_WITH_TOKENS
from modules.cloud.apiserver.api_calls import serve
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.client.calls import ApiCall, ApiResult
from tests.modules.cloud.apiserver.updates.samples import KINDS, sample

_LENGTHS = (1, 20, 52, 53, 63, 64, 128, 253)
"""Of names: some kinds give labels or names made of them."""


def write(cluster: Cluster, verb: str, obj: JsonObject) -> ApiResult:
    """Return the answer to the write of an object."""
    kind, metadata = kind_named(obj["kind"]), obj["metadata"]
    return serve(
        cluster,
        ApiCall(
            verb=verb, api_version=kind.api_version, plural=kind.plural, namespace=metadata.get("namespace", ""),
            name="" if verb == "create" else metadata["name"], body=copy.deepcopy(obj),
        ),
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_stored_keeps_the_rules_of_its_kind_and_can_be_written_again(kind: str) -> None:
    cluster = Cluster(VirtualClock(1), plugins=PLUGINS_WITH_TOKENS)
    for name in ("default", "a"):
        if kind != "Namespace" or name == "default":
            write(cluster, "create", sample("Namespace", name))
    stored = []
    for length in _LENGTHS:
        obj = sample(kind, "samples.example.com" if kind == "CustomResourceDefinition" else "a" * length)
        if kind_named(kind).namespaced:
            obj["metadata"] = {**obj["metadata"], "namespace": "default"}
        if (made := write(cluster, "create", obj).object) is not None:
            stored.append(cluster.storage.get(key_of(made)))
    assert stored
    for obj in stored:
        validate_object(obj, is_new=False)
        again = write(cluster, "update", obj)
        assert again.refusal is None, again.refusal
        assert again.object == obj


def test_the_labels_that_a_job_is_given_are_checked_with_it() -> None:
    cluster = Cluster(VirtualClock(1))
    job = sample("Job", "j" * 64)
    job["metadata"]["namespace"] = "default"
    refusal = write(cluster, "create", job).refusal
    assert refusal is not None
    assert refusal["code"] == 422
    assert (
        f'spec.template.labels: Invalid value: "{"j" * 64}": must be no more than 63 characters' in refusal["message"]
    )
    job["spec"] |= {"manualSelector": True, "selector": {"matchLabels": {"a": "b"}}}
    job["spec"]["template"] = {**job["spec"]["template"], "metadata": {"labels": {"a": "b"}}}
    assert write(cluster, "create", job).refusal is None


def test_a_custom_object_that_is_applied_is_checked_with_its_defaults() -> None:
    """Whatever asks about an object is asked about the one that is stored."""
    seen = list[Any]()

    def admission(new: JsonObject, _live: JsonObject | None, _find: Find) -> list[Any]:
        seen.append(new["spec"])
        return []

    cluster = Cluster(VirtualClock(1), admissions={"Sample.example.com": admission})
    spec = {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}}
    definition = sample("CustomResourceDefinition", "samples.example.com")
    definition["spec"]["versions"][0]["schema"] = {
        "openAPIV3Schema": {"type": "object", "properties": {"spec": {**spec, "default": {}}}}
    }
    cluster.apply(definition)
    wanted = {"apiVersion": "example.com/v1", "kind": "Sample", "metadata": {"name": "a"}}
    checked = list[Any]()
    check = cluster._check_admitted

    def checking(key: ObjectKey, new: JsonObject, live: JsonObject | None = None) -> None:
        checked.append(new.get("spec"))
        check(key, new, live)

    cluster._check_admitted = checking  # type: ignore[method-assign]
    for _ in range(2):
        stored, _outcome = cluster.apply(wanted)
        assert stored["spec"] == {"size": 3}
    assert checked == seen == [{"size": 3}] * 2
