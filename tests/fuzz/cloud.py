"""Targets of the cloud's servers: certificate requests, join tokens, HTTPS requests, the control socket."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from functools import cache
from http import HTTPStatus
from random import Random
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from beehive.http.errors import HttpStatusError
from beehive.http.responses import Response, Stream
from beehive.message import Message
from beehive.simulation import Simulation
from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.limits import REQUEST_BYTES
from modules.cloud.apiserver.api_calls import DryRunError, serve
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.endpoints.service import ApiService, Requester
from modules.cloud.apiserver.endpoints.subscriptions import Subscriptions
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.cloudhub.certificates import join_tokens
from modules.cloud.cloudhub.certificates.authority import Authority
from modules.cloud.cloudhub.certificates.enrolment import Enrolment, EnrolmentRequest
from modules.cloud.cloudhub.certificates.errors import RequestRefusedError, TokenError
from modules.cloud.device_values import ValueList, ValueQuery
from modules.cloud.identities.node_identity import node_in
from modules.cloud.identities.peer import CertifiedPeer
from modules.cloud.messages import Cloudcores, LinkQuery
from modules.cloud.object_writes import ADMINISTRATOR, WriteList, WriteQuery
from modules.cloud.storage.watch_history import WatchHistory, WatchQuery, WatchStart
from modules.processes.cloudcore.control_service import (
    ApiPorts,
    AuditState,
    ControlService,
    LinksResponseBody,
    NodesResponseBody,
    ServedBundles,
)
from modules.processes.cloudcore.identity_service import IdentityService
from tests.beehive.http.requests import parse
from tests.fuzz.target import Target, must
from tests.modules.cloud.cloudhub.certificates.made import Unrefused

_NOW: Final = 1795139667.0
_YEAR: Final = 365 * 24 * 3600.0
_NODE: Final = "edge-1"


PLAIN_TOKEN: Final = b'plain\n{"alg":"HS256","typ":"JWT"}\n{"exp":1795143267}\nsignature'
"""See `spelt`."""


@cache
def _authority() -> Authority:
    return Authority.create(_NOW)


@cache
def _key(secret: int) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(secret, ec.SECP256R1())


@cache
def _request(common_name: str, organisation: str = "system:nodes", secret: int = 7) -> bytes:
    subject = [
        x509.NameAttribute(NameOID.COUNTRY_NAME, "CN"),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation),
        x509.NameAttribute(NameOID.COMMON_NAME, common_name),
    ]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    return builder.sign(_key(secret), hashes.SHA256()).public_bytes(Encoding.DER)


def _requests() -> Sequence[bytes]:
    good = _request(f"system:node:{_NODE}")
    pem = x509.load_der_x509_csr(good).public_bytes(Encoding.PEM)
    others = [_request("system:node:other"), _request("kubernetes-admin", "system:masters"), _request("edge-1", "x")]
    return (good, good, good, pem, *others, _authority().der)


def _check_signed(certificate: bytes) -> None:
    """Check that a signed certificate is this node's, for client use only."""
    signed = x509.load_der_x509_certificate(certificate)
    names = [name.value for name in signed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    must(names == [f"system:node:{_NODE}"], "a certificate is for the node that asks")
    usage = signed.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    must([each.dotted_string for each in usage] == ["1.3.6.1.5.5.7.3.2"], "and for a client")
    constraints = [each for each in signed.extensions if isinstance(each.value, x509.BasicConstraints)]
    must(not any(each.value.ca for each in constraints), "and for no CA")
    key = signed.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    must(key == _key(7).public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo), "and for its key")


def _check_request(data: bytes, _: Random) -> None:
    """Check that a request with one changed bit is refused: its signature is wrong."""
    try:
        certificate = _authority().sign_node(data, _NODE, _NOW, _YEAR)
    except RequestRefusedError:
        return
    _check_signed(certificate)


def _bodies() -> Sequence[bytes]:
    return [x509.load_der_x509_csr(request).tbs_certrequest_bytes for request in (*_requests()[:3], *_requests()[4:6])]


def _check_own_request(data: bytes, _: Random) -> None:
    """Check requests with any content that are correctly signed with the node's key."""
    signature = _key(7).sign(data, ec.ECDSA(hashes.SHA256()))
    algorithm = bytes.fromhex("300a06082a8648ce3d040302")
    _check_request(_der(0x30, data + algorithm + _der(0x03, b"\0" + signature)), Random())


def _der(tag: int, body: bytes) -> bytes:
    size = len(body)
    return bytes([tag]) + (bytes([size]) if size < 128 else b"\x84" + size.to_bytes(4, "big")) + body


