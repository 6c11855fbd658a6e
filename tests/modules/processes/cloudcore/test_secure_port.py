"""The Kubernetes API over HTTPS: real TLS sockets, and the real kubectl."""

import json
import os
import shutil
import socket
import ssl
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from beehive.http.request import Request
from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.yaml_reader import RepeatedKey
from modules.cli.rest import RestClient
from modules.cloud.apiextensions.kinds import CustomKind, readable_kinds_of
from modules.cloud.apiserver.endpoints import requests, service
from modules.cloud.apiserver.manifests import Document, read_manifests
from modules.cloud.applications import BELONGING_TO, NODE_GROUP
from modules.cloud.authentication.users import User
from modules.cloud.cloudhub.certificates.authority import pem_of_key
from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles, load_authority
from modules.processes.cloudcore.api_listeners import ApiListener
from modules.processes.cloudcore.cli import main
from modules.processes.cloudcore.config import TlsConfig
from tests.end_to_end.processes import wait_until
from tests.modules.cloud.apiextensions.definition import DEFINITIONS, DEVICES, definition
from tests.modules.cloud.cloudhub.certificates.made import OPENSSL_LAG, csr, new_key
from tests.modules.cloud.objects import POD_MANIFEST, SIGNING_REQUEST, pod, secret
from tests.modules.processes.cloudcore.stubs import CLOCK, Stub
from tests.support.control_client import Apply, Get
from tests.support.patience import PATIENCE

_KUBECTL = shutil.which("kubectl")
_TOKENS = 'admins-token,alice,1,"system:masters"\nplain-token,bob,2\n'


