"""Who gets a certificate: tokens, client certificates, and what a request must be like."""

import hashlib
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from http import HTTPStatus

import pytest
from cryptography import x509

from modules.cloud.cloudhub.certificates import join_tokens
from modules.cloud.cloudhub.certificates.authority import Authority
from modules.cloud.cloudhub.certificates.enrolment import Enrolment, EnrolmentRequest
from modules.cloud.cloudhub.certificates.errors import TokenError
from modules.cloud.cloudhub.certificates.join_tokens import Claims
from modules.cloud.identities.node_identity import node_in
from modules.cloud.identities.peer import CertifiedPeer
from tests.modules.cloud.cloudhub.certificates.made import NOW, YEAR, Unrefused, csr

AUTHORITY = Authority.create(NOW)
ENROLMENT = Enrolment(AUTHORITY, Unrefused({"n1"}), YEAR)
KEY = AUTHORITY.token_key


def jwt(expires: float = NOW + 60, key: bytes = KEY) -> str:
    return join_tokens.issue(AUTHORITY.der, key, Claims(expires)).partition(".")[2]


def ask(**changes: object) -> tuple[int, str]:
    headers = {"nodename": "n1", "authorization": f"Bearer {jwt()}"}
    fields: dict[str, object] = {"method": "GET", "path": "/edge.crt", "headers": headers, "body": lambda: csr("n1")}
    answer = ENROLMENT.answer(EnrolmentRequest(**(fields | changes)), NOW)  # type: ignore[arg-type]
    return answer.status.value, answer.text


def test_a_token_is_the_hash_of_the_ca_and_a_jwt_with_its_end() -> None:
    """Four parts; each is checked by other means than its maker's."""
    digest, header, claims, signature = join_tokens.issue(b"ca", b"key", Claims(1795226067.9)).split(".")
    assert digest == hashlib.sha256(b"ca").hexdigest()
    assert json.loads(urlsafe_b64decode(header + "==")) == {"alg": "HS256", "typ": "JWT"}
    assert json.loads(urlsafe_b64decode(claims + "==")) == {"exp": 1795226067}
    mac = hmac.new(b"key", f"{header}.{claims}".encode(), hashlib.sha256).digest()
    assert signature == urlsafe_b64encode(mac).decode().rstrip("=")


def part(value: object) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (jwt(NOW - 60), "token is expired: it ended at 2026-11-20T01:53:27Z, now it is 2026-11-20T01:54:27Z"),
        (jwt(NOW), "token is expired"),
        (jwt(key=b"another"), "signature is invalid"),
        (jwt() + "A", "is invalid"),
        ("", "three parts"),
        ("a.b", "three parts"),
        ("a." * 9000, "three parts"),
        ("é.b.c", "base64"),
        (f"{part({'alg': 'none'})}.{part({'exp': NOW + 60})}.", "not HS256"),
        (f"{part([])}.{part({})}.", "not what they should be"),
        (f"{part('')[:2]}.{part({})}.", "not what they should be"),
        (jwt() + "!!!!", "base64"),
    ],
)
def test_tokens_that_prove_nothing(token: str, reason: str) -> None:
    """The text says why, and never has the token in it."""
    with pytest.raises(TokenError) as error:
        join_tokens.check(token, KEY, NOW)
    assert reason in str(error.value)
    assert token not in str(error.value) or len(token) < 4


def test_a_token_gets_a_certificate() -> None:
    """The certificate is for the node in the request's header."""
    headers = {"nodename": "n1", "authorization": f"Bearer {jwt()}", "extkeyusages": "[2]"}
    answer = ENROLMENT.answer(EnrolmentRequest("GET", "/edge.crt", headers, lambda: csr("n1")), NOW)
    assert (answer.status, answer.content_type) == (HTTPStatus.OK, "application/octet-stream")
    assert AUTHORITY.has_signed(x509.load_der_x509_certificate(answer.body))


def test_a_certificate_gets_the_next_one_without_a_token() -> None:
    assert ask(headers={"nodename": "n1"}, peer=CertifiedPeer("1", NOW, "n1"))[0] == 200


