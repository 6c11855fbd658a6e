"""testmanager on the bus with a real store: requests over HTTP, and what metamanager and devicetwin get of them."""

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from beehive import Hive, Message, Threads
from beehive.http.errors import HttpStatusError
from beehive.sockets.ports import ListenError
from metamanager.module import MetaManager, MetaSettings
from modules.edge.testmanager.module import MAX_BODY, ManagerSettings, NodeTestManager, read_object
from modules.edge.testmanager.token import SHORTEST, is_allowed, read_token
from tests.support.failing import Attempt, Failing, fail_at_each_call
from tests.support.patience import PATIENCE
from tests.support.ports import free_port

POD = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "app", "image": "busybox"}]}}


class Manager:
    """A node of metamanager and testmanager; what they say to other modules is captured."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self.token_file = directory / "token"
        self.heard: list[tuple[str, Message]] = []
        self._news = threading.Condition()
        self._threads = Threads()
        self.hive = Hive(self._threads, outside=self._capture)
        self.hive.add(MetaManager, MetaSettings(str(directory / "edgecore.db")))
        self.hive.add(NodeTestManager, ManagerSettings(self.token_file, self.port))
        self.hive.start()
        self.token = self.token_file.read_text().strip()

    def _capture(self, to: str, message: Message, _mode: object) -> bool:
        with self._news:
            self.heard.append((to, message))
            self._news.notify_all()
        return True

    def hears(self, to: str) -> Message:
        """The last message to an absent module; waits for the first."""
        with self._news:
            assert self._news.wait_for(lambda: any(name == to for name, _ in self.heard), 60.0)
            return [message for name, message in self.heard if name == to][-1]

    def ask(self, method: str, path: str, body: Any = None, token: str | None = None) -> tuple[int, str]:
        """Status and body of an answer."""
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)) as connection:
            text = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            connection.request(
                method, path, text, {"Authorization": f"Bearer {self.token if token is None else token}"}
            )
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def close(self) -> None:
        """Stop the modules."""
        self.hive.stop()
        self._threads.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    made = Manager(tmp_path)
    yield made
    made.close()


def test_a_pod_is_made_changed_and_deleted(manager: Manager) -> None:
    """As by cloudcore: stored first, then handed to edged. A pod without a uid gets one, which stays."""
    status, text = manager.ask("POST", "/pods", POD)
    uid = json.loads(text)["metadata"]["uid"]
    assert status == 201 and uid
    made = manager.hears("edged")
    assert (made.route.source, made.route.operation, made.route.resource) == (
        "edgecontroller",
        "insert",
        "default/pod/web",
    )
    assert json.loads(manager.ask("GET", "/pods")[1])["items"][0]["metadata"]["uid"] == uid
    changed = {**POD, "metadata": {"name": "web", "labels": {"a": "b"}}}
    status, text = manager.ask("PUT", "/pods", changed)
    assert (status, json.loads(text)["metadata"]["uid"]) == (200, uid)
    assert manager.ask("DELETE", "/pods", POD)[0] == 202
    assert json.loads(manager.ask("GET", "/pods")[1])["items"] == []
    assert manager.ask("DELETE", "/pods", POD)[0] == 404


@pytest.mark.parametrize("path", ["/configmaps", "/configmap", "/secrets", "/secret"])
def test_configmaps_and_secrets(manager: Manager, path: str) -> None:
    """Under the plural and under KubeEdge's path."""
    kind = path.strip("/").removesuffix("s")
    assert manager.ask("POST", path, {"metadata": {"name": "c", "namespace": "ns"}, "data": {}})[0] == 201
    assert manager.hears("edged").route.resource == f"ns/{kind}/c"


def test_devices_go_to_devicetwin_as_a_membership(manager: Manager) -> None:
    added = {"added_devices": [{"id": "default/thermo", "name": "thermo"}]}
    assert manager.ask("POST", "/devices", added) == (202, "")
    heard = manager.hears("twin")
    assert (heard.route.source, heard.route.resource) == ("edgemgr", "membership")
    assert json.loads(heard.content_bytes()) == added


