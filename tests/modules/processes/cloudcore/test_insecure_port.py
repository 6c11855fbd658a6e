"""The Kubernetes API over plain HTTP on the loopback interface: real sockets, and the real kubectl."""

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from modules.cloud.apiserver.access.loopback_service import is_local
from modules.processes.cloudcore.cli import main
from tests.modules.cloud.objects import POD_MANIFEST
from tests.modules.processes.cloudcore.stubs import Stub
from tests.support.patience import PATIENCE


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """The port of a cloudcore."""
    with Stub(tmp_path, insecure_port=0) as stub:
        yield stub.core.api_port


def ask(port: int, method: str, path: str, body: str = "", **headers: str) -> int:
    """The status of a request."""
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request(method, path, body=body, headers=headers)
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.parametrize("name", ["a\0b", "r" * 254], ids=["NUL", "long"])
def test_an_object_that_no_path_leads_to_is_not_made(port: int, name: str) -> None:
    """On a PostgreSQL it ended each transaction, and the API server restarted for minutes."""
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    body = json.dumps({"metadata": {"name": name}, "rules": []})
    assert ask(port, "POST", path, body, **{"Content-Type": "application/json"}) == 422
    assert ask(port, "GET", path) == 200


def test_every_user_of_the_machine_is_an_administrator(port: int) -> None:
    """Pods are listed without credentials, under each name of the loopback interface."""
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}", "localhost"):
        assert ask(port, "GET", "/api/v1/pods", Host=host) == 200


def test_nobody_is_another_user(port: int) -> None:
    """`kubectl auth can-i … --as carol` would be told what an administrator may do."""
    assert ask(port, "GET", "/api/v1/pods", **{"Impersonate-User": "carol"}) == 403


@pytest.mark.parametrize(
    "headers",
    [{"Host": "attacker.example:8080"}, {"Host": "localhost.attacker.example"}, {"Host": "127.0.0.1:x"},
     {"Host": "localhost", "Origin": "http://attacker.example"}, {"Host": "localhost", "Origin": "null"},
     {"Host": "localhost", "Sec-Fetch-Site": "cross-site"}],
)  # fmt: skip
def test_web_pages_get_nothing(port: int, headers: dict[str, str]) -> None:
    """A name that an attacker lets resolve to 127.0.0.1, or a request across origins, is refused."""
    assert ask(port, "GET", "/api/v1/pods", **headers) == 403
    assert ask(port, "DELETE", "/api/v1/nodes/n1", **headers) == 403


@pytest.mark.parametrize(
    "of_browser", [{"User-Agent": "Mozilla/5.0"}, {"Accept-Language": "en"}, {"Sec-Fetch-Mode": "websocket"}, {}]
)
def test_a_library_may_name_an_origin_of_its_own(port: int, of_browser: dict[str, str]) -> None:
    """Kubernetes' client for Python names the server's when it opens a WebSocket, Go's names localhost; a page that had
    one of these would come with what browsers send.
    """
    for origin in (f"http://127.0.0.1:{port}", "http://localhost"):
        assert ask(port, "GET", "/api/v1/pods", Origin=origin, **of_browser) == (403 if of_browser else 200)


def test_a_form_of_a_web_page_creates_nothing(port: int) -> None:
    """The content types that a page may send without being asked are no objects."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert ask(port, "POST", "/api/v1/namespaces/default/pods", POD_MANIFEST, **{"Content-Type": kind}) == 415


def test_a_body_that_is_too_long_is_refused_with_a_status(port: int) -> None:
    """In kube-apiserver's words, and without reading it."""
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.putrequest("POST", "/api/v1/namespaces/default/configmaps")
    connection.putheader("Content-Length", str(4 << 20))
    connection.endheaders()
    response = connection.getresponse()
    status = json.load(response)
    connection.close()
    assert (response.status, response.headers["Content-Type"]) == (413, "application/json")
    assert (status["kind"], status["reason"], status["code"]) == ("Status", "RequestEntityTooLarge", 413)
    assert status["message"] == "Request entity too large: limit is 3145728"


@pytest.mark.parametrize(
    ("host", "local"),
    [("localhost", True), ("localhost:80", True), ("127.0.0.1", True), ("[::1]:8080", True), ("", False),
     (":80", False), ("localhost:", False), ("localhost:80:80", False), ("::1", False), ("127.0.0.1.example:80", False),
    ],
)  # fmt: skip
def test_the_names_of_the_loopback_interface(host: str, local: bool) -> None:
    """A name counts with a port or without one, and only whole."""
    assert is_local(host) is local


def test_a_cluster_has_its_own_port(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--insecure-port` of a cloudcore without an API server of its own is a usage error."""
    assert main(["run", "--root", str(tmp_path), "--insecure-port", "0", "--in-cluster"]) == 2
    assert "--insecure-port is for the embedded API server" in capsys.readouterr().err
