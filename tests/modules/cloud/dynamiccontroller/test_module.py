"""The module alone on the bus: a node's Applications, and what becomes of them."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from beehive import Message, ModuleName
from beehive.testing import Harness
from modules.apimachinery.limits import NODE_LIMIT, NODE_VALUES
from modules.cloud.client.calls import DOCUMENT, MOST_WATCHES, ApiCall, ApiResult
from modules.cloud.dynamiccontroller import module
from modules.cloud.dynamiccontroller.module import DynamicController
from modules.cloud.messages import HANDLED

FOUND = {"kind": "Pod", "metadata": {"name": "web"}}


@pytest.fixture
def bee() -> Iterator[Harness]:
    with Harness() as made:
        made.add(DynamicController)
        made.start()
        yield made


def app(**changes: Any) -> dict[str, Any]:
    """An Application as a Go edge sends it."""
    return {
        "ID": "f00", "Key": "/core/v1/pods/default/web", "Verb": "get", "Nodename": "n1", "Option": "e30=",
        "ReqBody": None, "Subresource": "", "RespBody": None, "Status": "InApplying", "Reason": "",
        "Error": {"ErrStatus": {"metadata": {}}}, "Timestamp": "0001-01-01T00:00:00Z", **changes,
    }  # fmt: skip


def ask(bee: Harness, content: Any, resource: str = "null") -> Message:
    """The answer that goes to the node."""
    source, about = ModuleName.METASERVER, f"node/n1/{resource}"
    message = bee.message(about, "null", content, source=source, group="dynamiccontroller")
    bee.send(ModuleName.DYNAMICCONTROLLER, message)
    answer = bee.sent_to(ModuleName.CLOUDHUB)[-1]
    assert answer.parent_id == message.id
    route = answer.route
    assert (route.source, route.group, route.operation) == ("dynamiccontroller", "resource", "applicationResponse")
    return answer


def content_of(answer: Message) -> dict[str, Any]:
    return dict(json.loads(bytes(answer.content_raw())))


def answering(bee: Harness, result: ApiResult) -> list[ApiCall]:
    """edgecontroller answers so; what it was asked."""
    asked: list[ApiCall] = []

    def answer(message: Message) -> Message:
        asked.append(message.content_as(ApiCall))
        return message.reply(bee.clock, result)

    bee.answer(ModuleName.EDGECONTROLLER, answer)
    return asked


def test_an_answer_has_the_object_and_the_nodes_resource(bee: Harness) -> None:
    asked = answering(bee, ApiResult(FOUND))
    answer = ask(bee, app())
    assert answer.route.resource == "node/n1/ignore/Application/ignore"
    content = content_of(answer)
    assert (content["ID"], content["Status"]) == ("f00", "Approved")
    assert json.loads(base64.b64decode(content["RespBody"])) == FOUND
    assert asked == [ApiCall(verb="get", api_version="v1", plural="pods", namespace="default", name="web", node="n1")]


def test_a_refusal_is_gos_status_error(bee: Harness) -> None:
    answering(bee, ApiResult(refusal={"code": 404, "reason": "NotFound", "message": "no"}))
    content = content_of(ask(bee, app()))
    assert (content["Status"], content["Reason"], content["Error"]["ErrStatus"]["code"]) == ("Rejected", "no", 404)


def test_a_patch_is_unpacked(bee: Harness) -> None:
    asked = answering(bee, ApiResult())
    data = base64.b64encode(b'{"a":1}').decode()
    info = {"Name": "web", "PatchType": "application/merge-patch+json", "Data": data, "Options": {"force": True}}
    option = base64.b64encode(json.dumps({**info, "Subresources": ["status"]}).encode()).decode()
    content = content_of(ask(bee, app(Verb="patch", Option=option, Subresource="status")))
    assert (content["Status"], content["RespBody"]) == ("Approved", None)
    (call,) = asked
    assert (call.patch_type, call.body, call.options) == ("application/merge-patch+json", {"a": 1}, {"force": True})
    assert (call.name, call.subresource) == ("web", "status")


@pytest.mark.parametrize(
    "changes",
    [{"Verb": "walk"}, {"Key": "pods"}, {"Key": "/core/v1/pods//web"}, {"Option": "eA=="},
     {"Verb": "patch"}],
)  # fmt: skip
def test_what_cannot_be_asked_is_rejected_with_a_reason(bee: Harness, changes: dict[str, str]) -> None:
    content = content_of(ask(bee, app(**changes)))
    assert (content["Status"], bool(content["Reason"])) == ("Rejected", True)


@pytest.mark.parametrize("place", ["ReqBody", "Option", "Data"])
def test_an_application_with_too_many_values_is_rejected_without_a_call(bee: Harness, place: str) -> None:
    """Whether they are in the body, in the option, or in the patch that is in the option."""
    asked = answering(bee, ApiResult({}))
    many = f"[{'0,' * NODE_VALUES}0]".encode()
    data = base64.b64encode(many).decode()
    patch = base64.b64encode(json.dumps({"Name": "web", "PatchType": "p", "Data": data}).encode()).decode()
    changes = {"Verb": "patch", "Option": patch} if place == "Data" else {place: data}
    content = content_of(ask(bee, app(**changes)))
    assert (content["Status"], NODE_LIMIT in content["Reason"], asked) == ("Rejected", True, [])


def test_a_silent_edgecontroller_is_a_rejection(bee: Harness) -> None:
    message = bee.message("node/n1/null", "null", app(), source=ModuleName.METASERVER)
    bee.send(ModuleName.DYNAMICCONTROLLER, message)
    bee.run_for(11)
    assert content_of(bee.sent_to(ModuleName.CLOUDHUB)[-1])["Status"] == "Rejected"


def test_a_watch_is_a_call_whose_events_come_later(bee: Harness) -> None:
    asked = answering(bee, ApiResult())
    option = base64.b64encode(b'{"labelSelector":"a=b"}').decode()
    content = content_of(ask(bee, app(Verb="watch", Key="/core/v1/services/null/null", Option=option)))
    assert (content["Status"], content["RespBody"]) == ("Approved", None)
    options = {"labelSelector": "a=b"}
    assert asked == [ApiCall(verb="watch", api_version="v1", plural="services", options=options, node="n1")]


def test_a_node_repeats_the_watches_that_it_still_has(bee: Harness) -> None:
    """It has no others; the answer lists failed ones, and waits for all."""
    asked: list[ApiCall] = []

    def answer(message: Message) -> Message:
        call = message.content_as(ApiCall)
        asked.append(call)
        refusal = {"code": 403, "message": "no"} if call.plural == "secrets" else None
        return message.reply(bee.clock, ApiResult(refusal=refusal))

    bee.answer(ModuleName.EDGECONTROLLER, answer)
    watches = {
        "a": app(Verb="watch", Key="/core/v1/services/null/null"),
        "b": app(Verb="watch", Key="/core/v1/secrets/null/null"),
        "c": app(Verb="delete"),
        "d": app(Verb="watch", Key="secrets"),
    }
    content = content_of(ask(bee, watches, "watchapp/sync"))
    assert {name: (one["Status"], one["Reason"][:2]) for name, one in content.items()} == {
        "b": ("Rejected", "no"), "c": ("Rejected", "at"), "d": ("Rejected", "th"),
    }  # fmt: skip
    assert [f"{call.verb} {call.plural}" for call in asked] == ["unwatch ", "watch services", "watch secrets"]


def test_a_list_of_names_has_the_names_only(bee: Harness) -> None:
    """And what says whether it is whole; the API server is asked for an ordinary list."""
    found = [
        {"kind": "Service", "metadata": {"name": "web", "namespace": "shop", "uid": "u1"}, "spec": {"ports": []}},
        {"metadata": {"name": "cluster-scoped"}},
    ]
    metadata = {"resourceVersion": "7", "continue": "more", "remainingItemCount": 1}
    asked = answering(bee, ApiResult({"kind": "ServiceList", "metadata": metadata, "items": found}))
    option = base64.b64encode(b'{"limit":2,"namesOnly":true}').decode()
    content = content_of(ask(bee, app(Verb="list", Key="/core/v1/services/null/null", Option=option)))
    names = [{"metadata": {"namespace": "shop", "name": "web"}}, {"metadata": {"name": "cluster-scoped"}}]
    body = {"kind": "ServiceList", "metadata": metadata, "items": names}
    assert json.loads(base64.b64decode(content["RespBody"])) == body
    assert asked == [ApiCall(verb="list", api_version="v1", plural="services", options={"limit": 2}, node="n1")]


@pytest.mark.parametrize(
    ("verb", "found", "body"),
    [
        ("get", FOUND, FOUND),
        ("list", FOUND, {**FOUND, "items": []}),
        ("list", {"kind": "PodList", "items": None}, {"kind": "PodList", "items": []}),
        ("list", None, None),
    ],
)
def test_an_answer_without_objects_has_no_names(bee: Harness, verb: str, found: Any, body: Any) -> None:
    """A node may ask for them all the same, also for the list of a single object."""
    answering(bee, ApiResult(found))
    option = base64.b64encode(b'{"namesOnly":true}').decode()
    content = content_of(ask(bee, app(Verb=verb, Option=option)))
    assert json.loads(base64.b64decode(content["RespBody"] or "bnVsbA==")) == body


def test_a_refused_list_of_names_is_a_refusal(bee: Harness) -> None:
    answering(bee, ApiResult(refusal={"code": 403, "message": "no"}))
    option = base64.b64encode(b'{"namesOnly":true}').decode()
    content = content_of(ask(bee, app(Verb="list", Key="/core/v1/services/null/null", Option=option)))
    assert (content["Status"], content["Reason"]) == ("Rejected", "no")


def test_a_node_without_watches_has_no_failed_watch(bee: Harness) -> None:
    asked = answering(bee, ApiResult())
    assert content_of(ask(bee, {}, "watchapp/sync")) == {}
    assert [call.verb for call in asked] == ["unwatch"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ([1], "Expected `object`"),
        ({"w": app(Verb="watch", Option=[0] * NODE_VALUES)}, NODE_LIMIT),
        ({str(number): app(Verb="watch") for number in range(module._MOST_CALLS)}, "too many"),
    ],
    ids=["no list", "too large", "too many"],
)
def test_a_list_of_watches_that_is_not_taken_is_answered_with_the_reason(bee: Harness, content: Any, why: str) -> None:
    """And changes nothing: the node takes watches that an answer lacks for successful, and ends what they do not
    select.
    """
    asked = answering(bee, ApiResult())
    answer = ask(bee, content, "watchapp/sync").content
    assert isinstance(answer, str)
    assert why in answer
    assert asked == []


def test_few_calls_of_a_node_wait_at_a_time(bee: Harness) -> None:
    """Another one is refused; the next is taken after an answer, and another node does not notice."""
    source, about = ModuleName.METASERVER, "node/n1/null"
    for _ in range(module._MOST_CALLS):
        bee.send(ModuleName.DYNAMICCONTROLLER, bee.message(about, "null", app(), source=source))
    assert content_of(ask(bee, app()))["Error"]["ErrStatus"]["code"] == 429
    assert "too many" in str(ask(bee, {"w": app(Verb="watch")}, "watchapp/sync").content)
    bee.send(ModuleName.DYNAMICCONTROLLER, bee.message("node/n2/null", "null", app(), source=source))
    assert len(bee.sent_to(ModuleName.EDGECONTROLLER)) == module._MOST_CALLS + 1
    bee.run_for(module.SECONDS)
    answering(bee, ApiResult(FOUND))
    assert content_of(ask(bee, app()))["Status"] == "Approved"


def test_more_watches_than_a_node_may_have_are_rejected(bee: Harness) -> None:
    """Without asking anybody."""
    asked = answering(bee, ApiResult())
    watches = {str(number): app(Verb="watch", Key=f"/core/v1/services/n{number}/null") for number in range(70)}
    content = content_of(ask(bee, watches, "watchapp/sync"))
    assert (len(content), len(asked)) == (70 - MOST_WATCHES, MOST_WATCHES + 1)


def test_other_messages_than_applications_are_rejected(bee: Harness) -> None:
    content = content_of(ask(bee, [1]))
    assert (content["Status"], bool(content["Reason"])) == ("Rejected", True)
    (handled,) = [each.content for each in bee.sent_to(ModuleName.CLOUDHUB) if each.route.operation == HANDLED]
    assert handled == {"n1": 1}, "and another may come"


def test_a_request_is_answered_once_although_the_module_fails(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that waits for edgecontroller, and the one that it fails on; a list of watches comes again."""
    bee.expect_failures()
    for content, resource in ((app(ID="waits"), "null"), ({"w": app(Verb="watch")}, "watchapp/sync")):
        bee.send(ModuleName.DYNAMICCONTROLLER, bee.message(f"node/n1/{resource}", "null", content))
    monkeypatch.setattr(module, "call_of", None)
    bee.send(ModuleName.DYNAMICCONTROLLER, bee.message("node/n1/null", "null", app(ID="fails")))
    bee.run_for(60.0)
    found = [content_of(each) for each in bee.sent_to(ModuleName.CLOUDHUB) if each.parent_id]
    assert [(each["ID"], each["Status"], each["Error"]["ErrStatus"]["code"]) for each in found] == [
        ("waits", "Rejected", 504),
        ("fails", "Rejected", 504),
    ]


