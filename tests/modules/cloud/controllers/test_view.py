"""The controllers' mirror of the API server's objects."""

import pytest

from modules.apimachinery.kinds import JsonObject, key_of
from modules.cloud.controllers.view import RefusedWrite, View
from tests.modules.cloud.objects import pod, service


def _numbered(obj: JsonObject, version: int, **metadata: object) -> JsonObject:
    return {**obj, "metadata": {**obj["metadata"], "namespace": "default", "resourceVersion": str(version), **metadata}}


def test_pods_and_services_are_found_by_labels_in_their_own_namespace() -> None:
    view = View()
    for number, namespace in enumerate(("default", "shop")):
        view.put(_numbered(pod(), 2 * number + 1, labels={"app": "web"}, namespace=namespace))
        view.put(_numbered(service(app="web"), 2 * number + 2, namespace=namespace))
    for namespace in ("default", "shop"):
        found = [*view.pods_with(namespace, {"app": "web"}), *view.services_of(namespace, {"app": "web"})]
        assert [each["metadata"]["namespace"] for each in found] == [namespace] * 2


@pytest.mark.parametrize("owners", [[], [{"kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}]])
def test_nothing_is_kept_of_objects_that_are_gone(owners: list[JsonObject]) -> None:
    view = View()
    before = {name: dict(value) for name, value in vars(view).items() if isinstance(value, dict) and name != "versions"}
    objects = [_numbered(pod(), 1, labels={"app": "web"}, ownerReferences=owners), _numbered(service(app="web"), 2)]
    for each in objects:
        view.put(each)
        view.refusals[key_of(each)] = RefusedWrite("FailedCreate", "refused")
    for each in objects:
        assert view.remove(each)
    assert {name: getattr(view, name) for name in before} == before
