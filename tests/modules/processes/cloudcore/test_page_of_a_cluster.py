"""The page on a port of cloudcore in front of a cluster: its users sign in with the cluster's tokens, over real TLS."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modules.cloud.authorization.rbac.rules import AccessRequest
from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles
from modules.page.service import HEADERS
from modules.processes.cloudcore.cli import main
from modules.processes.cloudcore.config import TlsConfig
from modules.processes.cloudcore.in_process_client import Credentials
from modules.processes.cloudcore.page_cluster_users import ClusterUsers
from modules.processes.cloudcore.page_command import cluster_of
from tests.end_to_end.processes import wait_until
from tests.modules.processes.cloudcore.stubs import Stub
from tests.modules.processes.cloudcore.test_page_port import (
    ALICE,
    BOB,
    PODS,
    QUESTIONS,
    ROLES,
    TOKENS,
    VERA,
    Visitor,
    granted,
)
from tests.modules.processes.cloudcore.test_secure_port import Secure
from tests.support.clocks import StandingClock
from tests.support.control_client import Apply, Delete
from tests.support.kubeconfigs import TOKEN, write_kubeconfig


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Secure]:
    """Start a cluster (another cloudcore's API server) with users that have parts of the rights."""
    directory = tmp_path / "cluster"
    directory.mkdir()
    tokens = directory / "tokens.csv"
    tokens.write_text(TOKENS)
    tokens.chmod(0o600)
    tls = TlsConfig(directory=directory / "tls", https_port=0)
    with Stub(directory, tls=tls, secure_port=0, token_auth_file=tokens, controllers="none") as stub:
        made: list[dict[str, Any]] = [
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}},
            *(
                {
                    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
                    "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "web:1"}]},
                }
                for name, namespace in (("web", "default"), ("covert", "kube-system"))
            ),
            *(each for user, (kind, rules) in ROLES.items() for each in granted(user, kind, rules)),
        ]  # fmt: skip
        for item in stub.client.run(Apply(made)):
            assert not item.error, item.error
        yield Secure(stub, directory)


@pytest.fixture
def kubeconfig(cluster: Secure, tmp_path: Path) -> Path:
    """Write the kubeconfig of an administrator of the cluster."""
    return write_kubeconfig(tmp_path / "config", cluster.port, cluster.files.authority)


@pytest.fixture
def page(kubeconfig: Path, tmp_path: Path) -> Iterator[Secure]:
    """Start a cloudcore in front of the cluster, with the page on its secure port."""
    directory = tmp_path / "core"
    directory.mkdir()
    tls = TlsConfig(directory=directory / "tls", https_port=0)
    database = str(directory / "core.db")
    options = {"kubeconfig": kubeconfig, "database": database, "tls": tls, "secure_port": 0, "name": "plant-kiel"}
    with Stub(directory, page=True, **options) as stub:
        yield Secure(stub, directory)


def test_each_user_sees_the_objects_that_the_cluster_lets_them_see(cluster: Secure, page: Secure) -> None:
    """cloudcore's own token, which may everything, answers for nobody."""
    visitor = Visitor(page)
    files = visitor.ask("/page/")
    assert (files.status, "n1" in files.body) == (200, False)
    assert set(HEADERS) <= set(files.headers.items())
    assert [visitor.ask(path).status for path in ("/api/v1/nodes", "/cloudcore/nodes", "/")] == [404, 404, 404]
    for path in QUESTIONS:
        assert visitor.ask(f"/page/v1/{path}", authorization=f"Bearer {ALICE}").status == 401
    for wrong in ("", "wrong", "a\r\nX: y", "x" * 9000, f"{ALICE} "):
        assert visitor.enter(wrong).status == 401, wrong[:20]
    bob, vera, nora, alice = (visitor.key(token) for token in (BOB, VERA, "nora-token", ALICE))

    wait_until(lambda: "n1" in visitor.ask("/page/v1/changes", authorization=vera).body, "the fleet is read")
    for path in ("changes", "nodes/n1", "pods", "rollouts", "devices", "journal", "explain/default/web"):
        refused = visitor.ask(f"/page/v1/{path}", authorization=bob)
        assert (refused.status, 'User "bob" cannot' in refused.body) == (403, True), path
    about = json.loads(visitor.ask("/page/v1/me", authorization=vera).body)
    assert (about["user"], about["server"], about["allowed"]) == ("vera", "plant-kiel", [])
    assert '"name":"web"' in visitor.ask("/page/v1/explain/default/web", authorization=vera).body
    of_nora = visitor.ask("/page/v1/nodes/n1", authorization=nora)
    assert of_nora.status == 200
    assert [name for name in ("web", "covert") if f'"name":"{name}"' in of_nora.body] == []
    assert "covert" in visitor.ask("/page/v1/nodes/n1", authorization=alice).body
    refused = visitor.ask("/page/v1/shell/default/web/main", authorization=alice, origin=f"https://{visitor.host}")
    assert refused.status != 101


