"""Tokens, certificates and rules: tables of cases, real recordings, and laws."""

import base64
import contextlib
import hashlib
import json
import ssl
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from beehive import RealClock
from edgehub.certificates import rules
from edgehub.certificates.certificate import Certificate, format_duration, format_time, pem_blocks
from edgehub.certificates.diagnosis import explain
from edgehub.certificates.files import pem
from edgehub.certificates.keys import NodeKey
from edgehub.certificates.token import Token
from edgehub.errors import (
    AuthorityError,
    CertificateError,
    ClockError,
    Failure,
    RefusedError,
    TokenError,
    WrongNodeError,
)
from tests.edgehub.certificates import recorded
from tests.edgehub.certificates.authority import NODE, Authority, name

NOW = 1_795_139_667.0
GOOD = Certificate(f"system:node:{NODE}", "system:nodes", "KubeEdge", NOW - 10, NOW + 90)


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def token_of(payload: str, digest: str = "a" * 64) -> str:
    return f"{digest}.{encoded({'alg': 'HS256'})}.{payload}.sig"


def test_a_token_is_a_hash_and_a_jwt() -> None:
    token = Token.parse(token_of(encoded({"exp": 1000}), "A" * 64) + "\n")
    assert token.authority == "a" * 64
    assert token.bearer.count(".") == 2
    assert token.expires == 1000.0


@pytest.mark.parametrize(
    "text", ["", "  \n", "abc", "a.b.c.d", f"{'a' * 63}.b.c.d", f"{'g' * 64}.b.c.d", f"{'a' * 64}.b.c",
             f"{'a' * 64}.b.c.d.e", f"{'a' * 64}.b..d", f"{'a' * 64}.b.c d.e", f"{'a' * 64}." + "b" * 5000 + ".c.d"],
)  # fmt: skip
def test_a_malformed_token_is_refused_and_not_quoted(text: str) -> None:
    with pytest.raises(TokenError) as caught:
        Token.parse(text)
    assert len(text) < 10 or text not in str(caught.value)
    assert "cloudcore token" in str(caught.value)


@pytest.mark.parametrize("payload", ["x", "____", encoded([1]), encoded({"exp": "soon"}), encoded({})])
def test_a_jwt_without_a_readable_end_is_left_to_the_cloud(payload: str) -> None:
    assert Token.parse(token_of(payload)).expires is None


def test_an_expired_token_is_named_with_its_end() -> None:
    token = Token.parse(token_of(encoded({"exp": NOW})))
    token.check_valid(NOW - 1)
    with pytest.raises(TokenError, match=r"expired: at 2026-11-20 01:54:27 UTC"):
        token.check_valid(NOW)


def test_the_hash_decides_over_the_authority() -> None:
    token = Token.parse(token_of(encoded({}), hashlib.sha256(b"ca").hexdigest()))
    token.check_authority(b"ca", "https://cloud")
    with pytest.raises(AuthorityError, match="https://cloud has"):
        token.check_authority(b"other", "https://cloud")


def test_a_token_hides_its_secret_in_its_repr() -> None:
    assert "sig" not in repr(Token.parse(token_of(encoded({}))))


def test_the_recorded_certificate_is_read() -> None:
    """As OpenSSL reads it."""
    issued = recorded.body("http-response", 1)
    certificate = Certificate.from_der(issued)
    assert certificate[:3] == ("system:node:lab-edge", "system:nodes", "KubeEdge")
    assert format_time(certificate.not_before) == "2026-11-20 01:54:27 UTC"
    assert format_time(certificate.not_after) == "2027-11-20 01:54:27 UTC"
    authority = Certificate.from_der(recorded.body("http-response", 0))
    assert authority.common_name == authority.issuer == "KubeEdge"
    assert format_time(authority.not_after) == "2126-07-19 01:52:28 UTC"


def test_our_request_asks_as_the_recorded_one() -> None:
    """Subject in the same order, no extensions, same kind of key and signature."""
    theirs = x509.load_der_x509_csr(recorded.body("http-request", 1))
    ours = x509.load_der_x509_csr(NodeKey().request("lab-edge"))
    assert [(a.oid, a.value) for a in ours.subject] == [(a.oid, a.value) for a in theirs.subject]
    assert list(ours.extensions) == list(theirs.extensions) == []
    assert ours.signature_algorithm_oid == theirs.signature_algorithm_oid
    assert type(ours.public_key()) is type(theirs.public_key())
    assert ours.is_signature_valid


