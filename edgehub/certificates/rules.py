"""Rules about certificates: usability, clocks. Pure. They are from KubeEdge's certmanager."""

from typing import Final

from edgehub.certificates.certificate import Certificate, format_duration, format_time
from edgehub.certificates.token import HOW_TO_GET_ONE
from edgehub.errors import ClockError, RefusedError, TokenError, WrongNodeError

ORGANISATION: Final = "system:nodes"
SUBJECT: Final = (("C", "CN"), ("ST", "Zhejiang"), ("L", "Hangzhou"), ("O", ORGANISATION))
"""Parts of the subject before the common name, in KubeEdge's order."""

CLOCK_TOLERANCE: Final = 60.0
"""Largest difference of two clocks, in seconds, without a ClockError."""


def common_name(node: str) -> str:
    """Return Kubernetes' user name of a node."""
    return f"system:node:{node}"


def why_unusable(certificate: Certificate | None, node: str, now: float) -> str | None:
    """Return why the node needs another certificate, as text; None if this one is usable.

    A certificate that is not yet valid is usable: the cloud decides, and its clock may be the correct one.
    """
    if certificate is None:
        return "there is none"
    if certificate.common_name != common_name(node):
        return f"it is for {certificate.common_name or 'nobody'}, this node is {common_name(node)}"
    if certificate.not_after <= now:
        return f"it expired at {format_time(certificate.not_after)}"
    return None


def no_way_to(certificate: Certificate | None, node: str, now: float) -> TokenError:
    """Return the error for a node that needs a certificate and has no token to get one with."""
    if certificate is None or certificate.common_name != common_name(node) or certificate.not_after > now:
        return TokenError("this node has no certificate, and no token to get one with", "", HOW_TO_GET_ONE)
    on = f"it was valid until {format_time(certificate.not_after)}, it is {format_time(now)} now"
    hint = "if the clock is right: `edgecore join` with a token of the cloud makes a new one; if it is wrong, set it"
    return TokenError("this node's certificate has expired", on, hint)


def check_issued(certificate: Certificate, node: str, now: float) -> None:
    """Check a certificate that the cloud has signed.

    Raises:
        WrongNodeError: it names another node.
        RefusedError: it has expired.
    """
    names = (certificate.organisation, certificate.common_name)
    if names != (ORGANISATION, common_name(node)):
        hint = f"{ORGANISATION}, {common_name(node)} was asked for"
        raise WrongNodeError("the cloud signed a certificate for somebody else", ", ".join(names), hint)
    if certificate.not_after <= now:
        hint = f"it is {format_time(now)} on this node; is its clock right?"
        raise RefusedError("the cloud signed a certificate that has expired", format_time(certificate.not_after), hint)


def check_clock(certificate: Certificate | None, now: float) -> None:
    """Raise ClockError if the clock is before the beginning of the node's own certificate."""
    if certificate is not None and certificate.not_before - now > CLOCK_TOLERANCE:
        raise clock_error(certificate.not_before - now, now, at_least=True)


def clock_error(behind: float, now: float, *, at_least: bool = False) -> ClockError:
    """Return the error for a clock that is `behind` by seconds (ahead if negative)."""
    where = "behind" if behind > 0 else "ahead"
    by = f"{'at least ' if at_least else ''}{format_duration(abs(behind))} {where}"
    on = f"it says {format_time(now)}, the cloud {'at least ' if at_least else ''}{format_time(now + behind)}"
    return ClockError(f"this node's clock is {by}", on, "set it, for example with NTP")