def test_who_may_list_pods_in_a_namespace_sees_those(cluster: Secure, page: Secure) -> None:
    visitor = Visitor(page)
    dora = visitor.key("dora-token")
    wait_until(lambda: visitor.ask("/page/v1/pods", authorization=dora).status == 200, "the pods are read")
    found = visitor.ask("/page/v1/pods?q=n1", authorization=dora).body
    assert '"name":"web"' in found
    assert "covert" not in found
    assert "shown are those in default" in found


def test_an_answer_of_the_cluster_counts_for_half_a_minute(cluster: Secure, kubeconfig: Path) -> None:
    clock = StandingClock()
    selected, own = cluster_of(kubeconfig, "", clock)
    users = ClusterUsers(selected, clock)
    asked = AccessRequest(verb="list", resource="pods")
    path = AccessRequest(verb="get", path="/cloudcore/changes")
    try:
        assert TOKEN == ALICE
        assert users.user(Credentials(certificate={"subject": ()})) is None
        bob, alice = (users.user(Credentials(f"Bearer {token}")) for token in (BOB, ALICE))
        assert bob is not None
        assert alice is not None
        assert (bob.name, alice.refusal(asked), alice.refusal(path)) == ("bob", "", "")
        why = 'pods is forbidden: User "bob" cannot list resource "pods" in API group "" at the cluster scope'
        assert bob.refusal(asked) == why
        assert bob.refusal(path) == 'forbidden: User "bob" cannot get path "/cloudcore/changes"'
        cluster.stub.client.run(Apply(granted("bob", "ClusterRole", [PODS])))
        clock.go(29.0)
        assert bob.refusal(asked) == why
        clock.go(2.0)
        assert bob.refusal(asked) == ""
        cluster.stub.client.run(Delete("ClusterRoleBinding", "bob"))
        clock.go(31.0)
        assert bob.refusal(asked) == why
    finally:
        users.close()
        own.close()
        clock.close()


def test_a_cluster_that_does_not_answer_lets_nobody_in(cluster: Secure, page: Secure) -> None:
    visitor = Visitor(page)
    cluster.stub.core.stop()
    answer = visitor.enter(ALICE)
    assert answer.status == 502
    assert ALICE not in answer.body


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--page"], "--page is served on the secure port: add --tls and --secure-port 6443"),
        (["--tls", "--secure-port", "0"], "--secure-port is for the embedded API server"),
        (["--page", "--tls", "--secure-port", "0", "--page-allow", "exec"], "`kubectl exec -it` opens shells"),
    ],
)
def test_mistakes_are_named(options: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--kubeconfig", "file", *options, "--root", str(tmp_path)]) == 2
    assert why in capsys.readouterr().err


def test_the_files_of_the_authority_are_cloudcores(page: Secure) -> None:
    """And a browser is asked for no certificate."""
    assert AuthorityFiles(page.directory / "tls").authority.exists()
    assert msgspec.json.decode(Visitor(page).enter(ALICE).body)["key"]
