"""Large requests, whose results are computed on another thread before they are carried out."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beehive.errors import RequestLostError
from beehive.message import Message
from beehive.module import Module
from beehive.testing import Harness
from modules.apimachinery.computed import Results
from modules.apimachinery.kinds import ObjectKey
from modules.apimachinery.strategic_merge import merge_json
from modules.cloud.api_messages import MODULE
from modules.cloud.apiextensions.objects import prepared_object
from modules.cloud.apiserver import custom_resource_controller, previews
from modules.cloud.apiserver.previews import Previews
from modules.cloud.apiserver.verbs import patching
from modules.cloud.client.calls import APPLY, JSON_PATCH, MERGE, STRATEGIC, ApiCall
from modules.cloud.storage import object_storage
from modules.cloud.storage.database.errors import DatabaseError
from modules.cloud.storage.object_storage import LARGE
from tests.modules.cloud.apiserver.test_module import Server
from tests.modules.cloud.objects import configmap, node, pod
from tests.support.presence import present

Json = dict[str, Any]
_EVERYTHING = 0
_NOTHING = 1 << 60
_GROUP = "example.org"


def large(name: str = "large", value: str = "v") -> Json:
    """A ConfigMap that is large."""
    return configmap(name, **{f"key-{number}": value * 8 for number in range(LARGE // 16)})


def _definition() -> Json:
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    version["subresources"] = {"status": {}}
    names = {"plural": "things", "kind": "Thing", "singular": "thing", "listKind": "ThingList"}
    spec = {"group": _GROUP, "scope": "Namespaced", "names": names, "versions": [version]}
    metadata = {"name": f"things.{_GROUP}"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata, "spec": spec
    }  # fmt: skip


def _applied(obj: Json, manager: str, *, force: bool = False, **of: Any) -> Json:
    name = obj["metadata"]["name"]
    options = {"fieldManager": manager, "force": force}
    return {"verb": "patch", "name": name, "patch_type": APPLY, "body": obj, "options": options, **of}


def _calls() -> list[Json]:
    """Requests of every kind that may have a preview, with refusals among them."""
    maps: Json = {"plural": "configmaps"}
    things: Json = {"plural": "things", "api_version": f"{_GROUP}/v1"}
    thing = {"apiVersion": f"{_GROUP}/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"more": 1}}
    web = pod("web")
    service = {"metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}}
    conditions = {"status": {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}}
    return [
        {"verb": "create", "plural": "nodes", "body": node("n1"), "namespace": ""},
        {"verb": "create", "body": large("a"), **maps},
        {"verb": "create", "body": large("a"), **maps},
        {"verb": "create", "body": {"metadata": {"generateName": "g-"}, "data": {"a": "b"}}, **maps},
        {"verb": "create", "body": {"metadata": {"name": "A_"}, "data": {"/": "b"}}, **maps},
        {"verb": "create", "body": {"metadata": {"name": "x"}, "data": 3}, **maps},
        _applied(configmap("b", k="1"), "one", **maps),
        _applied(configmap("b", k="2"), "two", **maps),
        _applied(configmap("b", k="2"), "two", force=True, **maps),
        _applied(secret, "one", plural="secrets"),
        {"verb": "patch", "name": "b", "patch_type": MERGE, "body": {"data": {"m": "1"}}, **maps},
        {"verb": "patch", "name": "b", "patch_type": STRATEGIC, "body": {"data": {"k": None}}, **maps},
        {"verb": "patch", "name": "b", "patch_type": JSON_PATCH,
         "body": [{"op": "add", "path": "/data/j", "value": "1"}], "options": {"fieldManager": "three"}, **maps},
        {"verb": "update", "name": "b", "body": configmap("b", u="1"), "options": {"fieldManager": "three"}, **maps},
        {"verb": "update", "name": "none", "body": configmap("none"), **maps},
        {"verb": "create", "body": configmap("dry"), "options": {"dryRun": ["All"]}, **maps},
        {"verb": "create", "plural": "pods", "body": web},
        {"verb": "patch", "plural": "pods", "name": "web", "subresource": "status", "patch_type": STRATEGIC,
         "body": conditions},
        {"verb": "create", "plural": "services", "body": service},
        {"verb": "create", "plural": "customresourcedefinitions", "api_version": "apiextensions.k8s.io/v1",
         "namespace": "", "body": _definition()},
        {"verb": "create", "body": thing, **things},
        _applied(thing, "one", **things),
        {"verb": "patch", "name": "t", "subresource": "status", "patch_type": MERGE,
         "body": {"status": {"is": "fine"}}, **things},
        {"verb": "update", "name": "t", "body": {**thing, "spec": {"size": "3"}}, **things},
    ]  # fmt: skip


def _plain(value: Any) -> Any:
    """A value without what chance gives it."""
    if isinstance(value, dict):
        return {
            name: _plain(member) for name, member in value.items() if name not in ("uid", "clusterIP", "clusterIPs")
        }
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _answers(limit: int, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    for module in (previews, object_storage):
        monkeypatch.setattr(module, "LARGE", limit)
    found = []
    with Harness() as bee:
        server = Server(bee)
        for fields in _calls():
            result = server.call(fields["verb"], **{name: of for name, of in fields.items() if name != "verb"})
            made = _plain(result.object)
            if made and (made.get("metadata") or {}).get("generateName"):
                made["metadata"]["name"] = "made"
            found.append((made, _plain(result.refusal), result.created, result.warnings))
    return found


def test_a_request_has_the_same_answer_with_a_preview(monkeypatch: pytest.MonkeyPatch) -> None:
    without = _answers(_NOTHING, monkeypatch)
    assert _answers(_EVERYTHING, monkeypatch) == without
    assert len({(refusal or {}).get("code") for _, refusal, _, _ in without}) > 3


def test_a_preview_spares_the_computation(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made once, on another thread, although the request is carried out twice."""
    made: list[Any] = []

    def merge(live: Json, patch: Json) -> Json:
        made.append(patch)
        merged: Json = merge_json(live, patch)
        return merged

    monkeypatch.setattr(patching, "merge_json", merge)
    server = Server(bee)
    server.apply(large(), "configmaps")
    server.call("patch", "configmaps", "large", patch_type=MERGE, body={"data": {"a": "b"}})
    assert len(made) == 1
    assert server.call("get", "configmaps", "large").object["data"]["a"] == "b"  # type: ignore[index]


