"""The HTTP service of the page: who may ask, and what every answer has."""

import gzip
import hashlib
import re
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import msgspec
import pytest

import modules.page as page_package
from beehive.http.request import Request
from beehive.http.responses import Response
from beehive.http.router import Admitted
from beehive.simulation import Simulation
from modules.cli.errors import KubectlError, StatusError
from modules.cli.rest import RestClient
from modules.cloud.device_values import HistoryValue, ValueList, ValueQuery
from modules.cloud.messages import LinkSession
from modules.cloud.object_writes import WriteList, WriteQuery
from modules.insight.fleet.rows import pod_row
from modules.insight.why.facts import PodFacts
from modules.page.api import About, FleetApi, WatchedFleet
from modules.page.jobs import JobReader
from modules.page.nodes import short_node
from modules.page.picture import Links
from modules.page.pod_story import PodStories
from modules.page.service import HEADERS, POLICY, OwnerEntrance, PageService
from modules.page.sessions import Sessions
from modules.page.shells import KEY_PROTOCOL, ClosedDoor, Shells
from tests.beehive.http.requests import parse
from tests.support.clocks import StandingClock
from tests.support.failing import Failing

HOST = "127.0.0.1:8080"
ORIGIN = f"http://{HOST}"
OWN = {"host": HOST, "origin": ORIGIN, "x-edgecore-page": "1"}


class Nothing:
    """A source without links; its feeds do not run."""

    def links(self) -> Links:
        """See `LinkSource`."""
        return Links()

    def sessions(self, since: float) -> list[Any]:
        """See `LinkSource`."""
        return []

    def history(self, node: str) -> list[Any]:
        """See `Journals`."""
        return [LinkSession(node, "c1", "", 10.0, 20.0), LinkSession(node, "c2", "", 30.0)]

    def device_values(self, query: ValueQuery) -> ValueList:
        """See `Journals`."""
        if query != ValueQuery("default", "hall", "t"):
            return ValueList([], "", 2000)
        return ValueList([HistoryValue(15.0, "t", "20"), HistoryValue(35.0, "t", "21")], "n1", 2000)

    def writes(self, query: WriteQuery) -> WriteList:
        """See `Journals`."""
        return WriteList([], is_kept=False)


class Page:
    """The service with a picture that a test fills."""

    def __init__(self, tmp_path: Path) -> None:
        clock = Simulation(1).clock
        client = RestClient(tmp_path / "no.sock")
        self.sessions = Sessions(clock)
        fleet = WatchedFleet(client, Nothing(), clock, "cloudcore", "")
        fleet.feeds.stop()
        self.picture = fleet.picture
        api = FleetApi(
            fleet,
            PodStories("cloudcore", client),
            About("sock", "1", "cloudcore"),
            door=ClosedDoor("cloudcore page --allow exec"),
        )
        self.service = PageService(OwnerEntrance(self.sessions, api, "cloudcore page"), [HOST, "localhost:8080"], clock)

    def ask(self, path: str, method: str = "GET", body: bytes = b"", **more: str) -> Response:
        """Send a request with more headers, `_` for `-` in their names."""
        return self.send(path, {name.replace("_", "-"): value for name, value in more.items()}, method, body)

    def send(self, path: str, headers: dict[str, str], method: str = "GET", body: bytes = b"") -> Response:
        """Send a request; a header `-` is left out."""
        found = {"host": HOST} | headers
        target, _, query = path.partition("?")
        reply = self.service.serve(
            Request(
                method=method, target=path, parts=tuple(part for part in target.split("/") if part), body=body,
                query=tuple(tuple(each.split("=", 1)) for each in query.split("&") if each),  # type: ignore[misc]
                headers=tuple((name, value) for name, value in found.items() if value != "-"),
            )
        )  # fmt: skip
        assert isinstance(reply, Response)
        return reply

    def key(self) -> str:
        """Return the key of a new session."""
        body = msgspec.json.encode({"token": self.sessions.new_token()})
        answer = self.send("/page/v1/session", OWN, "POST", body)
        assert answer.status == 200, answer.body
        return str(msgspec.json.decode(answer.body)["key"])

    def get(self, path: str) -> Any:
        """Ask with a session."""
        answer = self.ask(path, authorization=f"Bearer {self.key()}")
        assert answer.status == 200, answer.body
        return msgspec.json.decode(answer.body)


