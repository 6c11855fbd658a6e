"""Revocations, the keys of names, and tokens, at every port of a cloudcore."""

import base64
import http.client
import re
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles, load_authority
from modules.cloud.cloudhub.replaced_connections import MANY
from modules.cloud.identities.records import JoinToken, NodeIdentity
from modules.cloud.websocket.link import REPLACED
from modules.processes.cloudcore.cli import main
from modules.processes.cloudcore.config import CloudStreamConfig, RouterConfig, TlsConfig
from modules.processes.cloudcore.errors import ControlError
from modules.processes.common.exit_codes import ExitCode
from tests.end_to_end.processes import wait_until
from tests.modules.cloud.cloudhub.certificates.made import chain, csr, new_key
from tests.modules.cloud.objects import node
from tests.modules.processes.cloudcore.stubs import CLOCK, Edge, Stub
from tests.modules.processes.cloudcore.test_tls import Joining
from tests.support.patience import PATIENCE

_GONE = re.compile("the name n1 belongs to the key of another machine|the certificate of n1 was renewed")
"""Of a certificate that was made in the second in which another machine got the name, both may be true."""


def started(directory: Path) -> Stub:
    tls = TlsConfig(directory=directory / "tls", https_port=0)
    ports = {"router": RouterConfig(port=0), "cloud_stream": CloudStreamConfig(tunnel_port=0)}
    return Stub(directory, tls=tls, secure_port=0, database="", **ports)


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[Stub]:
    with started(tmp_path) as running:
        yield running


def bearer(stub: Stub, **options: object) -> str:
    return f"Bearer {stub.client.token(3600.0, **options).partition('.')[2]}"  # type: ignore[arg-type]


def join(stub: Stub, directory: Path, name: str = "n1", **options: object) -> ssl.SSLContext:
    joining = Joining(stub, directory)
    return joining.certificate(name, joining.context(), Authorization=bearer(stub, **options))


def refused(stub: Stub, context: ssl.SSLContext, name: str = "n1") -> str:
    """Why the websocket refuses a node."""
    with pytest.raises(InvalidStatus) as error, stub.edge(name, context):
        pass
    assert error.value.response.status_code == 403
    return (error.value.response.body or b"").decode()


def close_of(edge: Edge) -> tuple[int, str]:
    """How the cloud ends a link."""
    with pytest.raises(ConnectionClosed) as error:
        while True:
            edge.receive()
    assert error.value.rcvd is not None
    return error.value.rcvd.code, error.value.rcvd.reason


def get(port: int, path: str, context: ssl.SSLContext) -> int:
    with closing(http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=context)) as connection:
        connection.request("GET", path)
        return connection.getresponse().status


def post(port: int, path: str, body: object) -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.request("POST", path, msgspec.json.encode(body), {"Content-Type": "application/json"})
        return connection.getresponse().status


def test_a_revoked_node_is_locked_out_everywhere_until_it_is_allowed(tmp_path: Path) -> None:
    """Its link ends, with the reason; no port takes its certificate or a token for it, after a restart either."""
    with started(tmp_path) as stub:
        having = join(stub, tmp_path)
        joining = Joining(stub, tmp_path)
        assert get(stub.core.api_port, "/api/v1/nodes/n1", having) == 404
        with stub.edge("n1", having) as edge:
            assert edge.ask("null/node/n1", "insert", node()).content_as(dict)["Err"] is None
            assert stub.client.revoke("node", "n1", "stolen") == ""
            code, reason = close_of(edge)
        assert code == 1008
        assert reason.startswith("node n1 is revoked since")
    with started(tmp_path) as stub:
        assert "cloudcore allow node n1" in refused(stub, having)
        assert [each.why for each in stub.client.connections().refused] == [refused(stub, having).strip()]
        joining = Joining(stub, tmp_path)
        assert joining.get("/edge.crt", having, {"NodeName": "n1"}, csr("n1", new_key()))[0] == 401
        headers = {"NodeName": "n1", "Authorization": bearer(stub)}
        status, body = joining.get("/edge.crt", joining.context(), headers, csr("n1", new_key()))
        assert (status, b"revoked" in body) == (403, True)
        assert get(stub.core.api_port, "/api/v1/nodes/n1", having) == 401
        assert get(stub.core.callers_port, "/n1/default/x", having) == 401
        assert stub.client.allow("node", "n1") == ""
        with stub.edge("n1", having) as edge:
            assert edge.ask("null/node/n1", "query").content_as(dict)["metadata"]["name"] == "n1"
        assert get(stub.core.api_port, "/api/v1/nodes/n1", having) == 200
        assert stub.client.allow("node", "n1") == "node n1 is not revoked"


