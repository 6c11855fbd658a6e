"""Callers at a cloudcore that does not have the node: real TLS between two cloudcores with one authority."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from beehive.http.forwarding import ForwardedRequest, ForwardedResponse
from beehive.message import Message
from modules.cloud.cloudhub.certificates.authority import Authority, pem_of_key
from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles, load_authority
from modules.cloud.coordination.lease_settings import LeaseSettings
from modules.cloud.router import status_writer
from modules.processes.cloudcore.cli import main
from modules.processes.cloudcore.config import RouterConfig, TlsConfig
from modules.processes.cloudcore.router_parts import advertised_address
from modules.processes.common.exit_codes import ExitCode
from tests.end_to_end.processes import wait_until
from tests.modules.cloud.cloudhub.certificates.made import OPENSSL_LAG, csr, new_key
from tests.modules.cloud.objects import node
from tests.modules.cloud.router.rules import to_service
from tests.modules.processes.cloudcore.routes import Called, RuleAuthors, call
from tests.modules.processes.cloudcore.stubs import CLOCK, Edge, Stub

TOKEN = {"Authorization": "Bearer admins-token"}


class Two:
    """Two cloudcores on one database, with one authority and perhaps more options; the second one has the node n1."""

    def __init__(self, directory: Path, stack: ExitStack, **more: object) -> None:
        tokens = directory / "tokens.csv"
        tokens.write_text('admins-token,alice,1,"system:masters"\n')
        tokens.chmod(0o600)
        self.directory = directory
        self.tls = directory / "tls"
        options = {
            "tls": TlsConfig(directory=self.tls, https_port=0),
            "token_auth_file": tokens,
            "database": str(directory / "shared.db"),
            "lease": LeaseSettings(period=0.2),
            "router": RouterConfig(port=0),
            **more,
        }
        self.first, self.second = (self._start(stack, name, options) for name in "ab")
        self.context = ssl.create_default_context(cafile=str(self.tls / "ca.crt"))
        self.node = self.of_node("n1")
        """The node's TLS."""
        self.edge: Edge = stack.enter_context(self.second.edge("n1", self.node))
        self.edge.ask("null/node/n1", "insert", node())

    def _start(self, stack: ExitStack, name: str, options: dict[str, object]) -> Stub:
        where = self.directory / name
        where.mkdir()
        return stack.enter_context(Stub(where, **options))

    @property
    def authority(self) -> Authority:
        """The authority of both."""
        return load_authority(AuthorityFiles(self.tls), CLOCK.now())

    def client(self, certificate: bytes, key: bytes, name: str) -> ssl.SSLContext:
        """The TLS of a client with a certificate."""
        path = self.directory / f"{name}.pem"
        path.write_bytes(certificate + key)
        context = ssl.create_default_context(cafile=str(self.tls / "ca.crt"))
        context.load_cert_chain(path)
        return context

    def of_node(self, name: str) -> ssl.SSLContext:
        """The TLS of a node."""
        key = new_key()
        der = self.authority.sign_node(csr(name, key), name, CLOCK.now() - OPENSSL_LAG, 3600.0)
        return self.client(ssl.DER_cert_to_PEM_cert(der).encode(), pem_of_key(key), name)

    def call(self, stub: Stub, target: str, headers: dict[str, str], context: ssl.SSLContext | None = None) -> Called:
        """A caller's request."""
        return call(stub.core.callers_port, target, "POST", b"in", context=context or self.context, headers=headers)


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Two]:
    monkeypatch.setattr(status_writer, "FIRST", 0.05)
    with ExitStack() as stack:
        made = Two(tmp_path, stack)
        authors = RuleAuthors(made.second.client)
        authors.wait()
        authors.apply_endpoints()
        authors.apply(to_service())
        yield made


def serve(edge: Edge, seen: list[ForwardedRequest]) -> None:
    """Answer one request of a caller as a node's servicebus does."""
    message = edge.receive()
    while message.route.source != "router_servicebus":
        message = edge.receive()
    seen.append(message.content_as(ForwardedRequest))
    content = ForwardedResponse({"X-Of": ["n1"]}, 201, b"made")
    fields = {"source": "servicebus", "group": "user", "parent_id": message.id}
    edge.send(Message.new(CLOCK, resource="", operation="upload", content=content, **fields))


def test_a_caller_reaches_a_node_at_the_other_cloudcore(two: Two) -> None:
    """With the credentials that the caller has, which stay at the cloudcore that was called; without them not at all.
    Nor is anybody with a node's certificate taken for a cloudcore.
    """
    first = two.first.client.cloudcores
    wait_until(lambda: "n1" in first().elsewhere(), "the first one knows that the second one has the node")
    assert two.call(two.first, "/n1/cap/svc", {}).status == 401
    assert two.call(two.second, "/n1/cap/svc", {"x-cloudcore-seconds": "9"}, two.of_node("n2")).status == 403
    seen = list[ForwardedRequest]()
    node_thread = threading.Thread(target=serve, args=(two.edge, seen), daemon=True)
    node_thread.start()
    found: list[Called] = []

    def answered() -> bool:
        found.append(two.call(two.first, "/n1/cap/svc/x?y=1", {**TOKEN, "X-Mine": "1"}))
        return found[-1].status not in (404, 503)

    wait_until(answered, "both cloudcores know the rule, and the call is passed on")
    node_thread.join()
    assert (found[-1].status, found[-1].body, found[-1].headers["x-of"]) == (201, b"made", "n1")
    assert (seen[0].method, seen[0].body) == ("POST", b"in")
    assert seen[0].header is not None
    assert seen[0].header["X-Mine"] == ["1"]
    assert not {"Authorization", "X-Cloudcore-Seconds"} & set(seen[0].header)


def test_the_address_is_for_cloudcores_with_certificates(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--router-advertise-address", "10.0.0.1"]) == ExitCode.USAGE
    assert "add --router-listen and --tls" in capsys.readouterr().err


def test_others_reach_the_address_that_is_listened_on_or_the_given_one() -> None:
    assert advertised_address(RouterConfig(address="10.0.0.7")) == "10.0.0.7"
    assert advertised_address(RouterConfig(address="0.0.0.0", advertise_address="r.example")) == "r.example"  # noqa: S104