@pytest.mark.parametrize(
    "path", ["/version", "/api", "/apis", "/api/v1", "/apis/devices.kubeedge.io/v1beta1", "/openapi/v3"]
)
def test_kubeedges_metaserver_passes_paths_of_discovery_through(bee: Harness, path: str) -> None:
    """The key is the path then; kubectl at a node of KubeEdge's asks for these first. Everybody may read them."""
    asked = answering(bee, ApiResult({"kind": "APIVersions"}))
    content = content_of(ask(bee, app(Key=path)))
    assert (content["Status"], base64.b64decode(content["RespBody"])) == ("Approved", b'{"kind":"APIVersions"}')
    assert asked == [ApiCall(verb=DOCUMENT, api_version="", plural="", name=path, node="n1")]


def test_an_option_that_is_no_object_is_none_and_a_reason_is_short(bee: Harness) -> None:
    asked = answering(bee, ApiResult(FOUND))
    ask(bee, app(Option=base64.b64encode(b"[1]").decode()))
    assert [call.options for call in asked] == [{}]
    assert len(content_of(ask(bee, app(Key="x" * 5000)))["Reason"]) < 300


def test_an_application_without_an_error_is_read(bee: Harness) -> None:
    answering(bee, ApiResult(FOUND))
    assert content_of(ask(bee, app(Error=None, Option=None)))["Status"] == "Approved"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez"])
def test_the_health_of_the_cloud_is_that_it_answers(bee: Harness, path: str) -> None:
    assert base64.b64decode(content_of(ask(bee, app(Key=path)))["RespBody"]) == b"ok"


@pytest.mark.parametrize("key", ["/metrics", "/apis/a/b/c/d/e/f", "/logs/x", "/openapi/v4", "/version/"])
def test_no_other_path_is_passed_through(bee: Harness, key: str) -> None:
    asked = answering(bee, ApiResult({}))
    assert content_of(ask(bee, app(Key=key)))["Status"] == "Rejected"
    assert content_of(ask(bee, app(Key="/version", Verb="delete")))["Status"] == "Rejected"
    assert asked == []


@pytest.mark.parametrize(("key", "namespace"), [("/core/v1/pods", ""), ("/core/v1/pods/default", "default")])
def test_keys_of_earlier_kubeedges_lack_the_last_parts(bee: Harness, key: str, namespace: str) -> None:
    asked = answering(bee, ApiResult({"kind": "PodList", "metadata": {}, "items": []}))
    assert content_of(ask(bee, app(Key=key, Verb="list")))["Status"] == "Approved"
    assert [(call.plural, call.namespace, call.name) for call in asked] == [("pods", namespace, "")]