class Secure:
    """A cloudcore with a secure port, and its clients."""

    def __init__(self, stub: Stub, directory: Path) -> None:
        self.directory = directory
        self.stub = stub
        self.port = stub.core.api_port
        self.tunnel_port = stub.core.tunnel_port
        self.url = f"https://127.0.0.1:{self.port}"
        self.files = AuthorityFiles(directory / "tls")

    def node_files(self, node: str) -> tuple[Path, Path]:
        """A node's certificate and key; the name belongs to the first key."""
        certificate, private = self.directory / f"{node}.crt", self.directory / f"{node}.key"
        if not certificate.exists():
            key = new_key()
            authority = load_authority(self.files, CLOCK.now())
            der = authority.sign_node(csr(node, key), node, CLOCK.now() - OPENSSL_LAG, 3600.0)
            certificate.write_bytes(x509.load_der_x509_certificate(der).public_bytes(Encoding.PEM))
            private.write_bytes(pem_of_key(key))
        return certificate, private

    def context(self, node: str) -> ssl.SSLContext:
        """How a node, or nobody, connects."""
        context = ssl.create_default_context(cafile=str(self.files.authority))
        if node:
            context.load_cert_chain(*self.node_files(node))
        return context

    def get(self, path: str, token: str = "", node: str = "", **headers: str) -> tuple[int, str]:
        """The status and body of a GET."""
        connection = HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE, context=self.context(node))
        with closing(connection):
            given = {"Authorization": f"Bearer {token}"} if token else {}
            connection.request("GET", path, headers={**given, **headers})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def send(self, method: str, path: str, node: str, body: JsonObject) -> int:
        """The status of the answer to a node that writes; a patch is a merge patch."""
        connection = HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE, context=self.context(node))
        with closing(connection):
            kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
            connection.request(method, path, json.dumps(body), {"Content-Type": kind})
            answer = connection.getresponse()
            answer.read()
            return answer.status

    def post(self, path: str, body: bytes, media: str, token: str = "", node: str = "") -> tuple[int, str]:
        """The status and body of the answer to a POST."""
        context = ssl.create_default_context(cafile=str(self.files.authority))
        if node:
            context.load_cert_chain(*self.node_files(node))
        given = {"Authorization": f"Bearer {token}"} if token else {}
        with closing(HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE, context=context)) as connection:
            connection.request("POST", path, body, headers={**given, "Content-Type": media})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def kubectl(self, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """What a command of kubectl comes to."""
        environment = {"HOME": str(self.directory), "PATH": os.environ["PATH"]}
        return subprocess.run(
            [str(_KUBECTL), *arguments], input=text, env=environment, capture_output=True, text=True,
            timeout=PATIENCE, check=False,
        )  # fmt: skip


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[Secure]:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text(_TOKENS)
    tokens.chmod(0o600)
    tls = TlsConfig(directory=tmp_path / "tls", https_port=0)
    with Stub(tmp_path, tls=tls, secure_port=0, token_auth_file=tokens) as stub:
        yield Secure(stub, tmp_path)


def test_only_authenticated_users_get_more_than_health_and_version(secure: Secure) -> None:
    """Anonymous users see /livez and /version, a wrong token is refused, and a user without a role may do nothing."""
    assert secure.get("/livez") == (200, "ok")
    assert secure.get("/version")[0] == 200
    assert secure.get("/api/v1/pods")[0] == 403
    status, body = secure.get("/api/v1/pods", token="wrong")  # noqa: S106 - of this test
    assert (status, '"reason":"Unauthorized"' in body) == (401, True)
    status, body = secure.get("/api/v1/pods", token="plain-token")  # noqa: S106 - of this test
    assert (status, 'User \\"bob\\" cannot list resource \\"pods\\"' in body) == (403, True)
    for path in ("/metrics", "/cloudcore/tokens"):
        assert secure.get(path)[0] == 403
    assert secure.get("/apis", token="plain-token")[0] == 200  # noqa: S106 - of this test
    assert secure.get("/api/v1/pods", token="admins-token")[0] == 200  # noqa: S106 - of this test
    impersonated = secure.get("/api/v1/pods", "admins-token", **{"Impersonate-User": "bob"})
    assert impersonated[0] == 403
    status, body = secure.get("/api/v1/pods", "plain-token", **{"Impersonate-User": "alice"})
    assert (status, 'User \\"bob\\" cannot impersonate' in body) == (403, True)


_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_RIGHT = b'{"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}'


@pytest.mark.parametrize(
    ("body", "media", "status"),
    [
        (_RIGHT, "application/json", 201),
        (_RIGHT, "", 201),
        (b"a: [" + b"1," * 30_000 + b"]", "application/yaml", 415),
        (b'{"a": [' + b" " * 65_536 + b"]}", "application/json", 413),
        (b'{"a": [1' + b",1" * 2000 + b"]}", "application/json", 413),
        (b"k8s\0" + b"\x08\x01" * 30_000, "application/vnd.kubernetes.protobuf", 413),
    ],
)
def test_reviews_are_small_and_not_in_yaml(
    secure: Secure, monkeypatch: pytest.MonkeyPatch, body: bytes, media: str, status: int
) -> None:
    """Every user and node may ask for them: sixteen connections with YAML made everybody else wait for seconds."""
    read: list[str] = []
    monkeypatch.setattr(requests, "read_manifests", lambda text, _: read.append(text))
    for who in ({"token": "plain-token"}, {"token": "admins-token"}, {"node": "n1"}):
        assert secure.post(_REVIEW, body, media, **who)[0] == status, who
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    assert secure.post(path, b"spec: {token: a}", "application/yaml", token="admins-token")[0] == 415  # noqa: S106
    assert not read


@pytest.mark.parametrize(
    ("token", "node", "path", "status"),
    [
        ("", "", "/api/v1/namespaces/default/configmaps", 403),
        ("wrong", "", "/api/v1/namespaces/default/configmaps", 401),
        ("plain-token", "", "/api/v1/namespaces/default/configmaps", 403),
        ("", "n1", "/api/v1/namespaces/default/configmaps", 403),
        ("", "", _REVIEW, 403),
        ("plain-token", "", _REVIEW, 413),
        ("", "n1", _REVIEW, 413),
        ("admins-token", "", "/api/v1/namespaces/default/configmaps", 100),
    ],
)
def test_no_body_is_read_before_it_is_known_who_asks_and_whether_they_may(
    secure: Secure, token: str, node: str, path: str, status: int
) -> None:
    """The refusal comes before the announced three megabytes, of which a stranger's were kept in memory."""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\nExpect: 100-continue\r\n"
    head += f"Authorization: Bearer {token}\r\n" if token else ""
    with (
        socket.create_connection(("127.0.0.1", secure.port), timeout=PATIENCE) as plain,
        secure.context(node).wrap_socket(plain, server_hostname="127.0.0.1") as client,
    ):
        client.sendall(f"{head}\r\n".encode())
        assert client.recv(100).startswith(f"HTTP/1.1 {status} ".encode())


def test_yaml_is_read_for_those_who_may_write_what_it_has(secure: Secure, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def recorded(text: str, where: str, repeated: list[RepeatedKey] | None = None) -> list[Document]:
        read.append(text)
        return read_manifests(text, where, repeated)

    monkeypatch.setattr(requests, "read_manifests", recorded)
    text, path = b"metadata: {name: a}\ndata: {a: b}\n", "/api/v1/namespaces/default/configmaps"
    for who in ({"token": "plain-token"}, {"node": "n1"}, {"token": ""}):
        assert secure.post(path, text, "application/yaml", **who)[0] == 403, who
    assert not read
    assert secure.post(path, text, "application/yaml", token="admins-token")[0] == 201  # noqa: S106 - of this test
    assert read


def test_a_user_gets_a_certificate_by_an_approved_request(secure: Secure) -> None:
    """The documented way of Kubernetes: RBAC then knows the user by the name in it. Nobody gets the name of a node."""
    admin, key = RestClient(secure.stub.config.control_socket), new_key()
    requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

    def ask(name: str, organization: str, user: str) -> dict[str, Any]:
        pem = x509.load_der_x509_csr(csr(user, key, (organization,), prefix="")).public_bytes(Encoding.PEM)
        spec = {"request": b64encode(pem).decode(), "signerName": "kubernetes.io/kube-apiserver-client",
                "usages": ["client auth"], "expirationSeconds": 3600}  # fmt: skip
        made = admin.request("POST", requests, body={"metadata": {"name": name}, "spec": spec})
        made["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "Test", "message": "ok"}]}
        admin.request("PUT", f"{requests}/{name}/approval", body=made)

        def status() -> dict[str, Any]:
            found: dict[str, Any] = admin.get(f"{requests}/{name}")["status"]
            return found

        wait_until(lambda: "certificate" in status() or len(status()["conditions"]) > 1, "the request is answered")
        return status()

    refused = ask("as-a-node", "system:nodes", "system:node:n1")
    assert "certificate" not in refused
    assert "system:node:n1 is reserved" in refused["conditions"][-1]["message"]
    made = ask("jane", "dev", "jane")
    certificate, private = secure.directory / "jane.crt", secure.directory / "jane.key"
    certificate.write_bytes(b64decode(made["certificate"]))
    private.write_bytes(pem_of_key(key))
    context = ssl.create_default_context(cafile=str(secure.files.authority))
    context.load_cert_chain(certificate, private)

    def answer() -> str:
        with closing(HTTPSConnection("127.0.0.1", secure.port, timeout=PATIENCE, context=context)) as connection:
            connection.request("GET", "/api/v1/namespaces/default/pods")
            return connection.getresponse().read().decode()

    wait_until(lambda: _is_valid(answer), "OpenSSL's clock has passed the second of the certificate's beginning")
    assert 'User \\"jane\\" cannot list resource \\"pods\\"' in answer()


def test_a_certificate_request_names_the_administrator_who_asks(secure: Secure) -> None:
    """And not whom the body names; over the control socket, whoever may open it."""
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    wanted: JsonObject = {"request": SIGNING_REQUEST, "signerName": "example.com/one", "usages": ["client auth"],
                          "username": "mallory", "groups": ["some"]}  # fmt: skip
    body = json.dumps({"metadata": {"name": "a"}, "spec": wanted}).encode()
    status, text = secure.post(path, body, "application/json", token="admins-token")  # noqa: S106 - of this test
    made = json.loads(text)["spec"]
    groups = ["system:masters", "system:authenticated"]
    assert (status, made["username"], made["uid"], made["groups"]) == (201, "alice", "1", groups)
    socket_client = RestClient(secure.stub.config.control_socket)
    made = socket_client.request("POST", path, body={"metadata": {"name": "b"}, "spec": wanted})["spec"]
    assert (made["username"], made["groups"]) == ("administrator", groups)


def _is_valid(answer: Callable[[], str]) -> bool:
    """Return whether a certificate is valid yet: OpenSSL's time is that of the kernel's last tick."""
    try:
        return bool(answer())
    except (ssl.SSLError, ConnectionError):
        return False


def test_a_definition_is_read_once_for_all_requests(secure: Secure, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request of a user for a custom kind validated all definitions again, with all their defaults."""
    read: list[str] = []

    def noted(defined: JsonObject) -> list[CustomKind]:
        read.append(defined["metadata"]["name"])
        return readable_kinds_of(defined)

    monkeypatch.setattr(service, "readable_kinds_of", noted)
    secure.post(DEFINITIONS, json.dumps(definition()).encode(), "application/json", "admins-token")
    for token, status in (("admins-token", 404), ("plain-token", 403), ("admins-token", 404)):
        assert secure.get(f"{DEVICES}/pump", token)[0] == status
        assert secure.get("/apis", token)[0] == 200
    assert len(read) == len(set(read))


def test_an_administrator_may_be_a_node(secure: Secure) -> None:
    """With the headers of a node's user and group, the node authorizer decides; without a user they are refused."""
    as_node = {"Impersonate-User": "system:node:n1", "Impersonate-Group": "system:nodes"}
    assert secure.get("/api/v1/nodes/n1", "admins-token", **as_node)[0] == 404
    assert secure.get("/api/v1/namespaces/default/secrets/other", "admins-token", **as_node)[0] == 403
    assert secure.get("/api/v1/pods", "admins-token", **{"Impersonate-Group": "system:masters"})[0] == 400


def test_a_node_has_the_node_authorizer(secure: Secure) -> None:
    """A node's certificate lets it ask for its own node, and for no secret of others, nor for a watch or a token."""
    assert secure.get("/api/v1/nodes/n1", node="n1")[0] == 404
    assert secure.get("/api/v1/namespaces/default/secrets/other", node="n1")[0] == 403
    assert secure.get("/api/v1/pods?watch=1", node="n1")[0] == 403
    assert secure.get("/metrics", node="n1")[0] != 200
    assert secure.get("/apis", node="n1")[0] == 200, "discovery is for everybody who is authenticated"


def test_a_node_joins_no_group_by_its_own_word(secure: Secure) -> None:
    """It was bound the group's pods, and sent their Secrets, before the controller took the label back."""
    group = {"kind": "NodeGroup", "apiVersion": NODE_GROUP.api_version, "metadata": {"name": "bank"}}
    vault = pod("vault", imagePullSecrets=[{"name": "gold"}], nodeSelector={BELONGING_TO: "bank"})
    del vault["spec"]["nodeName"]
    secure.stub.client.run(Apply([secret("gold", a="gold"), {**group, "spec": {"nodes": ["good"]}}]))
    label = {"metadata": {"name": "evil", "labels": {BELONGING_TO: "bank"}}}
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"pods": "9"}}
    assert secure.send("POST", "/api/v1/nodes", "evil", label) == 403
    assert secure.send("POST", "/api/v1/nodes", "evil", {"metadata": {"name": "evil"}, "status": ready}) == 201
    for path in ("/api/v1/nodes/evil", "/api/v1/nodes/evil/status"):
        assert secure.send("PATCH", path, "evil", label) == 403
    with secure.stub.edge("evil", secure.context("evil")) as link:
        assert link.ask("null/node/evil", "update", label).content_as(dict)["Err"]["ErrStatus"]["code"] == 403
    secure.stub.client.run(Apply([vault]))
    (found,) = secure.stub.client.run(Get("pod", "vault"))
    assert found.object is not None
    assert "nodeName" not in found.object["spec"]
    assert secure.get("/api/v1/namespaces/default/secrets/gold", node="evil")[0] == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://localhost", "User-Agent": "Mozilla/5.0 (X11; Linux x86_64)"},
        {"Origin": "http://localhost", "Accept-Language": "en"},
        {"Origin": "http://localhost", "Sec-Fetch-Mode": "websocket"},
        {"Origin": "http://localhost:8080"},
        {"Origin": "https://localhost"},
        {"Origin": "null"},
    ],
)
def test_a_page_of_another_site_does_not_use_the_certificate_of_a_browser(
    secure: Secure, headers: dict[str, str]
) -> None:
    """A browser presents a certificate to whoever asks: with a Blob without a type, a page posts JSON without asking
    first, such as a binding that makes its author an administrator. A token comes from no other site, unless it is one
    that the page makes up and that does not count beside the certificate.
    """
    assert secure.get("/apis", node="n1", **headers)[0] == 403
    for made_up in ("Bearer x", "Basic eDp5"):
        assert secure.get("/apis", node="n1", Authorization=made_up, **headers)[0] == 403
    assert secure.get("/apis", "plain-token", **headers)[0] == 200
    own = {"Origin": f"https://127.0.0.1:{secure.port}", "Sec-Fetch-Site": "same-origin"}
    assert secure.get("/apis", node="n1", **own)[0] == 200


