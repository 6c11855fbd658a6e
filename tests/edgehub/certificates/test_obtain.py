"""Joining and renewing at a server of certificates on a real socket, with all failures."""

import errno
import hashlib
import os
import re
import stat
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509 import load_der_x509_csr

from beehive import RealClock
from beehive.sockets.tls import TlsFiles
from edgehub.certificates import obtain
from edgehub.certificates.files import finish_replacement, pem, read_certificate, store, unfinished
from edgehub.certificates.keys import NodeKey
from edgehub.certificates.obtain import join, renew
from edgehub.certificates.settings import CertificateSettings
from edgehub.errors import (
    AuthorityError,
    CertificateError,
    ClockError,
    FilesError,
    RefusedError,
    TokenError,
    UnreachableError,
    WrongNodeError,
)
from edgehub.tls import client_context
from tests.edgehub.certificates import recorded
from tests.edgehub.certificates.authority import DAY, NODE, Authority, CertificateServer, name

CLOCK = RealClock()


def joined(server: CertificateServer) -> CertificateSettings:
    """The settings of a node that has joined."""
    settings = server.settings()
    join(settings, CLOCK)
    return settings


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def everything_in(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_node_joins_with_a_token(server: CertificateServer) -> None:
    """CA, certificate and key are in their files, fit, and are nobody else's to read where they are secret."""
    settings = server.settings()
    previous = os.umask(0o027)
    try:
        certificate = join(settings, CLOCK)
    finally:
        os.umask(previous)
    assert certificate.common_name == f"system:node:{NODE}"
    paths = settings.paths
    assert paths.authority.read_bytes() == server.authority.certificate.public_bytes(Encoding.PEM)
    issued = x509.load_pem_x509_certificate(paths.certificate.read_bytes())
    key = load_pem_private_key(paths.key.read_bytes(), None)
    assert issued.public_key() == key.public_key()
    assert b"EC PRIVATE KEY" in paths.key.read_bytes()
    assert (mode(paths.authority), mode(paths.certificate), mode(paths.key)) == (0o644, 0o644, 0o600)
    assert mode(paths.key.parent) == 0o700
    client_context(paths.authority, paths.certificate, paths.key)
    assert sorted(path.name for path in paths.key.parent.iterdir()) == ["server.crt", "server.key"]


def test_the_requests_equal_a_real_kubeedges(server: CertificateServer) -> None:
    """Paths, order and headers as recorded; the token is sent to a server that was verified, and only there."""
    settings = joined(server)
    (first, *_), (second, sent, body, peer) = server.requests
    assert (first, second) == ("/ca.crt", "/edge.crt")
    ours = {key.lower(): value for key, value in sent.items()}
    theirs = recorded.headers(1)
    assert set(ours) | {"user-agent"} == set(theirs) | {"connection"}, "each call has a connection of its own"
    assert ours["nodename"] == NODE
    assert ours["authorization"] == "Bearer " + settings.token.partition(".")[2]
    assert ours["content-length"] == str(len(body))
    assert not peer
    assert all("authorization" not in {key.lower() for key in headers} for _, headers, _, _ in server.requests[:1])


def test_a_certificate_is_renewed_with_itself(server: CertificateServer, tmp_path: Path) -> None:
    """The certificate is shown, no token is; the key is a new one; the CA stays."""
    settings = joined(server)
    before = everything_in(tmp_path)
    renew(settings, CLOCK)
    path, headers, _, peer = server.requests[-1]
    assert path == "/edge.crt"
    assert "Authorization" not in headers
    assert headers["NodeName"] == NODE
    assert peer is not None
    assert (("commonName", f"system:node:{NODE}"),) in peer["subject"]
    after = everything_in(tmp_path)
    changed = {Path(each).name for each in after if after[each] != before[each]}
    assert changed == {"server.crt", "server.key"}
    client_context(settings.paths.authority, settings.paths.certificate, settings.paths.key)


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"token": "nonsense"}, TokenError, "is malformed"),
        ({"token": ""}, TokenError, "no token"),
        ({"server": "http://127.0.0.1:1"}, UnreachableError, "https://host:10002"),
        ({"server": "https://127.0.0.1:1"}, UnreachableError, "refused"),
    ],
)
def test_wrong_settings(
    server: CertificateServer, tmp_path: Path, wrong: dict[str, Any], error: type[CertificateError], words: str
) -> None:
    before = everything_in(tmp_path)
    with pytest.raises(error, match=words):
        join(server.settings(**wrong), CLOCK)
    assert everything_in(tmp_path) == before