@cache
def _tokens() -> Sequence[bytes]:
    authority = _authority()
    good = join_tokens.issue(authority.der, authority.token_key, join_tokens.Claims(_NOW + 3600))
    over = join_tokens.issue(authority.der, authority.token_key, join_tokens.Claims(_NOW - 1))
    foreign = join_tokens.issue(authority.der, b"another key", join_tokens.Claims(_NOW + 3600))
    return (*(token.partition(".")[2].encode() for token in (good, good, over, foreign)), PLAIN_TOKEN, PLAIN_TOKEN)


def spelt(data: bytes, before: bytes = b"") -> bytes:
    """Encode a token whose parts are plain text, one a line, so that mutations reach their content."""
    if not data.startswith(b"plain\n"):
        return data
    return before + b".".join(urlsafe_b64encode(part).rstrip(b"=") for part in data.split(b"\n")[1:])


def _check_token(data: bytes, _: Random) -> None:
    """Check that only issued tokens are accepted, except for the spare bits of base64's last letter."""
    jwt = spelt(data).decode("latin-1")
    try:
        join_tokens.check(jwt, _authority().token_key, _NOW)
    except TokenError:
        return
    signed, _dot, signature = _tokens()[0].decode().rpartition(".")
    must(jwt.rpartition(".")[0] == signed, "what the signature is for is what was issued")
    must(len(jwt.rpartition(".")[2]) == len(signature), "a token has one spelling")
    must(urlsafe_b64decode(jwt.rpartition(".")[2] + "=") == urlsafe_b64decode(signature + "="), "and the signature")


def _check_enrolment(data: bytes, random: Random) -> None:
    """Check a whole HTTPS request, headers and body: only requests with a token or certificate are signed."""
    head, _, body = data.partition(b"\n\n")
    method, path, *fields = [*head.decode("latin-1").split("\n"), "", ""]
    headers = {name.lower(): value for name, _, value in (line.partition(":") for line in fields) if name}
    shown = random.random() < 0.3
    holder = random.choice(("", _NODE, "other"))
    peer = CertifiedPeer("1", _NOW, holder) if shown else None
    request = EnrolmentRequest(method, path, headers, lambda: body, peer)
    enrolment = Enrolment(_authority(), Unrefused({_NODE}), _YEAR)
    answer = enrolment.answer(request, _NOW)
    if answer.status != HTTPStatus.OK:
        must(bool(answer.text) and "\n" not in answer.text, "a refusal says why, in a line")
        return
    if path == "/edge.crt":
        good = f"Bearer {_tokens()[0].decode()}"
        earned = (
            holder == headers["nodename"]
            if shown
            else headers["authorization"].rpartition(".")[0] == good.rpartition(".")[0]
        )
        must(earned, "a certificate needs a token, or the node's last certificate")
        if headers["nodename"] == _NODE:
            _check_signed(answer.body)


def _strangers() -> Sequence[bytes]:
    made = []
    for token in _tokens()[:4]:
        for body in _requests()[:6]:
            head = f"GET\n/edge.crt\nnodename:{_NODE}\nauthorization:Bearer {token.decode()}\nextkeyusages:[2]"
            made.append(head.encode() + b"\n\n" + body)
    return (*made, b"GET\n/ca.crt", b"GET\n/node/edge-1", b"GET\n/node/../edge-1", b"POST\n/edge.crt\n\n")