def test_a_large_request_that_is_lost_with_the_module_is_refused(bee: Harness) -> None:
    """Its sender does not wait for nothing, and the module restarts."""
    bee.expect_failures()
    server = Server(bee)

    def fail(version: int) -> None:
        del server.database.commit
        raise DatabaseError("commit", f"version {version}", "the disk is full")

    server.database.commit = fail  # type: ignore[method-assign]
    with pytest.raises(RequestLostError):
        server.call("create", "configmaps", body=large())
    bee.run_for(60.0)
    assert bee.hive.restarts()[MODULE] == 1
    assert server.call("create", "configmaps", body=large()).refusal is None


def _expanding(*, default: int, alternatives: int = 1) -> Json:
    """A definition whose items have so many numbers by default, and whose numbers so many alternatives."""
    made = _definition()
    number = {"type": "integer", "anyOf": [{"minimum": each} for each in range(alternatives)]}
    numbers = {"type": "array", "default": list(range(default)), "items": number}
    item = {"type": "object", "properties": {"x": numbers}}
    schema = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["l"] = {"type": "array", "items": item}
    return made


def _thing(items: int, name: str = "t") -> Json:
    return {"apiVersion": f"{_GROUP}/v1", "kind": "Thing", "metadata": {"name": name}, "l": [{}] * items}


_DEFINING: Json = {"api_version": "apiextensions.k8s.io/v1", "namespace": ""}
_THINGS: Json = {"api_version": f"{_GROUP}/v1"}


@pytest.mark.parametrize(
    ("definition", "items"), [(_expanding(default=1000), 8), (_expanding(default=10, alternatives=100), 8)]
)
def test_what_is_large_by_its_outcome_is_computed_beside(
    bee: Harness, monkeypatch: pytest.MonkeyPatch, definition: Json, items: int
) -> None:
    """By defaults and by alternatives; once, and with the same answer."""
    threads: list[str] = []

    def noted(*args: Any) -> Json:
        threads.append(threading.current_thread().name)
        return prepared_object(*args)

    monkeypatch.setattr(custom_resource_controller, "prepared_object", noted)
    server = Server(bee)
    assert server.call("create", "customresourcedefinitions", body=definition, **_DEFINING).refusal is None
    assert server.call("create", "things", body=_thing(1, "small"), **_THINGS).refusal is None
    assert len(threads) == 1, "it is made at once"
    made = server.call("create", "things", body=_thing(items), **_THINGS)
    assert made.refusal is None
    assert [len(each["x"]) for each in made.object["l"]] == [len(_default(definition))] * items  # type: ignore[index]
    assert len(threads) == 3, "it is given up, and made once beside"
    assert server.call("create", "things", body=_thing(300), **_THINGS).refusal["code"] == 413  # type: ignore[index]


def _default(definition: Json) -> list[int]:
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    found: list[int] = schema["properties"]["l"]["items"]["properties"]["x"]["default"]
    return found


@pytest.mark.parametrize("options", [{}, {"dryRun": ["All"]}])
def test_defaults_that_add_too_many_values_are_refused(bee: Harness, options: Json) -> None:
    server = Server(bee)
    server.call("create", "customresourcedefinitions", body=_expanding(default=20_000), **_DEFINING)
    refusal = present(server.call("create", "things", body=_thing(100), options=options, **_THINGS).refusal)
    assert (refusal["code"], refusal["reason"]) == (413, "RequestEntityTooLarge")
    assert server.call("get", "things", "t", **_THINGS).refusal["code"] == 404  # type: ignore[index]