def test_the_token_of_another_cloud(server: CertificateServer) -> None:
    """It is not sent to this one."""
    with pytest.raises(AuthorityError, match="not the token's"):
        join(server.settings(token=Authority().token()), CLOCK)
    assert [path for path, *_ in server.requests] == ["/ca.crt"]


def test_a_token_of_something_that_is_no_authority(server: CertificateServer) -> None:
    server.answers["/ca.crt"] = b"no certificate"
    token = hashlib.sha256(b"no certificate").hexdigest() + "." + server.authority.token().partition(".")[2]
    with pytest.raises(AuthorityError, match="is no certificate"):
        join(server.settings(token=token), CLOCK)


def test_an_expired_token(server: CertificateServer) -> None:
    """It says when, by the cloud's clock, and is not sent."""
    with pytest.raises(TokenError, match=r"expired: at 2020-09-13 12:26:40 UTC, it is 20"):
        join(server.settings(token=server.authority.token(1_600_000_000)), CLOCK)
    assert [path for path, *_ in server.requests] == ["/ca.crt"]


def test_the_cloud_s_clock_decides_over_the_token(server: CertificateServer) -> None:
    """A node whose clock is a year ahead still joins with a token of a day."""
    server.clock_off = -365 * DAY
    join(server.settings(token=server.authority.token(CLOCK.now() - DAY)), CLOCK)


def test_a_refusal_carries_the_cloud_s_words_and_no_token(server: CertificateServer) -> None:
    settings = server.settings()
    server.refusal = 401, "Invalid authorization token\n\x1b[31m" + "x" * 5000
    with pytest.raises(RefusedError, match=r"answered 401.*Invalid authorization token.*a new token") as caught:
        join(settings, CLOCK)
    assert settings.token.split(".")[-1] not in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("path", "body", "error"),
    [
        ("/edge.crt", b"", RefusedError),
        ("/edge.crt", b"\x30\x03abc", RefusedError),
        ("/edge.crt", b"x" * (1 << 20), RefusedError),
        ("/ca.crt", b"", AuthorityError),
        ("/ca.crt", b"x" * (1 << 20), RefusedError),
    ],
)
def test_answers_that_are_no_certificates(
    server: CertificateServer, path: str, body: bytes, error: type[CertificateError]
) -> None:
    server.answers[path] = body
    with pytest.raises(error):
        join(server.settings(), CLOCK)


def test_a_certificate_for_another_key(server: CertificateServer) -> None:
    other = server.authority.sign(server.authority.key.public_key(), server.subject)
    server.answers["/edge.crt"] = other.public_bytes(Encoding.DER)
    with pytest.raises(RefusedError, match="a key other than ours"):
        join(server.settings(), CLOCK)


def test_a_certificate_signed_by_another_authority_of_the_same_name(server: CertificateServer) -> None:
    server.signer = Authority()
    with pytest.raises(AuthorityError, match="signed by another CA"):
        join(server.settings(), CLOCK)


def test_a_certificate_that_is_over(server: CertificateServer) -> None:
    server.since, server.life = -100.0, 50.0
    with pytest.raises(RefusedError, match="has expired"):
        join(server.settings(), CLOCK)