@pytest.mark.parametrize("line", [b"-----BEGIN CERTIFICATE-----\n", b"-----BEGIN CERTIFICATE-----"])
@pytest.mark.parametrize("end", [b"", b"-----END CERTIFICATE-----"])
def test_a_file_of_beginnings_is_read_once(line: bytes, end: bytes) -> None:
    """The end is not searched again from each beginning: that took hours for two megabytes."""
    with contextlib.suppress(ValueError):
        pem_blocks(line * 70_000 + end)


def test_a_certificate_is_read_from_pem() -> None:
    authority = Authority()
    certificate = Certificate.from_pem(b"text before\n" + pem(authority.der))
    assert certificate == Certificate.from_der(authority.der)
    assert certificate.not_before == authority.certificate.not_valid_before_utc.timestamp()
    assert certificate.not_after == authority.certificate.not_valid_after_utc.timestamp()
    assert pem(authority.der) == authority.certificate.public_bytes(Encoding.PEM)


@pytest.mark.parametrize("year", [1950, 1999, 2049, 2050])
def test_years_are_read_as_openssl_reads_them(year: int) -> None:
    """Years before 2050 have two digits (RFC 5280 §4.1.2.5)."""
    authority = Authority()
    since = datetime(year, 1, 1, tzinfo=UTC).timestamp() - RealClock().now()
    made = authority.sign(authority.key.public_key(), name("n"), since=since)
    assert Certificate.from_der(made.public_bytes(Encoding.DER)).not_before == made.not_valid_before_utc.timestamp()


@pytest.mark.parametrize(
    ("certificate", "why"),
    [
        (GOOD, None),
        (None, "there is none"),
        (GOOD._replace(not_after=NOW), "it expired at 2026-11-20 01:54:27 UTC"),
        (GOOD._replace(not_before=NOW + 50), None),
        (GOOD._replace(common_name="system:node:x"), "it is for system:node:x, this node is system:node:edge-1"),
        (GOOD._replace(common_name=""), "it is for nobody, this node is system:node:edge-1"),
    ],
)
def test_when_a_certificate_will_do(certificate: Certificate | None, why: str | None) -> None:
    assert rules.why_unusable(certificate, NODE, NOW) == why


@given(st.floats(0, 1), st.floats(1, 1e9))
def test_the_renewal_is_within_70_and_90_percent_of_the_life(draw: float, life: float) -> None:
    due = rules.renewal(GOOD._replace(not_before=NOW, not_after=NOW + life), draw)
    assert NOW + 0.699 * life <= due <= NOW + 0.901 * life


def test_an_issued_certificate_is_checked() -> None:
    rules.check_issued(GOOD, NODE, NOW)
    with pytest.raises(WrongNodeError, match="system:node:other"):
        rules.check_issued(GOOD._replace(common_name="system:node:other"), NODE, NOW)
    with pytest.raises(WrongNodeError):
        rules.check_issued(GOOD._replace(organisation="system:masters"), NODE, NOW)
    with pytest.raises(RefusedError, match="clock"):
        rules.check_issued(GOOD, NODE, NOW + 1000)


def test_a_clock_before_the_certificate_s_beginning_is_named() -> None:
    rules.check_clock(GOOD, NOW - 60)
    rules.check_clock(None, 0)
    with pytest.raises(ClockError, match="at least 3 days behind"):
        rules.check_clock(GOOD, GOOD.not_before - 3 * 86400)
    assert "5 minutes ahead" in str(rules.clock_error(-300, NOW))


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (119, "119 s"), (120, "2 minutes"), (7200, "2 hours"), (1e6, "12 days")]
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert format_duration(seconds) == words


def test_an_error_survives_its_way_between_processes() -> None:
    for kind in CertificateError.__subclasses__():
        error = kind("attempt", "on", "hint")
        again = Failure.of(error).error()
        assert (type(again), str(again)) == (kind, str(error))
    assert type(Failure("unheard of", "a").error()) is CertificateError


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ssl.SSLError(1, "[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca (_ssl.c:1)"), "does not know the CA"),
        (FileNotFoundError(2, "No such file", "/x/ca.crt"), "a file is missing: /x/ca.crt"),
        (ConnectionResetError(104, "reset by peer"), "reset by peer"),
    ],
)
def test_a_tls_failure_is_explained_or_quoted(error: OSError, words: str) -> None:
    assert words in explain(error)