def test_a_revoked_certificate_is_refused_and_its_node_is_not(stub: Stub, tmp_path: Path) -> None:
    """The next certificate, by the last one, is accepted: names belong to keys, and serial numbers are revoked."""
    having = join(stub, tmp_path)
    with stub.edge("n1", having):
        pass
    serial = x509.load_pem_x509_certificate((tmp_path / "n1.pem").read_bytes()).serial_number
    with pytest.raises(ControlError, match="hexadecimal"):
        stub.client.revoke("certificate", f"{serial:x}g")
    rotated = Joining(stub, tmp_path).certificate("n1", having)
    with stub.edge("n1", having) as edge:
        stub.client.revoke("certificate", f"{serial:x}")
        assert "is revoked" in close_of(edge)[1]
    assert "is revoked" in refused(stub, having)
    with stub.edge("n1", rotated):
        pass


def test_the_stream_tunnel_of_a_revoked_node_ends(stub: Stub, tmp_path: Path) -> None:
    having = join(stub, tmp_path)
    headers = {"SessionHostNameOverride": "n1"}
    url = f"wss://127.0.0.1:{stub.core.tunnel_port}/v1/kubeedge/connect"
    with connect(url, ssl=having, additional_headers=headers, compression=None, open_timeout=PATIENCE) as tunnel:
        stub.client.revoke("node", "n1")
        with pytest.raises(ConnectionClosed) as error:
            tunnel.recv(timeout=PATIENCE)
    assert error.value.rcvd is not None
    assert "revoked" in error.value.rcvd.reason
    with pytest.raises(InvalidStatus), connect(url, ssl=having, additional_headers=headers):
        pass


def test_a_name_belongs_to_the_machine_that_has_it(stub: Stub, tmp_path: Path) -> None:
    """Another one with a token is refused; with an administrator's token for this it takes the first one's place."""
    first = join(stub, tmp_path)
    joining = Joining(stub, tmp_path)
    headers = {"NodeName": "n1", "Authorization": bearer(stub)}
    status, body = joining.get("/edge.crt", joining.context(), headers, csr("n1", new_key()))
    assert status == 403
    assert b"cloudcore token --node n1 --replace" in body
    with stub.edge("n1", first) as edge:
        second = join(stub, tmp_path, node="n1", replace=True)
        assert _GONE.match(close_of(edge)[1])
    assert _GONE.match(refused(stub, first))
    with stub.edge("n1", second):
        pass


def test_the_name_of_a_node_with_another_kubelet_is_taken(tmp_path: Path) -> None:
    """With it, any token would get the secrets of the pods on a cluster's own nodes. One for this name may."""
    reported = {**node("worker"), "status": {"nodeInfo": {"kubeletVersion": "v1.32.13"}}}
    tls = TlsConfig(directory=tmp_path / "tls", https_port=0)
    with Stub(tmp_path, tls=tls, insecure_port=0) as stub:
        assert post(stub.core.api_port, "/api/v1/nodes", reported) == 201
        joining = Joining(stub, tmp_path)

        def status_of(**options: object) -> int:
            headers = {"NodeName": "worker", "Authorization": bearer(stub, **options)}
            return joining.get("/edge.crt", joining.context(), headers, csr("worker", new_key()))[0]

        assert status_of() == status_of(once=True) == 403
        assert status_of(node="worker") == 200