def test_a_definition_with_new_defaults_makes_no_list_too_large(bee: Harness) -> None:
    """An object to which too many values would be added is as it is stored."""
    server, defined = Server(bee), _expanding(default=20_000)
    plain = _expanding(default=1)
    assert server.call("create", "customresourcedefinitions", body=plain, **_DEFINING).refusal is None
    for name, items in (("few", 1), ("many", 4)):
        assert server.call("create", "things", body=_thing(items, name), **_THINGS).refusal is None
        obj = server.cluster.storage.get(ObjectKey(f"Thing.{_GROUP}", "default", name))
        server.cluster.storage.replace({**obj, "l": [{}] * items})
    name = plain["metadata"]["name"]
    patch = {"spec": {"versions": defined["spec"]["versions"]}}
    changed = server.call("patch", "customresourcedefinitions", name, patch_type=MERGE, body=patch, **_DEFINING)
    assert changed.refusal is None
    listed = present(server.call("list", "things", **_THINGS).object)
    assert [len(each["l"][0].get("x", ())) for each in listed["items"]] == [20_000, 0]


class Stage:
    """Previews without a module: the test runs what would run on its threads."""

    def __init__(self, server: Server) -> None:
        self.computing: list[Callable[[], None]] = []
        self.continuing: list[Callable[[], None]] = []
        self.carried_out: list[tuple[str, Results | None]] = []
        runtime = SimpleNamespace(call=lambda function, name: self.computing.append(function))  # noqa: ARG005
        module = SimpleNamespace(runtime=runtime, call_soon=self.continuing.append, name=MODULE)
        self.previews = Previews(cast(Module, module), server.cluster, self._carry_out)

    def _carry_out(self, message: Message, results: Results | None) -> None:
        self.carried_out.append((message.content.name, results))

    def send(self, user: str, name: str) -> bool:
        call = ApiCall(
            verb="update", api_version="v1", plural="configmaps", namespace="default", name=name, body=large(name),
            user=user,
        )  # fmt: skip
        return self.previews.accept(Message(content=call))

    def go_on(self) -> None:
        self.computing.pop(0)()
        self.continuing.pop(0)()


def test_a_large_request_waits_for_its_preview_and_each_sender_has_its_turn(bee: Harness) -> None:
    stage = Stage(Server(bee))
    for user, name in (("ann", "a1"), ("ann", "a2"), ("ann", "a3"), ("bob", "b1")):
        assert stage.send(user, name)
    assert not stage.carried_out
    for _ in range(4):
        stage.go_on()
    assert [name for name, _ in stage.carried_out] == ["a1", "a2", "b1", "a3"]


def test_an_object_that_changes_meanwhile_gets_another_preview_three_times_at_most(bee: Harness) -> None:
    server = Server(bee)
    server.apply(large(), "configmaps")
    stage = Stage(server)
    stage.send("ann", "large")
    for number in range(3):
        assert not stage.carried_out
        live = server.cluster.storage.get(ObjectKey("ConfigMap", "default", "large"))
        server.cluster.storage.replace({**live, "data": {"other": str(number)}})
        stage.go_on()
    assert stage.carried_out == [("large", None)]
    assert not stage.computing


def test_nothing_is_computed_for_a_node_that_may_not_ask(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    merged: list[Any] = []
    monkeypatch.setattr(patching, "merge_json", lambda *_: merged.append(1))
    server = Server(bee)
    server.apply(large(), "configmaps")
    patch = {"verb": "patch", "plural": "configmaps", "namespace": "default", "name": "large", "patch_type": MERGE}
    assert server.asks("n1", **patch, body=large()["data"]).refusal["code"] == 403  # type: ignore[index]
    assert not merged


def test_an_object_that_changes_all_the_time_gets_many_steps_on_no_thread(bee: Harness) -> None:
    """The request is refused, and can be sent again."""
    server, answers = Server(bee), list[Any]()
    server.call("create", "customresourcedefinitions", body=_expanding(default=2000), **_DEFINING)
    ran = server.cluster.preview
    number = iter(range(9))

    def meddled() -> Any:
        thing = {**_thing(0), "metadata": {"name": "t", "namespace": "default"}, "other": next(number)}
        if (live := server.cluster.storage.find(ObjectKey(f"Thing.{_GROUP}", "default", "t"))) is None:
            server.cluster.storage.create(thing)
        else:
            server.cluster.storage.replace({**live, "other": next(number)})
        return ran()

    server.cluster.preview = meddled  # type: ignore[method-assign]
    answers.append(server.call("create", "things", body=_thing(4), options={"dryRun": ["All"]}, **_THINGS).refusal)
    assert [each["code"] for each in answers] == [409]


def test_requests_without_large_objects_and_reads_have_no_preview(bee: Harness) -> None:
    stage = Stage(Server(bee))
    for call in (
        ApiCall(verb="create", api_version="v1", plural="configmaps", namespace="default", body=configmap("a")),
        ApiCall(verb="get", api_version="v1", plural="configmaps", namespace="default", name="a", body=large()),
        ApiCall(verb="create", api_version="v1", plural="pods", name="a", subresource="binding", body=large()),
        ApiCall(verb="update", api_version="none/v1", plural="nothings", name="a", body={"a": 1}),
        ApiCall(verb="update", api_version="v1", plural="configmaps", name="a", body={"a": {1, 2}}),
    ):
        assert not stage.previews.accept(Message(content=call)), call