def test_an_older_state_is_refused(manager: Manager) -> None:
    """The answer tells what the store has done, not only that the request was read."""
    newer = {**POD, "metadata": {"name": "web", "uid": "u", "resourceVersion": "9"}}
    assert manager.ask("POST", "/pods", newer)[0] == 201
    status, text = manager.ask("PUT", "/pods", {**POD, "metadata": {"name": "web", "uid": "u", "resourceVersion": "8"}})
    assert status == 409 and "resourceVersion" in text


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "text"),
    [
        ("PUT", "/pods", POD, 404, "POST creates it"),
        ("PATCH", "/pods", POD, 405, "POST, PUT, DELETE"),
        ("POST", "/nodes", POD, 404, "/configmaps"),
        ("POST", "/pods", b"{", 400, "JSON"),
        ("POST", "/pods", b"[" * 100_000, 400, "JSON"),
        ("POST", "/pods", {}, 400, "metadata"),
        ("POST", "/pods", {"metadata": {"name": "../a"}}, 400, "metadata.name"),
        ("POST", "/devices", {}, 400, "added_devices"),
    ],
    ids=["put-of-none", "method", "path", "half", "deep", "no-metadata", "bad-name", "no-devices"],
)
def test_errors_have_a_remedy(manager: Manager, method: str, path: str, body: Any, status: int, text: str) -> None:
    got, said = manager.ask(method, path, body)
    assert got == status and text in said
    assert manager.heard == []


def test_a_body_that_is_too_long_is_refused_before_it_is_read(manager: Manager) -> None:
    connection = HTTPConnection("127.0.0.1", manager.port, timeout=PATIENCE)
    connection.putrequest("POST", "/pods")
    connection.putheader("Authorization", f"Bearer {manager.token}")
    connection.putheader("Content-Length", str(MAX_BODY + 1))
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == 413 and f"limit is {MAX_BODY}" in answer.read().decode()
    connection.close()


@pytest.mark.parametrize("token", ["", "wrong", "x" * 5000])
def test_without_the_token_nothing_is_done(manager: Manager, token: str) -> None:
    for method, path in (("POST", "/pods"), ("GET", "/pods"), ("POST", "/devices")):
        status, said = manager.ask(method, path, POD, token)
        assert status == 401 and "tokenFile" in said and manager.token not in said
    assert manager.heard == []


def test_the_token_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "token"
    first = read_token(file)
    assert (file.stat().st_mode & 0o777, len(first) >= 32) == (0o600, True)
    assert read_token(file) == first
    assert is_allowed(first, f"Bearer {first.decode()}")
    assert (
        not is_allowed(first, f"Basic {first.decode()}")
        and not is_allowed(first, "")
        and not is_allowed(first, "Bearer é")
    )


@pytest.mark.parametrize(
    ("content", "mode", "text"),
    [
        ("a" * 20, 0o640, "chmod 600"),
        ("a" * 20, 0o604, "chmod 600"),
        ("short", 0o600, "16 to 4096"),
        ("a" * 5000, 0o600, "16 to 4096"),
    ],
    ids=["group", "others", "short", "long"],
)
def test_a_token_that_protects_nothing_is_refused(tmp_path: Path, content: str, mode: int, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    file.chmod(mode)
    with pytest.raises(ListenError, match=text) as refused:
        read_token(file)
    assert content not in str(refused.value)


def test_a_token_is_no_link_and_no_directory(tmp_path: Path) -> None:
    """A link could lead to another user's file."""
    (tmp_path / "there").write_text("a" * 20)
    (tmp_path / "there").chmod(0o600)
    (tmp_path / "link").symlink_to("there")
    (tmp_path / "directory").mkdir(0o700)
    for name in ("link", "directory"):
        with pytest.raises(ListenError, match="tokenFile"):
            read_token(tmp_path / name)


@pytest.mark.parametrize("uid", [5, "x" * 300, "a\nb"])
def test_a_uid_is_a_text(uid: Any) -> None:
    with pytest.raises(HttpStatusError, match="uid"):
        read_object("pod", json.dumps({"metadata": {"name": "a", "uid": uid}}).encode())


def test_a_token_that_cannot_be_made_or_read_leaves_neither_half_of_it_nor_a_descriptor(tmp_path: Path) -> None:
    """A start on a full disk left an empty file, and the next ones were refused for it."""
    number = iter(range(1000))

    def make(failing: Failing) -> Attempt:
        path = tmp_path / str(next(number)) / "token"
        path.parent.mkdir()

        def run() -> None:
            with failing.kernel_calls():
                read_token(path)

        return Attempt(run, left=lambda: path.exists() and len(path.read_bytes().strip()) < SHORTEST)

    assert fail_at_each_call(make) >= 6