class _Alone:
    """Carries out the requests of the control socket on a cluster of its own, rolled back by nobody."""

    def __init__(self) -> None:
        self._clock = Simulation(0).clock
        self._cluster = Cluster(self._clock)
        self._history = WatchHistory(self._cluster.storage)
        self._cluster.create({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": _SPEC})
        self.subscriptions = Subscriptions()
        api = ApiService(Requester(self), self.subscriptions, "v1.32.0", self._clock)
        self.service = ControlService(api, IdentityService(_unanswered, ADMINISTRATOR), self)

    def metrics(self) -> str:
        return ""

    def connections(self) -> NodesResponseBody:
        return NodesResponseBody([])

    def cloudcores(self) -> Cloudcores:
        return Cloudcores("", ())

    def api_ports(self) -> ApiPorts:
        return ApiPorts()

    def bundles(self) -> ServedBundles:
        return ServedBundles()

    def audit(self) -> AuditState:
        return AuditState()

    def links(self, _query: LinkQuery) -> LinksResponseBody:
        return LinksResponseBody([])

    def writes(self, _query: WriteQuery) -> WriteList:
        return WriteList([], is_kept=False)

    def values(self, _query: ValueQuery) -> ValueList:
        return ValueList()

    def call(self, call: ApiCall) -> ApiResult:
        """Carries out a call."""
        try:
            return serve(self._cluster, call)
        except DryRunError as end:
            return end.result

    def start_watch(self, query: WatchQuery) -> WatchStart:
        """Begins a watch."""
        return self._history.start(query)


def _unanswered(module: str, operation: str, content: object) -> Message:
    raise ApiStatusError(409, f"{module} does not answer {operation} with {content!r}")


_SPEC: Final = {"containers": [{"name": "c", "image": "i"}]}


class _Gone:
    """A client that leaves immediately."""

    def gone_within(self, seconds: float, wake: int | None = None) -> bool:
        """It has gone."""
        must(seconds >= 0 and (wake or 0) >= 0, "a wait is one")
        return True


def _check_control(data: bytes, _: Random) -> None:
    """Check a whole HTTP request of the control socket: what is answered is a response of the API."""
    try:
        request = parse(data[:65536], REQUEST_BYTES)
    except HttpStatusError as error:
        must(400 <= error.status < 500, "a request that cannot be read is the client's fault")
        return
    reply = _Alone().service.serve(request)
    if isinstance(reply, Stream):
        list(reply.pieces(_Gone()))
        reply.done()
        return
    assert isinstance(reply, Response)
    must(reply.status < 500, "no request is the server's fault")
    if reply.status >= 400:
        is_no_path = reply.body == b"404 page not found\n"
        must(
            is_no_path or json.loads(reply.body)["kind"] == "Status",
            "a refusal is a metav1.Status, but of no path at all",
        )


def _request_of(method: str, target: str, body: bytes = b"", media: str = "application/json") -> bytes:
    head = f"{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Type: {media}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _control() -> Sequence[bytes]:
    pod = json.dumps({"kind": "Pod", "metadata": {"name": "b"}, "spec": _SPEC}).encode()
    pods, one = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/pods/a"
    steps = b'[{"op":"add","path":"/metadata/labels","value":{"a":"b"}},{"op":"move","from":"/spec","path":"/x"}]'
    return [
        _request_of("GET", f"{pods}?labelSelector=a%3Db,c&fieldSelector=spec.nodeName%3Dn&limit=1"),
        _request_of("GET", f"{pods}?watch=true&resourceVersion=1&allowWatchBookmarks=true"),
        _request_of("GET", "/apis/coordination.k8s.io/v1"),
        _request_of("POST", f"{pods}?fieldValidation=Strict&dryRun=All", pod),
        _request_of("PUT", one, pod),
        _request_of("PATCH", one, steps, "application/json-patch+json"),
        _request_of("PATCH", one, b'{"spec":{"$patch":"replace"}}', "application/strategic-merge-patch+json"),
        _request_of("PATCH", f"{one}/status", b'{"status":{"phase":"Running"}}', "application/merge-patch+json"),
        _request_of("PATCH", one, b"kind: Pod\nmetadata: {name: a}\n", "application/apply-patch+yaml"),
        _request_of("DELETE", one, b'{"gracePeriodSeconds":0,"preconditions":{"uid":"x"}}'),
        _request_of("DELETE", pods),
        _request_of("POST", "/cloudcore/tokens", b'{"seconds":3600}'),
    ]


def _check_peer(data: bytes, _: Random) -> None:
    """Check the node name of a certificate whose names are all arbitrary."""
    names = data.decode("utf-8", "replace").split("\n")
    subject = [((names[at], names[at + 1]),) for at in range(0, len(names) - 1, 2)]
    node = node_in({"subject": tuple(subject)})
    kinds = [name for ((name, _),) in subject]
    must(
        not node or (kinds.count("commonName") == 1 and (("commonName", f"system:node:{node}"),) in subject), "one name"
    )
    organisations = [value for ((name, value),) in subject if name == "organizationName"]
    must(not node or organisations[0] == "system:nodes", "of an organisation of nodes")


def _subjects() -> Sequence[bytes]:
    return (
        b"organizationName\nsystem:nodes\ncommonName\nsystem:node:edge-1",
        b"commonName\nsystem:node:edge-1\norganizationName\nsystem:masters",
        b"organizationName\nKubeEdge\ncommonName\nkubeedge.io",
    )


TARGETS: Final = (
    Target("csr", _requests, _check_request, 0.5),
    Target("own-csr", _bodies, _check_own_request, 0.5),
    Target("token", _tokens, _check_token),
    Target("enrolment", _strangers, _check_enrolment, 0.5),
    Target("control", _control, _check_control, 0.5),
    Target("peer", _subjects, _check_peer, 0.5),
)