@pytest.mark.parametrize("enrols", [False, True])
def test_who_is_refused_gets_none(monkeypatch: pytest.MonkeyPatch, *, enrols: bool) -> None:
    """By its certificate, or by the key that it asks for."""
    monkeypatch.setattr(Unrefused, "enrol" if enrols else "refusal_of", lambda *_: "refused since yesterday")
    answer = ask(headers={"nodename": "n1"}, peer=CertifiedPeer("1", NOW, "n1"))
    assert answer == (403 if enrols else 401, "refused since yesterday")


BEARER = {"authorization": f"Bearer {jwt()}"}


@pytest.mark.parametrize(
    ("changes", "status", "text"),
    [
        ({"headers": {"nodename": "n1"}}, 401, "neither a token nor a client certificate"),
        ({"headers": {"nodename": "n1", "authorization": jwt()}}, 401, "neither a token"),
        ({"headers": {"nodename": "n1", "authorization": f"Basic {jwt()}"}}, 401, "neither a token"),
        ({"headers": {"nodename": "n1", "authorization": f"Bearer {jwt(NOW - 1)}"}}, 401, "token is expired"),
        ({"headers": BEARER}, 400, "NodeName"),
        ({"headers": {"nodename": "../n1", **BEARER}}, 400, "NodeName"),
        ({"headers": {"nodename": "n2", **BEARER}}, 403, "wrong node"),
        ({"headers": {"nodename": "n1", "extkeyusages": "[1]", **BEARER}}, 403, "ExtKeyUsages"),
        ({"headers": {"nodename": "n1", "extkeyusages": "[2, 1]", **BEARER}}, 403, "ExtKeyUsages"),
        ({"headers": {"nodename": "n1", "extkeyusages": "[", **BEARER}}, 403, "ExtKeyUsages"),
        ({"body": lambda: b"nonsense"}, 403, "PKCS #10"),
        ({"peer": CertifiedPeer("1", NOW, "n2")}, 401, "that of n2, the request is for n1"),
        ({"peer": CertifiedPeer("1", NOW)}, 401, "that of no node"),
        ({"method": "POST"}, 405, "only GET"),
        ({"path": "/edge.crt/.."}, 404, "nothing"),
        ({"path": "/node/n2"}, 404, "Node not found"),
        ({"path": "/node/n1"}, 200, "Node found"),
        ({"path": "/node/"}, 404, "nothing"),
    ],
)
def test_what_requests_get(changes: dict[str, object], status: int, text: str) -> None:
    """A bad certificate is not made good by a good token; every refusal says its reason."""
    got = ask(**changes)
    assert got[0] == status
    assert text in got[1]


def subject(*pairs: tuple[str, str]) -> dict[str, object]:
    return {"subject": tuple(((key, value),) for key, value in pairs)}


O, CN = "organizationName", "commonName"  # noqa: E741 - what X.509 calls it


@pytest.mark.parametrize(
    ("certificate", "node"),
    [
        (subject((O, "system:nodes"), (CN, "system:node:n1.example")), "n1.example"),
        (subject((O, "system:nodes"), (CN, "system:node:")), ""),
        (subject((O, "system:nodes"), (CN, "xsystem:node:n1")), ""),
        (subject((O, "system:nodes"), (CN, "n1")), ""),
        (subject((O, "system:nodes"), (CN, "system:node:a"), (CN, "system:node:b")), ""),
        (subject((O, "KubeEdge"), (CN, "kubeedge.io")), ""),
        (subject((CN, "system:node:n1")), ""),
        ({}, ""),
        (None, ""),
    ],
)
def test_which_node_a_certificate_speaks_for(certificate: dict[str, object] | None, node: str) -> None:
    """Only O=system:nodes with one CN=system:node:NAME speaks for a node."""
    assert node_in(certificate) == node


def test_an_answer_shows_texts_and_hides_certificates() -> None:
    shown: Callable[[str], str] = lambda path: ask(path=path)[1]  # noqa: E731
    assert shown("/ca.crt") == f"{len(AUTHORITY.der)} bytes"
    assert shown("/nowhere") == "nothing is served here"
