"""Answers of cloudcore to itself and to its page: whose credentials they need, and what bounds them."""

from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beehive.http.request import Request
from beehive.http.responses import Response, Stream
from modules.apimachinery.errors import ApiStatusError
from modules.cli.errors import KubectlError
from modules.cloud.authorization.rbac.rules import AccessRequest
from modules.cloud.messages import NodeConnection
from modules.page.sessions import Sessions
from modules.processes.cloudcore import api_listeners, page_cluster_users
from modules.processes.cloudcore.control_service import ControlService, NodesResponseBody, RefusedConnection
from modules.processes.cloudcore.identity_service import IdentityService
from modules.processes.cloudcore.in_process_client import Credentials, InProcessClient, LocalPeer
from modules.processes.cloudcore.page_cluster_users import ClusterUsers, _Answers
from modules.processes.cloudcore.page_port import UserEntrance
from modules.processes.common import kubeconfig_client
from modules.processes.common.kubeconfig_client import KubeconfigClient, _Pieces
from tests.support.clocks import StandingClock

NOTHING: Any = None


def test_a_request_in_the_process_has_the_users_credentials_and_a_bounded_answer() -> None:
    asked, read = list[Request](), list[int]()

    def pieces(_peer: object) -> Any:
        for number in range(1000):
            read.append(number)
            yield bytes(1000)

    def serve(request: Request) -> Stream:
        asked.append(request)
        return Stream("application/json", cast("Any", pieces), lambda: None)

    certificate = {"subject": ()}
    client = InProcessClient(
        cast("Any", SimpleNamespace(serve=serve)), Credentials("Bearer a", certificate), LocalPeer()
    )
    with pytest.raises(KubectlError, match="longer than"):
        client.raw("GET", "/api/v1/pods", most=5000)
    assert (len(read), asked[0].certificate, asked[0].header("authorization")) == (6, certificate, "Bearer a")


def test_a_watch_of_a_cluster_is_cancelled_at_its_end_and_bounded() -> None:
    """In the length of a line, and in what waits to be read."""
    ended = list[bool]()

    def client(*pieces: bytes) -> Any:
        def start(_request: object, listener: Any) -> Any:
            for piece in pieces:
                listener.on_data(piece)
            listener.on_end()
            return SimpleNamespace(cancel=lambda: ended.append(True))

        return KubeconfigClient(cast("Any", SimpleNamespace(start=start)))

    assert list(client(b"{}\n{", b"}\n").lines("/")) == [b"{}", b"{}"]
    with pytest.raises(KubectlError, match="longer than 16 MiB"):
        list(client(*[bytes(1 << 20)] * 17).lines("/"))
    with pytest.raises(KubectlError, match="slower than its changes"):
        list(client(*[b"\n"] * (kubeconfig_client._MOST_AHEAD + 9)).lines("/"))
    assert len(ended) == 3
    full = _Pieces()
    for _ in range(2 * kubeconfig_client._MOST_AHEAD):
        full.on_data(b"x")
    assert full._pieces.qsize() == kubeconfig_client._MOST_AHEAD + 1


def test_answers_of_a_cluster_are_of_one_user_and_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tokens may have one name, of two clusters' users for instance, or of one that was given other rights."""
    clock = StandingClock()
    answers = _Answers(clock)
    for number in range(3 * page_cluster_users._MOST_ANSWERS):
        assert answers.get((number,), partial(str, number)) == str(number)
    assert len(answers._kept) <= page_cluster_users._MOST_ANSWERS
    clock.close()
    users: Any = ClusterUsers.__new__(ClusterUsers)
    users._transport, users._answers = NOTHING, _Answers(clock)
    sent = list[Any]()

    def request(client: KubeconfigClient, _method: str, path: str, body: Any) -> Any:
        credentials = dict(client._headers)["Authorization"]
        sent.append(body.get("spec"))
        return {"status": {"userInfo": {"username": "ann"}, "allowed": credentials == "Bearer a"}}

    monkeypatch.setattr(KubeconfigClient, "request", request)
    asked = AccessRequest(verb="create", resource="pods", subresource="exec", namespace="shop", name="web")
    first, second = (users.user(Credentials(f"Bearer {token}")) for token in "ab")
    assert [bool(each.refusal(asked)) for each in (first, second, first)] == [False, True, False]
    assert sent[-1] == {"resourceAttributes": {
        "verb": "create", "resource": "pods", "subresource": "exec", "namespace": "shop", "name": "web",
    }}  # fmt: skip
    assert len(sent) == 4


