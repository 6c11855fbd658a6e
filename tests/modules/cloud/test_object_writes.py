"""What the change journal says of a write: who, and which fields, and no value that may be a secret."""

from typing import Any

import pytest

from modules.cloud.client.calls import ApiCall
from modules.cloud.object_writes import MOST_FIELDS, ObjectWriter, changed_fields, is_status_only, writer_of


def obj(spec: Any = None, **members: Any) -> dict[str, Any]:
    """Return an object."""
    metadata = {"name": "x", "resourceVersion": "1", **members.pop("metadata", {})}
    return {"kind": "K", "metadata": metadata, "spec": spec or {}, **members}


def container(image: str, **more: Any) -> dict[str, Any]:
    """Return the spec of a workload with a container."""
    return {"template": {"spec": {"containers": [{"name": "web", "image": image, **more}]}}}


@pytest.mark.parametrize(
    ("kind", "old", "new", "fields"),
    [
        ("Deployment", obj({"replicas": 2}), obj({"replicas": 0}), ["spec.replicas: 2 → 0"]),
        ("Deployment", obj({"paused": True}), obj({}), ["spec.paused: True → False"]),
        ("Node", obj(), obj({"unschedulable": True}), ["spec.unschedulable: False → True"]),
        (
            "Node",
            {"metadata": {"name": "x"}},
            {"metadata": {"name": "x"}, "spec": {"paused": True}},
            ["spec.paused: False → True"],
        ),
        (
            "Deployment",
            obj(container("web:1", env=[{"name": "KEY", "value": "s3cret"}])),
            obj(container("web:2", env=[{"name": "KEY", "value": "s4cret"}])),
            [
                "spec.template.spec.containers[web].image: web:1 → web:2",
                "spec.template.spec.containers[web].env[KEY].value",
            ],
        ),
        ("Pod", obj({"tolerations": [{"key": "a"}]}), obj({"tolerations": []}), ["spec.tolerations"]),
        ("Pod", obj({"volumes": [{"name": "a"}]}), obj({"volumes": [{"name": "a"}] * 2}), ["spec.volumes"]),
        ("Secret", obj(data={"a": "czNjcmV0"}), obj(data={"image": "czRjcmV0"}), ["data.image", "data.a"]),
        ("ConfigMap", obj(data={"replicas": "3"}), obj(data={"replicas": "4"}), ["data.replicas"]),
        ("ConfigMap", obj(), obj(data={"app.conf": "x"}), ["data[app.conf]"]),
        (
            "Pod",
            obj(metadata={"generation": 1, "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}),
            obj(metadata={"generation": 2, "annotations": {"example.com/owner": "jan"}, "managedFields": [1]}),
            ["metadata.annotations[example.com/owner]"],
        ),
        ("Pod", obj(status={"phase": "Pending"}), obj(status={"phase": "Running"}), []),
        ("K", obj(statusPolicy="a"), obj(statusPolicy="b"), ["statusPolicy"]),
        ("Pod", obj({"nodeName": "x\x1b[2J" * 50}), obj({}), None),
    ],
)
def test_changed_fields_are_named_without_values(kind: str, old: Any, new: Any, fields: list[str] | None) -> None:
    found, has_more = changed_fields(kind, old, new)
    assert not has_more
    assert "cret" not in str(found)
    if fields is None:
        assert all(each.isprintable() and len(each) < 300 for each in found)
    else:
        assert list(found) == fields


def test_the_fields_are_bounded() -> None:
    deep: Any = 1
    for _ in range(500):
        deep = {"a": deep}
    assert changed_fields("K", obj({"x": deep}), obj({"x": {}}))[0][0].startswith("spec.x.a")
    assert changed_fields("K", obj({"x": deep}), obj({"x": {"a": deep}}))[0] == ("spec.x" + ".a" * 10,)
    found, has_more = changed_fields("K", obj({}), obj({f"{'f' * 300}{number}": 1 for number in range(5000)}))
    assert (len(found), has_more) == (MOST_FIELDS, True)
    assert all(len(each) < 200 for each in found)


def test_a_status_alone_is_not_kept_unless_it_is_an_approval() -> None:
    old = obj({"a": 1}, status={"x": 1}, metadata={"labels": {"a": "b"}})
    status = {**old, "status": {"x": 2}, "metadata": {**old["metadata"], "resourceVersion": "2", "managedFields": []}}
    assert is_status_only(old, status)
    for changed in (
        {**status, "spec": {"a": 2}}, {**status, "data": {}}, {**status, "metadata": {"name": "x"}},
        {**status, "metadata": {**old["metadata"], "labels": {}}}, {"metadata": old["metadata"], "status": {}},
    ):  # fmt: skip
        assert not is_status_only(old, changed)
    assert changed_fields("K", old, status, status=True) == (("status.x",), False)


@pytest.mark.parametrize(
    ("call", "writer"),
    [
        ({"user": "jan", "options": {"fieldManager": "kubectl-edit"}}, ObjectWriter("jan", "kubectl-edit")),
        ({"author": "system:admin", "user": "jan"}, ObjectWriter("system:admin")),
        ({"node": "n1"}, ObjectWriter("system:node:n1")),
        ({"fence": "cloud-a/3"}, ObjectWriter("cloudcore", "controllers")),
        ({"author": "jan", "subresource": "approval"}, ObjectWriter("jan", writes_status=True)),
        ({}, ObjectWriter("cloudcore")),
    ],
)
def test_a_write_has_its_writer(call: dict[str, Any], writer: ObjectWriter) -> None:
    assert writer_of(ApiCall(verb="update", api_version="v1", plural="pods", **call)) == writer
