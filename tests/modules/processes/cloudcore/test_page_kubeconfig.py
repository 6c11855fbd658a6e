"""`cloudcore page --kubeconfig`: the page of an API server, with the rights of a kubeconfig's user."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from beehive.clock import RealClock
from beehive.http.errors import HttpStatusError
from beehive.http.request import request_from
from beehive.http.server import RequestHead
from modules.cli.errors import StatusError, UnreachableError
from modules.page.api import FleetApi
from modules.page.server import PageServer
from modules.processes.cloudcore.cli import main
from modules.processes.cloudcore.page_command import cluster_api, cluster_of
from tests.end_to_end.processes import wait_until
from tests.modules.processes.cloudcore.test_page_port import ALICE, BOB, DEVICES, NODES, PODS, granted
from tests.modules.processes.cloudcore.test_page_port import secure as secure  # noqa: PLC0414 - a fixture
from tests.modules.processes.cloudcore.test_secure_port import Secure
from tests.support.browser import browser, why_none
from tests.support.control_client import Apply
from tests.support.kubeconfigs import TOKEN, write_kubeconfig


@contextlib.contextmanager
def page_of(path: Path, token: str) -> Iterator[FleetApi]:
    """Yield the answers of a page at a kubeconfig's server, as a token's user, as the command makes them."""
    path.write_text(path.read_text().replace(TOKEN, token))
    clock = RealClock()
    selected, transport = cluster_of(path, "", clock)
    try:
        with contextlib.closing(cluster_api(selected, transport, clock)) as api:
            yield api
    finally:
        transport.close()
        clock.close()


@pytest.fixture
def kubeconfig(secure: Secure) -> Path:
    """Write a kubeconfig for the secure port."""
    return write_kubeconfig(secure.directory / "config", secure.port, secure.files.authority)


def asked(api: FleetApi, path: str) -> dict[str, Any]:
    """Return the answer to a question of the page."""
    request = request_from(RequestHead("GET", f"/page/v1/{path}", (), "1.1"), b"")
    found: dict[str, Any] = msgspec.json.decode(api.serve(request, request.parts[2:]).body)
    return found


def test_an_administrator_of_an_embedded_api_server_sees_what_cloudcore_shows(secure: Secure, kubeconfig: Path) -> None:
    with page_of(kubeconfig, ALICE) as api:
        assert asked(api, "me")["server"] == secure.url
        node = asked(api, "nodes/n1")
        assert (node["row"]["state"], node["row"]["pods"], node.get("forbidden")) == ("never", 2, None)
        assert "web" in str(asked(api, "journal")["rows"])


def test_of_links_that_are_not_known_nothing_is_reported(secure: Secure, kubeconfig: Path) -> None:
    secure.stub.client.run(Apply(granted("bob", "ClusterRole", [NODES, PODS, DEVICES])))
    with page_of(kubeconfig, BOB) as api:
        node = asked(api, "nodes/n1")
        assert (node["row"]["state"], node["row"]["reason"]) == ("behind", "it has never said whether it is Ready")
        for answer in (node, asked(api, "changes")):
            assert answer["forbidden"]["links"].endswith("Ready, as the API server has it")
        for question in "journal", "history/default/hall/t":
            with pytest.raises(HttpStatusError, match="is cloudcore's, which this page does not ask"):
                asked(api, question)
        assert asked(api, "explain/default/web")["row"]["name"] == "web"
        assert "hall" in str(asked(api, "devices"))
        secure.stub.client.run(Apply([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"}}]))
        wait_until(lambda: "n2" in str(asked(api, "changes")["set"]), "the page has the new node")


@pytest.mark.skipif(bool(why_none()), reason=why_none() or "-")
def test_the_page_of_a_node_shows_no_facts_of_a_link_that_is_not_known(secure: Secure, kubeconfig: Path) -> None:
    secure.stub.client.run(Apply(granted("bob", "ClusterRole", [NODES, PODS, DEVICES])))
    clock = RealClock()
    with page_of(kubeconfig, BOB) as api, browser() as window:
        server = PageServer(api, clock, "cloudcore")
        try:
            window.open(server.address())
            window.wait("document.querySelector('.row a.name')")
            window.click(".row a.name")
            window.wait("document.querySelector('.cmd code')?.textContent === 'kubectl describe node n1'")
            shown = window.run("return document.querySelector('main').textContent")
            assert "Not shown: connections, waiting messages and certificates" in shown
            assert [each for each in ("waits for it", "no TLS", "link journal") if each in shown] == []
        finally:
            server.stop()
            clock.close()


def test_who_may_not_list_nodes_gets_no_page(kubeconfig: Path) -> None:
    with pytest.raises(StatusError, match='User "bob" cannot list resource "nodes"'), page_of(kubeconfig, BOB):
        pass


def test_a_server_that_cannot_be_asked_is_named(tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "config", 1, tmp_path / "none.crt")
    with pytest.raises(UnreachableError, match="cannot set up TLS to the API server"), page_of(kubeconfig, ALICE):
        pass


@pytest.mark.parametrize(
    ("options", "status", "why"),
    [(["--allow", "exec"], 2, "use `kubectl exec -it`"), ([], 1, "cannot use the kubeconfig")],
)
def test_mistakes_are_named(
    options: list[str], status: int, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "missing")
    assert main(["page", "--root", str(tmp_path), "--kubeconfig", path, *options]) == status
    assert why in capsys.readouterr().err