@pytest.fixture
def page(tmp_path: Path) -> Page:
    """Return the service."""
    return Page(tmp_path)


HOSTS = (
    "evil.example", "evil.example:8080", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:80800", "127.0.0.1.evil.example:8080",
    "localhost", "localhost:8081", "localhost.:8080", "LOCALHOST:8080", "127.1:8080", "2130706433:8080", "[::1]:8080",
    "0.0.0.0:8080", "127.0.0.1:8080.", "127.0.0.1:8080@evil.example", "evil.example:8080, 127.0.0.1:8080", " ", "-",
)  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("path", ["/page/", "/page/files/main.js", "/page/v1/me", "/page/v1/session"])
def test_another_name_of_the_server_is_refused(page: Page, host: str, path: str) -> None:
    answer = page.ask(path, host=host, authorization="Bearer x")
    assert (answer.status, b"address that the command printed" in answer.body) == (421, True)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": f"https://{HOST}"},
        {"origin": "http://localhost:8080"},
        {"origin": "http://127.0.0.1:8081"},
        {"origin": f"{ORIGIN}/"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none", "sec-fetch-mode": "no-cors"},
    ],
)
def test_another_site_is_refused(page: Page, headers: dict[str, str]) -> None:
    key = page.key()
    for path in ("/page/", "/page/v1/me", "/page/v1/changes"):
        assert page.send(path, headers | {"authorization": f"Bearer {key}"}).status == 403


def test_another_site_may_open_a_document_and_nothing_else(page: Page) -> None:
    """As an identity provider does, and a link in a mail; also with a key, which no browser sends by itself."""
    visit = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    key = {"authorization": f"Bearer {page.key()}"}
    assert page.send("/page/pods", visit).status == 200
    for path in ("/page/v1/me", "/page/files/main.js"):
        assert page.send(path, visit | key).status == 403
    for changed in ({"sec-fetch-dest": "iframe"}, {"sec-fetch-mode": "no-cors"}):
        assert page.send("/page/pods", visit | changed).status == 403


def test_a_request_with_two_names_of_a_server_is_refused(page: Page) -> None:
    headers = (("host", HOST), ("host", "evil.example"))
    refused = page.service.admit(Request(method="GET", target="/page/", parts=("page",), headers=headers))
    assert isinstance(refused, Response)
    assert refused.status == 421


