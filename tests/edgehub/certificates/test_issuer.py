"""The process that fetches certificates, and the links that wait for it."""

import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from beehive import RealClock
from edgehub.certificates import files, issuer
from edgehub.certificates.certificate import Certificate, format_time
from edgehub.certificates.files import pem, store
from edgehub.certificates.issuer import SubprocessIssuer
from edgehub.certificates.manager import CertificateManager
from edgehub.certificates.settings import CertificateSettings
from edgehub.counters import LinkCounters
from edgehub.errors import (
    CertificateError,
    ClockError,
    ClosedHereError,
    DialError,
    IssuerError,
    LinkError,
    RefusedError,
    TokenError,
)
from edgehub.install import CertifiedLink
from edgehub.link import Link, LinkEvents
from edgehub.tls import client_context
from tests.edgehub.certificates.authority import DAY, NODE, Authority, CertificateServer, key_pem, name
from tests.edgehub.links import RunningLink
from tests.support.patience import PATIENCE


class StubLink(Link):
    """Comes up and waits for its end, or ends with an error."""

    def __init__(self, error: LinkError | None = None) -> None:
        self._error = error
        self._closed = threading.Event()
        self.sent: list[bytes] = []

    def run(self, events: LinkEvents) -> LinkError:
        if self._error is not None:
            return self._error
        events.opened()
        assert self._closed.wait(PATIENCE)
        return ClosedHereError()

    def send(self, frame: bytes) -> None:
        self.sent.append(frame)

    def close(self) -> None:
        self._closed.set()


def put(settings: CertificateSettings, authority: Authority, *, since: float = -60.0, node: str = NODE) -> None:
    """A certificate in its files."""
    issued = authority.sign(authority.key.public_key(), name(f"system:node:{node}", "system:nodes"), since=since)
    store(settings.paths, pem(authority.der), issued.public_bytes(Encoding.PEM), key_pem(authority.key))


def certified(settings: CertificateSettings, link: Link, counters: LinkCounters) -> CertifiedLink:
    return CertifiedLink(lambda: link, CertificateManager(settings, RealClock(), counters, SubprocessIssuer()))


def test_a_missing_certificate_is_fetched_before_the_link_is_made(
    server: CertificateServer, caplog: pytest.LogCaptureFixture
) -> None:
    """By a process of its own; the counters know of it, and when it ends. The log has no token."""
    counters, settings = LinkCounters(), server.settings()
    inner = StubLink()
    with RunningLink(certified(settings, inner, counters)) as running:
        running.wait_open()
        running.link.send(b"frame")
    assert inner.sent == [b"frame"]
    assert settings.paths.key.exists()
    assert counters.certificates == {"issued": 1}
    assert counters.certificate_expires is not None
    assert counters.certificate_expires > RealClock().now()
    assert "this node needs a certificate" in caplog.text
    assert settings.token.rpartition(".")[2] not in caplog.text


def test_a_certificate_that_will_do_is_not_fetched_again(server: CertificateServer) -> None:
    """Nobody is asked, and no token is needed."""
    settings = server.settings(token="")
    put(settings, server.authority)
    with RunningLink(certified(settings, StubLink(), LinkCounters())) as running:
        running.wait_open()
    assert server.requests == []