def service(**answers: Any) -> ControlService:
    control: Any = SimpleNamespace(**{name: lambda *_, found=found: found for name, found in answers.items()})
    return ControlService(NOTHING, NOTHING, control)


def asked(path: str, method: str = "GET", **query: str) -> Request:
    return Request(method=method, target=path, parts=tuple(path.split("/")), query=tuple(query.items()))


def test_paths_of_cloudcore_are_read_only_and_of_one_node_where_that_is_asked() -> None:
    found = NodesResponseBody(
        [NodeConnection(name, 1.0, 1.0) for name in ("n1", "n2")],
        [RefusedConnection(name, "why", 1.0) for name in ("n1", "n3")],
    )
    made, noted = service(connections=found, metrics="x 1", audit=None), list[Any]()
    answer = cast("Response", made.serve(asked("cloudcore/nodes", node="n1")))
    assert (answer.body.count(b'"node":"n1"'), answer.body.count(b'"node"')) == (2, 2)
    for path in ("metrics", "cloudcore/nodes", "cloudcore/changes", "cloudcore/audit"):
        for method in ("POST", "DELETE", "PUT"):
            assert cast("Response", made.serve(asked(path, method))).status == 405
    made = ControlService(NOTHING, NOTHING, cast("Any", SimpleNamespace(writes=noted.append)))
    for query in ({"kind": "x" * 9000, "q": "y" * 9000}, {"limit": "many"}, {"since": "nan"}, {"since": "inf"}):
        try:
            made.serve(asked("cloudcore/changes", **query))
        except TypeError:  # of the answer, which is none
            continue
    assert [(len(each.kind), len("".join(each.words))) for each in noted] == [(256, 256)]


def test_who_asks_for_a_token_or_a_revocation_is_noted_whatever_the_body_says() -> None:
    sent = list[Any]()

    def ask(_module: str, operation: str, content: Any) -> Any:
        sent.append((operation, content))
        return SimpleNamespace(content_as=lambda kind: kind() if kind is str else NOTHING)

    identities = IdentityService(ask, "x" * 300)
    bodies = {"tokens": b'{"by": "eve", "seconds": 60}'}
    other = b'{"by": "eve", "kind": "node", "name": "n1"}'
    for path, method in (("tokens", "POST"), ("revocations", "POST"), ("allowances", "POST"), ("tokens/t1", "DELETE")):
        request = Request(
            method=method,
            target="",
            parts=("cloudcore", *path.split("/")),
            body=bodies.get(path, other),
            query=(("reason", "y" * 900),),
        )
        identities.serve(request)
    assert {content.by for _, content in sent} == {"x" * 253}
    assert sent[-1][1].reason == "y" * 253
    for path, method in (("identities", "POST"), ("tokens", "GET"), ("revocations", "DELETE")):
        with pytest.raises(ApiStatusError) as refused:
            identities.serve(Request(method=method, target="", parts=("cloudcore", path)))
        assert refused.value.code == 405


def test_a_session_ends_with_its_user_for_good() -> None:
    """A token that is taken again opens another one."""
    users: Any = SimpleNamespace(user=lambda _: SimpleNamespace(name="ann"))
    noted: Any = SimpleNamespace(succeeded=lambda *_: None)
    clock = StandingClock()
    entrance = UserEntrance(users, Sessions(clock), lambda user: cast("Any", user.name), noted)
    key = entrance.enter(asked("page/v1/session", "POST"), "token")
    assert entrance.api(key) is not None
    users.user, known = lambda _: None, users.user
    assert entrance.api(key) is None
    users.user = known
    assert entrance.api(key) is None
    clock.close()


def test_a_listener_that_is_started_again_watches_for_revocations_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the port that it had."""
    watching, ports = list[int](), list[int]()

    def server(*_: object, **__: object) -> Any:
        return SimpleNamespace(port=4711, start=lambda: None)

    def watch(_server: object) -> Any:
        watching.append(1)
        return watching.pop

    monkeypatch.setattr(api_listeners, "HttpServer", server)
    monkeypatch.setattr(api_listeners, "listen_tcp", lambda _address, port, _option: ports.append(port))
    listener = api_listeners.ApiListener("127.0.0.1", 0, "--secure-port", None, 1, cast("Any", watch))
    for _ in range(3):
        listener.start(NOTHING, NOTHING)
    assert (ports, watching) == ([0, 4711, 4711], [1])