def test_a_node_that_joined_before_keys_were_remembered_keeps_its_name(stub: Stub, tmp_path: Path) -> None:
    """The key that connects first has it; one of a certificate that was issued before then has it not."""
    authority = load_authority(AuthorityFiles(tmp_path / "tls"), CLOCK.now())
    contexts = []
    for number in range(2):
        path = tmp_path / f"{number}.pem"
        path.write_bytes(chain(authority, "n1", CLOCK.now() - 60, 3600.0))
        contexts.append(ssl.create_default_context(cadata=authority.der))
        contexts[-1].load_cert_chain(path)
    with stub.edge("n1", contexts[0]):
        wait_until(lambda: any(isinstance(each, NodeIdentity) for each in stub.client.identities()), "it is remembered")
    assert "belongs to the key" in refused(stub, contexts[1])
    with stub.edge("n1", contexts[0]):
        pass


def test_tokens_are_listed_bound_and_withdrawn(stub: Stub, tmp_path: Path) -> None:
    """The list has no secret. A withdrawn token is refused, as is one for another node."""
    bound = bearer(stub, node="n1")
    (token,) = [each for each in stub.client.identities() if isinstance(each, JoinToken)]
    assert (token.node, token.once, token.replace) == ("n1", False, False)
    joining = Joining(stub, tmp_path)

    def ask(name: str) -> tuple[int, bytes]:
        headers = {"NodeName": name, "Authorization": bound}
        return joining.get("/edge.crt", joining.context(), headers, csr(name, new_key()))

    assert b"for node n1 only" in ask("n2")[1]
    assert stub.client.withdraw_token(token.name) == ""
    assert b"withdrawn" in ask("n1")[1]
    assert stub.client.withdraw_token(token.name) == f"no token {token.name}"
    with pytest.raises(ControlError, match="name it"):
        stub.client.token(60.0, replace=True)


