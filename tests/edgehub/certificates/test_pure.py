"""Tokens, certificates and rules: tables of cases, real recordings, and laws."""

import base64
import contextlib
import errno
import hashlib
import json
import ssl
import sys
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import msgspec
import pytest
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from beehive import Clock, RealClock
from beehive.backoff import Backoff
from beehive.decoding import decode_json
from beehive.sockets.tls import TlsFiles
from beehive.testing import FakeContext
from edgehub.certificates import files, issue, obtain, rules
from edgehub.certificates.certificate import SEQUENCE, Certificate, format_duration, format_time, only, pem_blocks
from edgehub.certificates.diagnosis import explain
from edgehub.certificates.files import pem
from edgehub.certificates.keys import NodeKey
from edgehub.certificates.manager import CertificateManager
from edgehub.certificates.renewal import Renewer, renewal
from edgehub.certificates.settings import CertificateSettings, IssueRequest, IssueResult
from edgehub.certificates.token import Token
from edgehub.counters import LinkCounters
from edgehub.errors import (
    AuthorityError,
    CertificateError,
    ClockError,
    Failure,
    FilesError,
    RefusedError,
    TokenError,
    WrongNodeError,
)
from edgehub.tls import client_context
from tests.edgehub.certificates import recorded
from tests.edgehub.certificates.authority import NODE, Authority, name
from tests.support.clocks import StandingClock

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


def test_a_value_without_a_length_is_no_der_and_a_beginning_with_more_in_its_line_is_none() -> None:
    with pytest.raises(ValueError, match="length"):
        only(bytes((SEQUENCE, 0x80, 0, 0)), SEQUENCE)
    assert pem_blocks(b"-----BEGIN CERTIFICATE-----AAAA-----END CERTIFICATE-----") == []


def test_only_a_key_such_as_kubeedge_s_is_used_again() -> None:
    mine, other = NodeKey(), ec.generate_private_key(ec.SECP384R1())
    text = other.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    locked = mine._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    assert NodeKey(b"none", text, locked, mine.pem()).pem() == mine.pem()


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


def test_less_than_a_certificate_is_none_and_any_time_can_be_shown() -> None:
    with pytest.raises(ValueError, match="fields are missing"):
        Certificate.from_der(b"\x30\x04\x30\x02\x05\x00")
    assert format_time(1e30) == "9999-12-31 23:59:59 UTC"
    assert format_time(-1e30) == "1970-01-01 00:00:00 UTC"


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


def test_without_a_token_an_expired_certificate_of_this_node_is_named_and_no_other_s() -> None:
    expired = GOOD._replace(not_after=NOW - 1)
    another = expired._replace(common_name="system:node:another")
    found = [str(rules.no_way_to(each, NODE, NOW)) for each in (expired, another, None)]
    assert ["has expired" in text for text in found] == [True, False, False]


@given(st.floats(0, 1), st.floats(1, 1e9))
def test_the_renewal_is_within_70_and_90_percent_of_the_life(draw: float, life: float) -> None:
    due = renewal(GOOD._replace(not_before=NOW, not_after=NOW + life), draw)
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
    ("code", "words"),
    [(10, "clock ahead"), (20, "another CA"), (62, "not among the names"), (64, "not among the names"), (99, "odd")],
)
def test_a_certificate_of_the_cloud_that_is_refused_is_explained(code: int, words: str) -> None:
    """The name of a host, or its address."""
    error = ssl.SSLCertVerificationError(1, "failed")
    error.verify_code, error.verify_message = code, "odd"
    assert words in explain(error)


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


def test_a_certificate_for_an_unknown_kind_of_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(x509, "load_der_x509_certificate", Mock(side_effect=UnsupportedAlgorithm("of this test")))
    with pytest.raises(RefusedError, match="no certificate"):
        NodeKey().check(b"", [])


