"""The transport against cloudcore's own Kubernetes API over HTTPS."""

import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modules.cloud.client.http import network_stream
from modules.cloud.client.kubeconfig.model import UserEntry
from modules.cloud.client.transport import ApiRequest
from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles
from modules.cloud.tls_stream import TlsStream
from modules.processes.cloudcore.config import TlsConfig
from tests.modules.cloud.client.servers import Client, Heard, client
from tests.modules.processes.cloudcore.stubs import Stub

PODS = "/api/v1/namespaces/default/pods"
JSON = (("Content-Type", "application/json"),)


@pytest.fixture
def core(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The URL of a cloudcore and the file of its authority."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('admins-token,alice,1,"system:masters"\nplain-token,bob,2\n')
    tokens.chmod(0o600)
    tls = TlsConfig(directory=tmp_path / "tls", https_port=0)
    with Stub(tmp_path, tls=tls, secure_port=0, token_auth_file=tokens) as stub:
        yield f"https://127.0.0.1:{stub.core.api_port}", AuthorityFiles(tmp_path / "tls").authority


def pod(name: str) -> bytes:
    """A manifest."""
    spec = {"containers": [{"name": "main", "image": "busybox:1.35"}]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}).encode()


def test_requests_share_a_connection(core: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads, writes and refusals, one after the other, need one TLS handshake in all; with a watch two."""
    handshakes: list[str] = []

    class Counted(TlsStream):
        def __init__(self, context: ssl.SSLContext, name: str) -> None:
            super().__init__(context, name)
            handshakes.append(name)

    monkeypatch.setattr(network_stream, "TlsStream", Counted)
    url, authority = core
    token = tmp_path / "token"
    token.write_text("admins-token\n")
    with client(url, UserEntry(token_file=str(token)), certificate_authority=str(authority)) as api:
        for name in ("a", "b"):
            assert api.ask(PODS, "POST", body=pod(name), headers=JSON)[0] == 201
            assert api.ask(PODS, "POST", body=pod(name), headers=JSON)[0] == 409
            version = _list(api)["metadata"]["resourceVersion"]
        assert len(handshakes) == 1
        watch = Lines()
        path = f"{PODS}?watch=1&resourceVersion={version}"
        exchange = api.transport.start(ApiRequest(method="GET", path=path, stream=True, silence=600.0), watch)
        assert watch.next().status == 200
        assert api.ask(f"{PODS}/a")[0] == 200
        exchange.cancel()
    assert len(handshakes) == 2, "a stream takes the idle connection, so that the next request opens another"


def test_pods_are_created_watched_and_deleted(core: tuple[str, Path], tmp_path: Path) -> None:
    """With a token of a file: writes, a list, and a watch that tells each change."""
    url, authority = core
    token = tmp_path / "token"
    token.write_text("admins-token\n")
    with client(url, UserEntry(token_file=str(token)), certificate_authority=str(authority)) as api:
        version = _list(api)["metadata"]["resourceVersion"]
        watch = Lines()
        path = f"{PODS}?watch=1&resourceVersion={version}"
        exchange = api.transport.start(ApiRequest(method="GET", path=path, stream=True, silence=600.0), watch)
        assert watch.next().status == 200
        for name in ("a", "b"):
            assert api.ask(PODS, "POST", body=pod(name), headers=JSON)[0] == 201
        assert [(each["type"], each["object"]["metadata"]["name"]) for each in (watch.line(), watch.line())] == [
            ("ADDED", "a"), ("ADDED", "b"),
        ]  # fmt: skip
        assert api.ask(PODS, "POST", body=pod("a"), headers=JSON)[0] == 409
        assert [each["metadata"]["name"] for each in _list(api)["items"]] == ["a", "b"]
        assert api.ask(f"{PODS}/a", "DELETE")[0] == 200
        exchange.cancel()


def test_others_are_refused(core: tuple[str, Path]) -> None:
    """401 for a wrong token, 403 for a user without a role, also when an administrator impersonates that user."""
    url, authority = core
    users = {
        401: UserEntry(token="wrong"),  # noqa: S106 - of this test
        403: UserEntry(token="plain-token"),  # noqa: S106 - of this test
    }
    for status, user in users.items():
        with client(url, user, certificate_authority=str(authority)) as api:
            assert api.ask(PODS)[0] == status
    user = UserEntry(token="admins-token", as_user="bob")  # noqa: S106 - of this test
    with client(url, user, certificate_authority=str(authority)) as api:
        status, body = api.ask(PODS)
        assert (status, b'User \\"bob\\" cannot list' in body) == (403, True)


class Lines(Heard):
    """Hears a watch line by line."""

    def __init__(self) -> None:
        super().__init__()
        self._rest = b""

    def line(self) -> Any:
        """The next event of the watch."""
        while b"\n" not in self._rest:
            self._rest += self.next()
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)


def _list(api: Client) -> Any:
    status, body = api.ask(PODS)
    assert status == 200
    return json.loads(body)