def test_a_server_of_another_name(authority: Authority, tmp_path: Path) -> None:
    """Whatever its clock is."""
    context = authority.server_context(tmp_path, names=("cloud.example", "192.0.2.1"))
    with (
        CertificateServer(authority, context) as server,
        pytest.raises(UnreachableError, match="not among the names in the cloud's certificate"),
    ):
        server.clock_off = 3 * DAY
        join(server.settings(tmp_path, token=authority.token(CLOCK.now() + 30 * DAY)), CLOCK)


def test_a_server_whose_certificate_another_authority_signed(authority: Authority, tmp_path: Path) -> None:
    """The answer to /ca.crt is right, but who answers does not have a certificate of that CA."""
    context = Authority().server_context(tmp_path)
    with CertificateServer(authority, context) as server, pytest.raises(UnreachableError, match="signed by another CA"):
        join(server.settings(tmp_path), CLOCK)


@pytest.mark.parametrize(
    ("since", "off", "words"),
    [(2 * DAY, 3 * DAY, "clock is 3 days behind"), (-9 * DAY, -8 * DAY, "clock is 8 days ahead")],
)
def test_a_clock_that_is_off(authority: Authority, tmp_path: Path, since: float, off: float, words: str) -> None:
    """The server's certificate is not valid at this node's time, but at the cloud's."""
    context = authority.server_context(tmp_path, since=since, life=2 * DAY)
    with CertificateServer(authority, context) as server:
        server.clock_off = off
        token = authority.token(CLOCK.now() + 30 * DAY)
        with pytest.raises(ClockError, match=words):
            join(server.settings(tmp_path, token=token), CLOCK)


def test_an_expired_certificate_of_the_server_is_not_taken_for_a_clock(authority: Authority, tmp_path: Path) -> None:
    context = authority.server_context(tmp_path, since=-9 * DAY, life=DAY)
    with CertificateServer(authority, context) as server, pytest.raises(UnreachableError, match="has expired"):
        join(server.settings(tmp_path), CLOCK)


def test_files_that_cannot_be_written(server: CertificateServer, tmp_path: Path) -> None:
    (tmp_path / "certs").write_text("a file where a directory should be")
    with pytest.raises(FilesError, match="cannot write"):
        join(server.settings(), CLOCK)


def test_what_a_join_may_leave_is_removed_with_the_node() -> None:
    """Keys, too."""
    assert {each.name for each in unfinished(Path("k"))} == {"k.new", "k.joining", "k.joining.new"}


def test_files_that_cannot_be_looked_for(tmp_path: Path) -> None:
    """As in a directory that is another user's; for a link it is one more reason why it did not come up."""
    paths = TlsFiles(tmp_path / "ca.crt", tmp_path / "node.crt", tmp_path / ("k" * 300))
    with pytest.raises(FilesError, match="cannot look for"):
        finish_replacement(paths)


@pytest.mark.parametrize("missing", ["certificate", "key", "authority"])
def test_a_renewal_without_one_of_the_files(server: CertificateServer, missing: str) -> None:
    settings = joined(server)
    path: Path = getattr(settings.paths, missing)
    path.unlink()
    with pytest.raises(CertificateError):
        renew(settings, CLOCK)


def test_a_renewal_with_a_key_of_another_certificate(server: CertificateServer) -> None:
    settings = joined(server)
    settings.paths.key.write_bytes(NodeKey().pem())
    with pytest.raises(FilesError, match="not that of the certificate"):
        renew(settings, CLOCK)


class _Crash(BaseException):
    pass