def test_a_client_that_is_no_browser_may_name_localhost_as_its_origin(secure: Secure) -> None:
    """golang.org/x/net/websocket always sends an origin, and Kubernetes' clients name this one."""
    assert secure.get("/apis", node="n1", **{"Origin": "http://localhost", "User-Agent": "e2e.test/v1.32"})[0] == 200


def test_a_certificate_counts_until_its_end_also_on_an_old_connection(secure: Secure) -> None:
    """A session of the page went on for hours after it."""
    subject, begins = ((("commonName", "carol"),),), "Jan  1 00:00:10 1970 GMT"
    authenticator = secure.stub.core._tokens.authenticator
    made = {"subject": subject, "serialNumber": "0A", "notBefore": begins}
    for year, is_valid in ((2001, False), (2999, True)):
        certificate = {**made, "notAfter": f"Jan  1 00:00:10 {year} GMT"}
        request = Request(method="GET", target="/api", parts=("api",), certificate=certificate)
        if is_valid:
            assert authenticator.user(request) == User("carol")
        else:
            with pytest.raises(ApiStatusError, match="has expired"):
                authenticator.user(request)


@pytest.mark.parametrize(
    ("options", "lacks"),
    [
        (("--secure-port", "0"), "--tls"),
        (("--tls", "--token-auth-file", "tokens"), "--secure-port"),
        (("--mount-service-account-tokens",), "--secure-port"),
    ],
)
def test_an_option_that_nothing_would_use_names_the_one_to_add(
    options: tuple[str, ...], lacks: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The secure port is TLS, and tokens are for it alone."""
    assert main(["run", "--root", str(tmp_path), *options]) == 2
    assert f"add {lacks}" in capsys.readouterr().err


def test_a_kubeconfig_needs_an_authority(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without an authority the command says how to get one, and makes none."""
    assert main(["kubeconfig", "--root", str(tmp_path)]) != 0
    assert "cloudcore run --tls" in capsys.readouterr().err
    assert not (tmp_path / "tls").exists()


def test_a_client_without_a_handshake_holds_up_nobody(secure: Secure) -> None:
    """A connection that says nothing leaves the port to others."""
    with socket.create_connection(("127.0.0.1", secure.port), timeout=PATIENCE):
        assert secure.get("/livez") == (200, "ok")


def test_a_kubeconfig_names_the_port_of_the_cloud_that_runs(
    secure: Secure, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a running cloudcore it names the usual port, or an option's."""
    place = ["kubeconfig", "--tls-dir", str(secure.files.directory), "--socket"]
    assert main([*place, str(secure.directory / "control")]) == 0
    assert f"server: {secure.url}\n" in capsys.readouterr().out
    assert main([*place, str(tmp_path / "none")]) == 0
    assert "server: https://127.0.0.1:6443\n" in capsys.readouterr().out
    assert main([*place, str(secure.directory / "control"), "--server", "https://cloud:1"]) == 0
    assert "server: https://cloud:1\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("address", "host"),
    [("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("192.0.2.1", "192.0.2.1")],  # noqa: S104 - no bind
)
def test_an_address_that_stands_for_all_is_no_client_s(address: str, host: str) -> None:
    assert ApiListener(address, 6443, "", None, 1).local_url == f"http://{host}:6443"


@pytest.mark.timeout(600)
def _grant_and_use(secure: Secure, admin: tuple[str, ...]) -> None:
    """An administrator gives bob a role, and bob uses it; he gives nobody more than he has."""
    bob = (*admin, "--as", "bob")
    assert secure.kubectl(*bob, "auth", "can-i", "list", "pods").stdout == "no\n"
    made = secure.kubectl(*admin, "create", "rolebinding", "bob", "--clusterrole=admin", "--user=bob")
    assert made.stdout == "rolebinding.rbac.authorization.k8s.io/bob created\n", made.stderr
    allowed = secure.kubectl(*bob, "auth", "can-i", "list", "pods")
    assert (allowed.stdout, allowed.stderr) == ("yes\n", "")
    assert secure.get("/api/v1/namespaces/default/pods", "plain-token")[0] == 200
    assert secure.get("/api/v1/pods", "plain-token")[0] == 403
    listed = secure.kubectl(*bob, "get", "pods", "-o", "name")
    assert (listed.stdout, listed.stderr) == ("pod/web\n", "")
    assert "pods/exec" in secure.kubectl(*bob, "auth", "can-i", "--list").stdout
    role = secure.kubectl(*bob, "create", "role", "reader", "--verb=get", "--resource=pods")
    assert role.stdout == "role.rbac.authorization.k8s.io/reader created\n", role.stderr
    more = secure.kubectl(*bob, "create", "role", "nodes", "--verb=get", "--resource=nodes")
    assert "attempting to grant RBAC permissions not currently held" in more.stderr


@pytest.mark.skipif(_KUBECTL is None, reason="kubectl is not installed")
def test_kubectl_with_the_written_kubeconfig(secure: Secure) -> None:
    """kubectl applies and waits as an administrator, and learns who it is; a node may not read another node's
    pod, and knows it.
    """
    file = secure.directory / "kubeconfig"
    options = ["--tls-dir", str(secure.files.directory), "--socket", str(secure.directory / "control")]
    assert main(["kubeconfig", "--output", str(file), "--server", secure.url, *options]) == 0
    assert file.stat().st_mode & 0o777 == 0o600
    admin = ("--kubeconfig", str(file))
    applied = secure.kubectl(*admin, "apply", "-f", "-", text=POD_MANIFEST)
    assert (applied.stdout, applied.stderr) == ("pod/web created\n", applied.stderr)
    waited = secure.kubectl(*admin, "wait", "pod/web", "--for=jsonpath={.spec.nodeName}=n1", "--timeout=60s")
    assert waited.returncode == 0, waited.stderr
    may = secure.kubectl(*admin, "auth", "can-i", "delete", "pods")
    assert (may.stdout, may.stderr) == ("yes\n", "")
    assert "admin" in secure.kubectl(*admin, "auth", "whoami").stdout
    _grant_and_use(secure, admin)
    authority = ("--server", secure.url, "--certificate-authority", str(secure.files.authority))
    wrong = secure.kubectl(*authority, "--token=wrong", "get", "--raw", "/api/v1/pods")
    assert "Unauthorized" in wrong.stderr
    certificate, key = secure.node_files("n2")
    node = (*authority, "--client-certificate", str(certificate), "--client-key", str(key))
    refused = secure.kubectl(*node, "get", "pod", "web")
    assert refused.returncode == 1
    for what, answer in (("nodes/n2", "yes"), ("pods/web", "no"), ("/healthz", "yes"), ("/metrics", "no")):
        told = secure.kubectl(*node, "auth", "can-i", "get", what)
        assert told.stdout.split()[:1] == [answer], (what, told)
    assert "system:node:n2" in secure.kubectl(*node, "auth", "whoami").stdout
    assert 'pods "web" is forbidden: User "system:node:n2" cannot get resource "pods"' in refused.stderr