@pytest.mark.parametrize("failure", [None, RefusedError("the cloud gave no certificate")])
def test_the_process_that_obtains_a_certificate_tells_its_failure(
    monkeypatch: pytest.MonkeyPatch, failure: RefusedError | None
) -> None:
    """Otherwise the node would go on without one as if it had it."""
    settings = CertificateSettings(node=NODE, server="https://cloud", authority="a", certificate="c", key="k")
    asked, said = BytesIO(msgspec.json.encode(IssueRequest(settings, renew=True))), BytesIO()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=asked))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=said))
    monkeypatch.setattr(obtain, "renew", Mock(side_effect=failure))
    issue.main()
    result = decode_json(said.getvalue(), IssueResult)
    assert (result.failure is None) == (failure is None)


def test_a_key_of_a_join_is_whole_whenever_the_disk_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cloud may have signed it: the node's name would belong to a key that nobody has."""
    paths = TlsFiles(tmp_path / "ca.crt", tmp_path / "node.crt", tmp_path / "node.key")
    files.keep_joining_key(paths, b"the key")

    def torn(path: Path, data: bytes, _mode: int) -> None:
        path.write_bytes(data[:3])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "write_file", torn)
    with pytest.raises(FilesError):
        files.keep_joining_key(paths, b"the key")
    assert files.read_keys(paths, is_of_node=True) == [b"the key"]


@pytest.mark.parametrize(("token", "words"), [("", "no token"), (" \n", "no token"), ("not.whole", "malformed")])
def test_a_token_that_is_none_is_told_before_anything_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str, words: str
) -> None:
    """And nothing is said to expire of a certificate that is gone."""
    places: dict[str, Any] = {name: str(tmp_path / name) for name in ("authority", "certificate", "key")}
    settings = CertificateSettings(node=NODE, server="https://cloud", token=token, **places)
    counters = LinkCounters()
    counters.certificate_expires = 1.0
    manager = CertificateManager(settings, cast("Clock", StandingClock()), counters, cast("Any", None))
    with pytest.raises(TokenError, match=words):
        manager.ensure(lambda: True)
    assert not counters.certificate_expires
    monkeypatch.setattr(manager, "current", lambda: GOOD._replace(not_before=-9.0, not_after=-1.0))
    with pytest.raises(TokenError, match=words.replace("no token", "certificate has expired")):
        manager.ensure(lambda: True)


def test_a_certificate_that_is_not_there_yet_is_not_presented(tmp_path: Path) -> None:
    client_context(certificate=tmp_path / "node.crt", key=tmp_path / "node.key")


def test_one_check_of_the_certificate_waits_at_a_time_and_none_after_the_end() -> None:
    context = FakeContext()
    renewer: Any = SimpleNamespace(clock=context.clock, _timer=None, _renew_if_due=lambda: 5.0, actor_ref=Mock())
    renewer._cancel = lambda: Renewer._cancel(renewer)
    for _ in range(3):
        Renewer._check(renewer)
    context.simulation.run_for(10.0)
    assert renewer.actor_ref.tell.call_count == 1
    Renewer._check(renewer)
    Renewer.on_stop(renewer)
    context.simulation.run_for(10.0)
    assert renewer.actor_ref.tell.call_count == 1


def test_a_certificate_that_is_due_at_its_issue_is_renewed_once_in_the_backoff() -> None:
    """However often the file is looked at."""
    context = FakeContext()
    certificates = Mock(current=lambda: GOOD, why_unusable=lambda: None)
    renewer: Any = SimpleNamespace(
        clock=context.clock, _certificates=certificates, _backoff=Backoff(10.0, 600.0), _rests_until=float("-inf"),
        _deadline=lambda _: float("-inf"), _renewed=Mock(),
    )  # fmt: skip
    rest = Renewer._renew_if_due(renewer)
    context.simulation.run_for(rest / 2)
    assert Renewer._renew_if_due(renewer) == pytest.approx(rest / 2)
    assert certificates.renew.call_count == 1
    context.simulation.run_for(rest / 2 + 0.001)
    Renewer._renew_if_due(renewer)
    assert certificates.renew.call_count == renewer._renewed.call_count == 2