@pytest.mark.parametrize("at", range(1, 4))
def test_a_crash_between_the_files_leaves_a_pair_that_fits(
    server: CertificateServer, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each renaming of a renewal: what is found afterwards can be used, and renewed."""
    settings = joined(server)
    renamed = []
    real = Path.replace

    def replace(source: Path, target: Any) -> Path:
        renamed.append(target)
        if len(renamed) == at:
            raise _Crash
        return real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace)
        if at <= 2:
            with pytest.raises(_Crash):
                renew(settings, CLOCK)
        else:
            renew(settings, CLOCK)
    if at == 2:
        settings.paths.certificate.unlink()  # a first one has none before it
    renew(settings, CLOCK)
    client_context(settings.paths.authority, settings.paths.certificate, settings.paths.key)


def test_a_link_that_dials_while_the_disk_is_slow_does_not_fail_the_renewal(
    server: CertificateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finishes what it takes for interrupted: the key has its place already, the certificate not yet."""
    settings = joined(server)
    flush, dials = os.fsync, [0]

    def slow(descriptor: int) -> None:
        dials[0] += 1
        finish_replacement(settings.paths)
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    renewed = renew(settings, CLOCK)
    assert dials[0] == 6
    assert read_certificate(settings.paths.certificate) == renewed
    client_context(settings.paths.authority, settings.paths.certificate, settings.paths.key)


def test_remains_of_an_interrupted_renewal_are_not_taken_for_the_next_one_s(
    server: CertificateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its key is overwritten first, so a reader may then find a waiting certificate without a key beside it."""
    settings = joined(server)
    with monkeypatch.context() as patch, pytest.raises(_Crash):
        patch.setattr(Path, "replace", Mock(side_effect=_Crash))
        renew(settings, CLOCK)
    remove = Path.unlink

    def looked(path: Path, *, missing_ok: bool = False) -> None:
        remove(path, missing_ok=missing_ok)
        finish_replacement(settings.paths)
        client_context(settings.paths.authority, settings.paths.certificate, settings.paths.key)

    monkeypatch.setattr(Path, "unlink", looked)
    renew(settings, CLOCK)
    client_context(settings.paths.authority, settings.paths.certificate, settings.paths.key)


def test_a_link_in_the_place_of_a_new_file_is_not_followed(server: CertificateServer, tmp_path: Path) -> None:
    """It is replaced; what it points to stays as it is."""
    settings = server.settings()
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    settings.paths.key.parent.mkdir()
    settings.paths.key.with_name("server.key.new").symlink_to(victim)
    join(settings, CLOCK)
    assert victim.read_bytes() == b"precious"
    assert not settings.paths.key.is_symlink()


def test_storing_twice_is_storing_once(server: CertificateServer) -> None:
    settings = server.settings()
    for _ in range(2):
        store(settings.paths, b"authority", b"certificate", b"key")
    assert [each.read_bytes() for each in (settings.paths.authority, settings.paths.key)] == [b"authority", b"key"]


def test_a_machine_joins_again_with_its_key(server: CertificateServer) -> None:
    """The name belongs to its key. A machine that replaces another, or changes its name, makes a new key."""
    settings = joined(server)
    key = settings.paths.key.read_bytes()
    settings.paths.certificate.unlink()
    join(settings, CLOCK)
    assert settings.paths.key.read_bytes() == key
    replacing = server.settings(replace=True, token=server.authority.token(node=NODE, replace=True))
    join(replacing, CLOCK)
    assert settings.paths.key.read_bytes() != key
    key = settings.paths.key.read_bytes()
    server.subject = name("system:node:other", "system:nodes")
    join(server.settings(node="other"), CLOCK)
    assert settings.paths.key.read_bytes() != key


@pytest.mark.parametrize("replace", [False, True])
def test_a_join_whose_answer_is_lost_is_repeated_with_its_key(
    server: CertificateServer, tmp_path: Path, *, replace: bool
) -> None:
    """The cloud may have given the name, and the token for one node, to this key; afterwards nothing is left behind.
    Also when a machine takes another's place whose files it has.
    """
    settings = server.settings(token=server.authority.token(node=NODE, replace=True), replace=replace)
    if replace:
        join(server.settings(), CLOCK)
    server.cut_off.set()
    with pytest.raises(UnreachableError):
        join(settings, CLOCK)
    first = key_of_request(server)
    server.cut_off.clear()
    join(settings, CLOCK)
    assert key_of_request(server) == first
    assert sorted(path.name for path in (tmp_path / "certs").iterdir()) == ["server.crt", "server.key"]


def test_a_machine_joins_again_with_its_key_though_the_certificate_is_damaged(server: CertificateServer) -> None:
    settings = joined(server)
    key = settings.paths.key.read_bytes()
    settings.paths.certificate.write_bytes(b"damaged")
    join(settings, CLOCK)
    assert settings.paths.key.read_bytes() == key


def test_the_authority_that_signs_may_be_any_of_the_file(server: CertificateServer) -> None:
    """A cloud changes its authority while nodes know both."""
    settings = joined(server)
    strange = Authority()
    other = strange.sign(strange.key.public_key(), name("Other"), authority=True).public_bytes(Encoding.DER)
    for order in ((server.authority.der, other), (other, server.authority.der)):
        settings.paths.authority.write_bytes(b"".join(map(pem, order)))
        renew(settings, CLOCK)


def test_a_certificate_that_cannot_be_put_in_place_is_an_error(
    server: CertificateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = server.settings()
    replace = Path.replace

    def failing(source: Path, target: Path) -> Path:
        if target == settings.paths.certificate:
            raise OSError(errno.EROFS, "read-only")
        return replace(source, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(FilesError, match="cannot replace"):
        join(settings, CLOCK)


def test_a_join_that_is_killed_is_repeated_with_its_key(
    server: CertificateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by the time limit, a stop of edgecore or a power cut, after the cloud gave the name to the key."""
    sign = obtain.CertificateServer.sign

    def killed(*given: Any) -> None:
        sign(*given)
        raise _Crash

    with monkeypatch.context() as patch, pytest.raises(_Crash):
        patch.setattr(obtain.CertificateServer, "sign", killed)
        join(server.settings(), CLOCK)
    first = key_of_request(server)
    join(server.settings(), CLOCK)
    assert key_of_request(server) == first


@pytest.mark.parametrize(
    ("answer", "error"),
    [((403, "the records of identities cannot be changed: no answer"), RefusedError), (None, WrongNodeError)],
)
def test_a_join_that_is_refused_is_repeated_with_its_key(
    server: CertificateServer, tmp_path: Path, answer: tuple[int, str] | None, error: type[CertificateError]
) -> None:
    """A cloud that does not know whether it has stored the key refuses. The certificate that was there stays."""
    join(server.settings(), CLOCK)
    present = everything_in(tmp_path)
    server.refusal = answer
    for _ in range(2):
        with pytest.raises(error):
            join(server.settings(node="other"), CLOCK)
    first, second = (load_der_x509_csr(request[2]).public_key() for request in server.requests[-3::2])
    assert first == second
    assert {path: everything_in(tmp_path)[path] for path in present} == present
    server.refusal = None
    join(server.settings(), CLOCK)
    assert everything_in(tmp_path)[str(server.settings().paths.key)] in present.values(), "the name's own key"


def test_a_damaged_key_does_not_hide_the_key_of_a_join(server: CertificateServer) -> None:
    server.cut_off.set()
    settings = server.settings()
    settings.paths.key.parent.mkdir()
    settings.paths.key.write_bytes(bytes(200))
    for _ in range(2):
        with pytest.raises(UnreachableError):
            join(settings, CLOCK)
    first, second = (load_der_x509_csr(request[2]).public_key() for request in server.requests[-3::2])
    assert first == second


def key_of_request(server: CertificateServer) -> object:
    """The key of the last request."""
    return load_der_x509_csr(server.requests[-1][2]).public_key()


@pytest.mark.parametrize(
    ("claims", "changes", "words"),
    [
        ({"node": "other"}, {}, "the token is for another node: for other"),
        ({"node": NODE}, {"replace": True}, f"cloudcore token --node {NODE} --replace"),
        ({}, {"replace": True}, "does not allow a machine to replace another"),
    ],
)
def test_a_token_that_is_not_for_this_is_not_used(
    server: CertificateServer, claims: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(TokenError, match=re.escape(words)):
        join(server.settings(token=server.authority.token(**claims), **changes), CLOCK)
    assert [path for path, *_ in server.requests] == ["/ca.crt"]
