"""Checks of certificate, token and cloud. Pure.

Only the first failure on the way to the cloud is reported, without its consequences.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from edgehub.certificates.certificate import format_duration, format_time
from edgehub.certificates.rules import CLOCK_TOLERANCE, common_name
from modules.processes.common.doctor.check_result import CheckResult, Level, failed, ok, warning
from modules.processes.edgecore.doctor.facts import CloudReach, Identity, Reach

SOON: Final = 7 * 24 * 3600.0
"""Seconds before a certificate's end when warnings begin, or a tenth of its life if that is less."""

_NO_HTTP: Final = (
    "something else listens there, or it wants TLS: `edgecore join --cloud HOST --token T`, or set "
    "modules.edgeHub.websocket.server to wss://HOST:PORT"
)

_JOIN: Final = "`edgecore join --cloud HOST --token T`; `cloudcore token`, or `keadm gettoken`, prints a token"


def check_identity(identity: Identity, node: str, now: float) -> Iterator[CheckResult]:
    """Check the node's certificate, its key, and the token for another one."""
    yield from _certificate(identity, node, now)
    if identity.authority_problem:
        yield failed("CA", identity.authority_problem, _JOIN)
    if identity.certificate is not None and identity.key_problem:
        yield failed("key", identity.key_problem, _JOIN)
    elif identity.certificate is not None and identity.key_mode & 0o077:
        yield warning("key", f"others can open it (mode {identity.key_mode:04o})", "chmod 600")


def _certificate(identity: Identity, node: str, now: float) -> Iterator[CheckResult]:
    certificate = identity.certificate
    if identity.certificate_problem:
        yield failed("certificate", identity.certificate_problem, _JOIN)
    elif certificate is None:
        yield from _token(identity)
    elif certificate.common_name != common_name(node):
        text = f"it is for {certificate.common_name or 'nobody'}, this node is {common_name(node)}"
        yield failed("certificate", text, f"set hostnameOverride, or join again: {_JOIN}")
    elif certificate.not_after <= now:
        ago = format_duration(now - certificate.not_after)
        text = f"it expired at {format_time(certificate.not_after)}, {ago} ago by this clock"
        yield failed("certificate", text, f"if the clock is right, join again: {_JOIN}")
    elif certificate.not_before - now > CLOCK_TOLERANCE:
        text = f"it is valid from {format_time(certificate.not_before)} on, this clock says {format_time(now)}"
        yield failed("certificate", text, "set the clock, for example with NTP")
    elif certificate.not_after - now < min(SOON, 0.1 * (certificate.not_after - certificate.not_before)):
        text = f"it ends at {format_time(certificate.not_after)} and was not renewed"
        yield warning("certificate", text, "rotateCertificates, and the server of certificates, are to be looked at")
    else:
        yield ok("certificate", f"{certificate.common_name}, until {format_time(certificate.not_after)}")


def _token(identity: Identity) -> Iterator[CheckResult]:
    if not identity.has_token:
        yield failed("certificate", "there is none, and no token to get one with", _JOIN)
    elif identity.token_problem:
        yield failed("token", identity.token_problem, _JOIN)
    else:
        yield ok("certificate", "there is none; the next start gets one with the token")


def check_cloud(cloud: CloudReach, now: float) -> Iterator[CheckResult]:
    """Check the ways to the cloud's servers, and the clocks."""
    yield from _links((cloud.link, *cloud.backups), secure=cloud.secure)
    if cloud.certificates is not None:
        yield from _reach(cloud.certificates, secure=True)
    if cloud.other_authority:
        text = "the cloud has another CA than this node's CA file: it was set up again, or it is another cloud"
        yield failed("CA", text, f"if it is the right one, join again: {_JOIN}")
    aheads = [each.ahead for each in (cloud.link, cloud.certificates) if each is not None and each.ahead is not None]
    if aheads:
        yield _clock(min(aheads, key=abs), now)


def _links(links: Sequence[Reach], *, secure: bool) -> Iterator[CheckResult]:
    """Check the servers of the link; a failure of one server is a warning when another one answers."""
    results = [result for each in links for result in _reach(each, secure=secure)]
    one_answers = any(result.level is Level.OK for result in results)
    for result in results:
        is_harmless = one_answers and result.level is Level.FAILED
        yield warning(result.check, result.text, result.hint) if is_harmless else result


def _reach(reach: Reach, *, secure: bool) -> Iterator[CheckResult]:
    name, where = f"cloud, {reach.purpose}", f"{reach.host}:{reach.port}"
    if reach.name_problem:
        hint = "is the name right, does /etc/resolv.conf name a server that answers?"
        yield failed(name, f"the name {reach.host} cannot be looked up: {reach.name_problem}", hint)
    elif reach.tcp_problem:
        hint = "is cloudcore running, is a firewall between, are host and port right?"
        yield failed(name, f"{where} ({', '.join(reach.addresses)}) cannot be reached: {reach.tcp_problem}", hint)
    elif reach.tls_problem:
        yield failed(name, f"{where}: {reach.tls_problem}", "see the checks of certificate, CA and clock")
    elif not reach.answers:
        yield failed(name, f"{where} does not answer in HTTP", _NO_HTTP)
    else:
        yield ok(name, f"{where} answers{' over TLS' if secure else ''}")


def _clock(ahead: float, now: float) -> CheckResult:
    if abs(ahead) <= CLOCK_TOLERANCE:
        return ok("clock", "that of the cloud says the same")
    where = "behind" if ahead > 0 else "ahead"
    by, there = format_duration(abs(ahead)), format_time(now + ahead)
    text = f"this node's clock is {by} {where}: it says {format_time(now)}, the cloud {there}"
    return failed("clock", text, "set it, for example with NTP")