def test_an_administrator_s_kubeconfig_is_revoked(
    stub: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An open watch ends too; a kubeconfig made right afterwards is accepted."""
    place = ["--socket", str(stub.config.control_socket)]

    def kubeconfig(user: str) -> ssl.SSLContext:
        capsys.readouterr()
        assert main(["kubeconfig", *place, "--user", user]) == ExitCode.OK
        made = msgspec.yaml.decode(capsys.readouterr().out)["users"][0]["user"]
        path = tmp_path / f"{user}.pem"
        path.write_bytes(b"".join(base64.b64decode(made[f"client-{part}-data"]) for part in ("certificate", "key")))
        context = ssl.create_default_context(cafile=str(tmp_path / "tls" / "ca.crt"))
        context.load_cert_chain(path)
        return context

    ada, bob = kubeconfig("ada"), kubeconfig("bob")
    assert get(stub.core.api_port, "/api/v1/nodes", ada) == 200
    watch = http.client.HTTPSConnection("127.0.0.1", stub.core.api_port, timeout=PATIENCE, context=ada)
    watch.request("GET", "/api/v1/nodes?watch=true")
    stream = watch.getresponse()
    assert main(["revoke", "user", "ada", *place, "--reason", "left"]) == ExitCode.OK
    with suppress(OSError, http.client.HTTPException):
        assert stream.read() == b""
    watch.close()
    assert get(stub.core.api_port, "/api/v1/nodes", ada) == 401
    assert get(stub.core.api_port, "/api/v1/nodes", kubeconfig("ada")) == 200
    assert get(stub.core.api_port, "/api/v1/nodes", bob) == 200
    capsys.readouterr()
    assert main(["kubeconfig", "--list", *place]) == ExitCode.OK
    rows = capsys.readouterr().out.splitlines()
    assert sorted(row.split()[1] for row in rows) == ["USER", "ada", "ada", "bob"]
    (serial,) = [row.split()[0] for row in rows if row.split()[1] == "bob"]
    assert main(["revoke", "certificate", serial, *place]) == ExitCode.OK
    assert get(stub.core.api_port, "/api/v1/nodes", bob) == 401
    capsys.readouterr()
    assert main(["revoked", *place]) == ExitCode.OK
    assert [row.split()[0] for row in capsys.readouterr().out.splitlines()] == ["KIND", "certificate", "user"]


def test_a_revocation_at_one_cloudcore_holds_at_every_replica(tmp_path: Path) -> None:
    """The link to the other ends, too."""
    tls = TlsConfig(directory=tmp_path / "tls", https_port=0)
    shared = {"database": str(tmp_path / "shared.db"), "tls": tls}
    with (
        Stub(tmp_path, control_socket=tmp_path / "a", **shared) as one,
        Stub(tmp_path, control_socket=tmp_path / "b", **shared) as other,
    ):
        having = join(one, tmp_path)
        with other.edge("n1", having) as edge:
            one.client.revoke("node", "n1")
            assert "revoked" in close_of(edge)[1]
        refused(other, having)
        one.client.allow("node", "n1")
        wait_until(lambda: not any(_is_revoked(each) for each in other.client.identities()), "the other allows it")
        with other.edge("n1", having):
            pass


def _is_revoked(record: object) -> bool:
    return isinstance(record, NodeIdentity) and bool(record.revoked_at)


def test_two_machines_with_one_name_are_reported(stub: Stub, tmp_path: Path) -> None:
    """Both have the same key, as on a copied disk: the replaced one logs it, and the cloud names the node."""
    having = join(stub, tmp_path)
    with ExitStack() as stack:
        edges = [stack.enter_context(stub.edge("n1", having)) for _ in range(MANY + 1)]
        assert close_of(edges[0])[0] == REPLACED
        wait_until(lambda: "two machines" in stub.client.nodes()[0].last_error, "the cloud says so")


def test_a_token_s_labels_are_the_node_s_when_it_registers(stub: Stub, tmp_path: Path) -> None:
    """They count before its own, and it may not set them itself."""
    labels = {"node-restriction.kubernetes.io/site": "hall-3", "zone": "a"}
    with pytest.raises(ControlError):
        stub.client.token(60.0, labels={"no label!": "x"})
    having = join(stub, tmp_path, labels=labels)
    registered = node()
    registered["metadata"]["labels"] = {"zone": "b", "own": "c"}
    with stub.edge("n1", having) as edge:
        assert edge.ask("null/node/n1", "insert", registered).content_as(dict)["Err"] is None
        found = edge.ask("null/node/n1", "query").content_as(dict)["metadata"]["labels"]
    assert found.items() >= {**labels, "own": "c"}.items()


def test_the_commands_of_tokens_and_nodes(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """`cloudcore token` prints a token and nothing else; the lists, what is withdrawn, and what is no use of them."""
    place = ["--socket", str(stub.config.control_socket)]

    def say(*words: str) -> tuple[int, list[str], str]:
        status = main([*words, *place])
        said = capsys.readouterr()
        return status, said.out.splitlines(), said.err

    assert say("token", "list")[1] == ["No tokens: `cloudcore token` prints one."]
    status, (token,), _ = say("token", "create", "--node", "n1", "--replace", "--labels", "zone=a")
    assert (status, token.count(".")) == (ExitCode.OK, 3)
    _, (_, row), _ = say("token", "list")
    name, _, *rest = row.split()
    assert rest == ["n1,", "another", "machine", "one", "<none>", "zone=a"]
    assert say("token", "delete", name) == (ExitCode.OK, [f"token {name} withdrawn"], "")
    assert say("token", "delete", name)[0] == ExitCode.INTERNAL_ERROR
    for wrong in (["token", "delete"], ["token", "list", "x"], ["token", "--replace"]):
        assert say(*wrong)[0] == ExitCode.USAGE
    assert say("token", "delete", "none", "--reason", "x")[0] == ExitCode.INTERNAL_ERROR
    assert say("revoked")[1] == ["Nothing is revoked."]
    assert say("revoke", "node", "n1", "n2", "--reason", "gone")[1] == ["node n1 revoked", "node n2 revoked"]
    assert [line.split()[-1] for line in say("revoked")[1]] == ["REASON", "gone", "gone"]
    assert say("allow", "node", "n1", "n3")[:2] == (ExitCode.INTERNAL_ERROR, ["node n1 allowed"])
    lines = [line.split("   ") for line in say("changes", "--limit", "9")[1] if line.split()[1:2] == ["administrator"]]
    cells = [[cell.strip() for cell in line if cell.strip()][3:6] for line in lines]
    assert cells == [
        ["allowed", "node/n1", "<none>"],
        ["revoked", "node/n2", "reason: gone"],
        ["revoked", "node/n1", "reason: gone"],
        ["token withdrawn", f"token/{name}", "<none>"],
        ["token made", f"token/{name}", "for: n1, another machine"],
    ]