def test_a_link_dials_with_a_pair_that_fits_after_a_crash(
    server: CertificateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A renewal was interrupted between key and certificate."""
    settings = server.settings(token="")
    put(settings, server.authority)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(files, "_put_certificate_in_place", Mock(side_effect=KeyboardInterrupt))
        key = ec.generate_private_key(ec.SECP256R1())
        issued = server.authority.sign(key.public_key(), name(f"system:node:{NODE}", "system:nodes"))
        store(settings.paths, None, issued.public_bytes(Encoding.PEM), key_pem(key))
    with RunningLink(certified(settings, StubLink(), LinkCounters())) as running:
        running.wait_open()
    client_context(settings.paths.authority, settings.paths.certificate, settings.paths.key)


@pytest.mark.parametrize(("since", "node"), [(-2 * DAY, NODE), (-60.0, "somebody-else")])
def test_an_unusable_certificate_is_replaced(server: CertificateServer, since: float, node: str) -> None:
    """An expired one, and another node's."""
    settings = server.settings()
    put(settings, server.authority, since=since, node=node)
    with RunningLink(certified(settings, StubLink(), LinkCounters())) as running:
        running.wait_open()
    assert [path for path, *_ in server.requests] == ["/ca.crt", "/edge.crt"]


@pytest.mark.parametrize("missing", ["key", "authority"])
def test_a_missing_file_beside_it_is_fetched(server: CertificateServer, missing: str) -> None:
    settings = server.settings()
    put(settings, server.authority)
    path: Path = getattr(settings.paths, missing)
    path.unlink()
    with RunningLink(certified(settings, StubLink(), LinkCounters())) as running:
        running.wait_open()
    assert path.exists()


def test_a_refusal_ends_the_try_with_its_own_name(server: CertificateServer) -> None:
    """It crosses from the other process with its words, and is counted."""
    counters = LinkCounters()
    server.refusal = 401, "no such node"
    with RunningLink(certified(server.settings(), StubLink(), counters)) as running:
        end = running.wait_end()
    assert isinstance(end, RefusedError)
    assert "no such node" in str(end)
    assert counters.certificates == {"certificate refused": 1}


def test_without_a_token_no_process_is_started(server: CertificateServer) -> None:
    counters = LinkCounters()
    with RunningLink(certified(server.settings(token=""), StubLink(), counters)) as running:
        end = running.wait_end()
    assert isinstance(end, TokenError)
    assert not counters.certificates


def test_an_expired_certificate_without_a_token_is_an_error_with_its_date_and_the_remedy(
    server: CertificateServer,
) -> None:
    """The clock was 500 days ahead, and the node said that it had no certificate."""
    settings = server.settings(token="")
    put(settings, server.authority, since=-500 * DAY)
    with RunningLink(certified(settings, StubLink(), LinkCounters())) as running:
        end = running.wait_end()
    certificate = Certificate.from_pem(settings.paths.certificate.read_bytes())
    assert isinstance(end, TokenError)
    assert str(end).startswith("this node's certificate has expired: it was valid until ")
    assert format_time(certificate.not_after) in str(end)
    assert "`edgecore join`" in str(end)


def test_closing_ends_a_process_that_waits_for_a_silent_cloud(server: CertificateServer) -> None:
    """It ends immediately, as a wanted end; no key is left behind."""
    server.silent.set()
    settings = server.settings()
    running = RunningLink(certified(settings, StubLink(), LinkCounters()))
    with running:
        _await(lambda: bool(server.requests))
        running.link.close()
        end = running.wait_end()
    assert isinstance(end, ClosedHereError)
    assert not settings.paths.key.parent.exists()


def test_a_link_closed_before_it_ran_dials_nobody(server: CertificateServer) -> None:
    settings = server.settings()
    put(settings, server.authority)
    link = certified(settings, StubLink(), LinkCounters())
    link.close()
    with RunningLink(link) as running:
        assert isinstance(running.wait_end(), ClosedHereError)
    assert running.events == []


def test_a_clock_behind_the_certificate_is_the_better_reason(server: CertificateServer) -> None:
    """Of a TLS connection that failed; other ends keep theirs."""
    settings = server.settings()
    put(settings, server.authority, since=3 * DAY)
    dial, lost = DialError("no TLS"), LinkError("lost")
    for given, kind in ((dial, ClockError), (lost, LinkError)):
        with RunningLink(certified(settings, StubLink(given), LinkCounters())) as running:
            assert type(running.wait_end()) is kind


def test_a_slow_cloud_is_given_up(server: CertificateServer) -> None:
    server.silent.set()
    with pytest.raises(IssuerError, match="in time"):
        SubprocessIssuer(timeout=1.0).obtain(server.settings(), renew=False, wanted=lambda: True)


def test_an_attempt_that_is_wanted_no_more_is_ended(server: CertificateServer) -> None:
    """Also when `cancel` came before the process was there."""
    server.silent.set()
    with pytest.raises(IssuerError, match="it was killed"):
        SubprocessIssuer().obtain(server.settings(), renew=False, wanted=lambda: False)


def test_a_process_that_cannot_be_heard_is_killed(server: CertificateServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be waited for without end."""
    waiting = list[subprocess.Popen[bytes]]()

    def communicate(process: subprocess.Popen[bytes], *_: object) -> None:
        waiting.append(process)
        raise MemoryError

    monkeypatch.setattr(issuer, "COMMAND", ("/bin/cat",))
    monkeypatch.setattr(subprocess.Popen, "communicate", communicate)
    one = SubprocessIssuer()
    with pytest.raises(MemoryError):
        one.obtain(server.settings(), renew=True, wanted=lambda: True)
    assert ([each.returncode for each in waiting], one._process) == ([-signal.SIGKILL], None)


def test_certificates_are_fetched_one_at_a_time(server: CertificateServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two attempts would write the same files."""
    monkeypatch.setattr(issuer, "COMMAND", ("/bin/cat",))
    one, held = SubprocessIssuer(), list[bool]()

    def wanted() -> bool:
        held.append(one._one_at_a_time.locked())
        return True

    one.obtain(server.settings(), renew=True, wanted=wanted)
    assert held == [True]
    assert not one._one_at_a_time.locked()


@pytest.mark.parametrize("command", [("/nonexistent",), ("/bin/false",), ("/bin/true",)])
def test_a_process_that_does_not_do_its_work(
    server: CertificateServer, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """It does not start, fails, says nothing: each is an error with a name."""
    monkeypatch.setattr(issuer, "COMMAND", command)
    with pytest.raises(IssuerError):
        SubprocessIssuer().obtain(server.settings(), renew=False, wanted=lambda: True)


def test_a_process_that_complains_without_end_is_quoted_briefly(
    server: CertificateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuer, "COMMAND", ("sh", "-c", "printf %09999d 0 >&2; exit 3"))
    with pytest.raises(IssuerError) as caught:
        SubprocessIssuer().obtain(server.settings(), renew=False, wanted=lambda: True)
    assert len(str(caught.value)) < 500


def test_neither_the_token_nor_the_key_is_in_an_error_or_in_the_settings_repr(server: CertificateServer) -> None:
    settings = server.settings()
    secret = settings.token.rpartition(".")[2]
    server.refusal = 500, "x"
    with pytest.raises(CertificateError) as caught:
        SubprocessIssuer().obtain(settings, renew=False, wanted=lambda: True)
    assert secret not in str(caught.value)
    assert secret not in repr(settings)


def _await(true: Callable[[], bool]) -> None:
    deadline, never = RealClock().monotonic() + PATIENCE, threading.Event()
    while not true():
        assert RealClock().monotonic() < deadline
        never.wait(0.01)