def test_a_refusal_of_the_api_server_keeps_its_status(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = Failing(0, StatusError(404, "NotFound", "pods a not found")).call(print)
    monkeypatch.setattr(FleetApi, "serve", lambda *_: refused())
    answer = page.ask("/page/v1/explain/shop/a", authorization=f"Bearer {page.key()}")
    assert (answer.status, answer.body, set(HEADERS) <= set(answer.headers)) == (404, b"pods a not found\n", True)


def test_a_shell_that_asks_whether_its_session_goes_on_does_not_use_it(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, uses = page.key(), list[bool]()
    monkeypatch.setattr(Shells, "reply", lambda _self, _request, _where, door: door)
    offered = f"v5.channel.k8s.io, {KEY_PROTOCOL}{key}"
    headers = {
        "host": HOST, "origin": ORIGIN, "upgrade": "websocket", "sec-websocket-version": "13",
        "sec-websocket-key": "k", "sec-websocket-protocol": offered,
    }  # fmt: skip
    parts = ("page", "v1", "shell", "shop", "web", "app")
    door: Any = page.service.serve(Request(method="GET", target="/", parts=parts, headers=tuple(headers.items())))

    def is_valid(_sessions: Sessions, _key: str, *, is_use: bool = True) -> bool:
        uses.append(is_use)
        return True

    monkeypatch.setattr(Sessions, "is_valid", is_valid)
    assert door(is_use=False) is door(is_use=True) is not None
    assert uses == [False, True]


def test_a_session_wants_the_page_itself_and_a_token(page: Page) -> None:
    body = msgspec.json.encode({"token": page.sessions.new_token()})
    assert page.ask("/page/v1/session", "POST", body).status == 403
    assert page.ask("/page/v1/session", "POST", body, origin=ORIGIN).status == 403
    assert page.ask("/page/v1/session", "POST", body, x_edgecore_page="1").status == 403
    for wrong in (b"", b'{"token":1}', b"[]", b"\xff", b"[" * 3000):
        assert page.send("/page/v1/session", OWN, "POST", wrong).status == 400
    assert page.send("/page/v1/session", OWN, "POST", b'{"token":"no"}').status == 401
    assert page.send("/page/v1/session", OWN).status == 405
    assert page.send("/page/v1/session", OWN, "POST", body).status == 200
    assert page.send("/page/v1/session", OWN, "POST", body).status == 401


def test_a_session_can_be_ended(page: Page) -> None:
    key = f"Bearer {page.key()}"
    assert page.ask("/page/v1/me", authorization=key).status == 200
    other = OWN | {"authorization": key, "x-edgecore-page": ""}
    assert page.send("/page/v1/session", other, "DELETE").status == 403
    assert page.send("/page/v1/session", OWN | {"authorization": key}, "DELETE").status == 200
    assert page.ask("/page/v1/me", authorization=key).status == 401


@pytest.mark.parametrize(
    "path",
    [
        "me",
        "changes",
        "journal",
        "nodes/n1",
        "pods",
        "devices",
        "devices/a/b",
        "history/a/b/c",
        "explain/a/b",
        "log/a/b/c",
        "else",
    ],
)  # fmt: skip
def test_nothing_is_reported_without_a_key(page: Page, path: str) -> None:
    page.picture.put_nodes([short_node({"metadata": {"name": "secret-node"}})])
    for given in ("-", "Bearer ", "Bearer wrong", "Basic eDp5", page.key()):
        answer = page.ask(f"/page/v1/{path}", authorization=given)
        assert answer.status == 401
        assert b"secret-node" not in answer.body


def test_nothing_can_be_changed(page: Page) -> None:
    key = f"Bearer {page.key()}"
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert page.send("/page/v1/nodes/n1", OWN | {"authorization": key}, method).status == 405
        for path in ("/page/", "/page/files/main.js"):
            assert page.ask(path, method).status == 405, path


def test_a_body_is_bounded(page: Page) -> None:
    """Strangers may sign in at a port whose other bodies have three megabytes."""
    decided = page.service.admit(parse(f"POST /page/v1/session HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()))
    assert isinstance(decided, Admitted)
    assert decided.most_body == 16 * 1024
    assert page.send("/page/v1/session", OWN, "POST", b'{"token":"no"}'.ljust(16 * 1024)).status == 401


@pytest.mark.parametrize(
    "path", ["/page/", "/page/nodes/n1", "/page/files/main.js", "/page/files/no.js", "/page/v1/me", "/else", "/"]
)
def test_every_answer_has_the_headers(page: Page, path: str) -> None:
    answer = page.ask(path)
    assert set(HEADERS) <= set(answer.headers)


def test_the_policy_allows_code_and_style_of_this_server_only() -> None:
    assert "unsafe" not in POLICY
    assert "nonce" not in POLICY
    assert "require-trusted-types-for 'script'" in POLICY


def test_files_are_served_with_tags_and_nothing_beside_them(page: Page) -> None:
    answer = page.ask("/page/files/main.js")
    tag = dict(answer.headers)["ETag"]
    assert (answer.status, answer.content_type) == (200, "text/javascript; charset=utf-8")
    assert page.ask("/page/files/main.js", if_none_match=tag).status == 304
    for name in ("page.html", "service.py", "..%2fservice.py", "main.js.map"):
        assert page.ask(f"/page/files/{name}").status == 404


def test_a_node_and_pods_as_the_page_asks_for_them(page: Page) -> None:
    labels = {"topology.kubernetes.io/zone": "kiel"}
    page.picture.put_nodes(
        [
            short_node(each)
            for each in [{"metadata": {"name": "n1", "labels": labels}, "status": {"nodeInfo": {"osImage": "Debian"}}}]
        ]
    )
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "web:1"}]}
    metadata = {"namespace": "shop", "name": "web"}
    page.picture.put_pods([pod_row({"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})])
    story = page.get("/page/v1/nodes/n1")
    assert (story["row"]["zone"], story["row"]["state"], story["facts"]["osImage"]) == ("kiel", "never", "Debian")
    assert story["sentence"] == "n1 has never been connected."
    assert [each["name"] for each in story["pods"]] == ["web"]
    pods = page.get("/page/v1/pods")
    assert [(each["owner"], each["status"]) for each in pods["groups"]] == [("", "Pending")]
    assert [each["name"] for each in page.get("/page/v1/pods?q=WEB")["found"]] == ["web"]
    assert page.get("/page/v1/pods?q=else")["found"] == []
    answer = page.ask("/page/v1/nodes/n2", authorization=f"Bearer {page.key()}")
    assert (answer.status, b"there is no node n2" in answer.body) == (404, True)


def test_what_a_pod_says_is_bounded_and_the_newest_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its node, and so a pod, may say megabytes."""
    asked = list[Any]()

    def get(_path: str, query: Any) -> dict[str, Any]:
        asked.append(dict(query)["limit"])
        return {}

    client: Any = SimpleNamespace(raw=lambda *_: b"x" * 300_000 + b"\xff", get=get)
    stories = PodStories("cloudcore", client)
    log = stories.log("shop", "web", "app")
    assert (len(log), log[-5:]) == (256 * 1024 + 3, "x\\xff")
    assert (stories.events_of_node("n1"), asked) == ([], ["500"]), "the newest are not the first of a list"
    waiting = {"name": "app", "state": {"waiting": {"reason": "Error", "message": "y" * 9000}}}
    pod = {"spec": {"containers": [{"name": "app"}]}, "status": {"containerStatuses": [waiting]}}
    events = [{"message": str(number)} for number in range(150)]
    monkeypatch.setattr(
        "modules.kubectl.why.pod_facts", lambda *_: PodFacts(pod=pod, now=0.0, program="x", events=events)
    )
    story = stories.story("shop", "web", 0.0, lambda _: None)
    assert (len(story.containers[0].message), len(story.events), story.events[-1].message) == (500, 100, "149")


def test_jobs_are_read_the_more_rarely_the_longer_that_takes() -> None:
    clock, asked = StandingClock(), list[str]()

    def get(path: str, _query: Any) -> dict[str, Any]:
        asked.append(path)
        clock.go(10.0)
        return {"items": []}

    reader = JobReader(cast("Any", SimpleNamespace(get=get)), clock)
    for seconds, number in ((0.0, 3), (599.0, 3), (2.0, 6)):
        clock.go(seconds)
        assert reader.rows(()) == []
        assert len(asked) == number
    clock.close()


def test_jobs_that_could_not_be_read_are_read_again() -> None:
    """An empty list was the truth for two seconds after each error."""
    get = Mock(side_effect=KubectlError("not now"))
    reader = JobReader(cast("Any", SimpleNamespace(get=get)), StandingClock())
    for number in (1, 2):
        with pytest.raises(KubectlError):
            reader.rows(())
        assert get.call_count == number
    get.side_effect = lambda *_: {"items": []}
    assert reader.rows(()) == []


class Events:
    """An API server with Events about a node, which perhaps does not list them."""

    def __init__(self, *found: dict[str, Any], refusal: StatusError | None = None) -> None:
        self._found = list(found)
        self._refusal = refusal
        self.asked: list[Any] = []

    def get(self, path: str, query: Any = ()) -> dict[str, Any]:
        """Return the list."""
        self.asked.append((path, dict(query)["fieldSelector"]))
        if self._refusal is not None:
            raise self._refusal
        return {"items": self._found}


def test_a_node_has_its_events_the_newest_last() -> None:
    """So a broker that has died there is known here."""
    died = {"type": "Warning", "reason": "MQTTBrokerNotReady", "message": "it ends", "source": {"host": "n1"}}
    api = Events(
        {**died, "lastTimestamp": "2026-11-20T02:00:00Z"}, {"reason": "Ready", "lastTimestamp": "2026-11-20T01:00:00Z"}
    )
    found = PodStories("cloudcore", cast("RestClient", api)).events_of_node("n1")
    assert api.asked == [("/api/v1/events", "involvedObject.kind=Node,involvedObject.name=n1")]
    assert found is not None
    assert [each.reason for each in found] == ["Ready", "MQTTBrokerNotReady"]
    assert (found[-1].who, found[-1].message, found[-1].type) == ("n1", "it ends", "Warning")
    frozen = [{**died, "reason": str(number), "lastTimestamp": "2026-11-20T02:00:00Z",
               "metadata": {"resourceVersion": str(number)}} for number in range(200, 5, -1)]  # fmt: skip
    found = PodStories("cloudcore", cast("RestClient", Events(*frozen))).events_of_node("n1")
    assert found is not None
    assert [each.reason for each in found][-1] == "200", "of one second"
    refusing = Events(refusal=StatusError(403, "Forbidden", "no"))
    assert PodStories("cloudcore", cast("RestClient", refusing)).events_of_node("n1") is None


def test_the_workloads_are_counted_also_while_the_jobs_of_nodes_cannot_be_read(page: Page) -> None:
    found = page.get("/page/v1/rollouts")
    why = found.pop("forbidden").pop("jobs")
    assert "the jobs of nodes: cannot reach the server" in why
    workloads = {"sentence": "There are no workloads: no pod has a controller.", "rows": [], "more": 0}
    assert found == {"workloads": workloads, "jobs": None, "now": 1_800_000_000.0}
    for path in ("rollouts/Pod/x", "rollouts/NodeUpgradeJob/..", "rollouts/NodeUpgradeJob/x/y"):
        assert page.ask(f"/page/v1/{path}", authorization=f"Bearer {page.key()}").status == 404, path


def test_a_history_has_the_gaps_of_its_nodes_link(page: Page) -> None:
    found = page.get("/page/v1/history/default/hall/t")
    assert (found["values"], found["gaps"]) == ([[15.0, "20"], [35.0, "21"]], [[20.0, 30.0]])


def test_without_a_cloudcore_the_error_has_the_reason(page: Page) -> None:
    answer = page.ask("/page/v1/explain/a/b", authorization=f"Bearer {page.key()}")
    assert (answer.status, b"cannot reach the server" in answer.body) == (502, True)


FILES = Path(page_package.__file__).parent / "files"
VENDOR = FILES.parent / "vendor"
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|srcdoc|document\.write|eval\(|new Function|setTimeout\(['\"]"
    r"|https?://(?!www\.w3\.org)"
)


def test_the_files_make_no_markup_from_texts_and_ask_no_other_server() -> None:
    for path in FILES.iterdir():
        assert not FORBIDDEN.search(path.read_text()), path.name


OF_SHELL = ("shell.html", "shell.js", "terminal.js")


def test_the_files_are_small() -> None:
    """The bounds are 60 kB for the first page and 150 kB for all, with a library of another project."""
    sizes = {path.name: len(gzip.compress(path.read_bytes())) for path in FILES.iterdir()}
    vendored = sum(len(gzip.compress(path.read_bytes())) for path in VENDOR.glob("*/*.*js"))
    vendored += sum(len(gzip.compress(path.read_bytes())) for path in VENDOR.glob("*/*.css"))
    assert sum(size for name, size in sizes.items() if name not in OF_SHELL) < 40_000
    assert 85_000 < vendored < 95_000
    assert sum(sizes.values()) + vendored < 150_000


def test_the_vendored_files_agree_with_the_package() -> None:
    for record in VENDOR.glob("*/vendor.toml"):
        known = tomllib.loads(record.read_text())
        assert record.parent.name == f"{known['package'].partition('/')[2]}-{known['version']}"
        there = {each.name for each in record.parent.iterdir() if each != record}
        assert there == set(known["files"]) >= {"LICENSE"}
        for name, each in known["files"].items():
            assert hashlib.sha256((record.parent / name).read_bytes()).hexdigest() == each["sha256"], name


def test_the_shells_document_alone_allows_style_elements_with_its_nonce(page: Page) -> None:
    policies = []
    for _ in range(2):
        answer = page.ask("/page/shell/default/web/app")
        (policy,) = (value for name, value in answer.headers if name == "Content-Security-Policy")
        (nonce,) = re.findall(r"'nonce-([-\w]{22})'", policy)
        assert policy == POLICY.replace("style-src 'self'", f"style-src 'self' 'nonce-{nonce}'")
        assert f'nonce="{nonce}"'.encode() in answer.body
        assert set(HEADERS[1:]) <= set(answer.headers)
        policies.append(policy)
    assert policies[0] != policies[1]
    assert page.ask("/page/files/shell.html").status == 404
    assert page.ask("/page/shell/a/b/c", sec_fetch_site="cross-site").status == 403
