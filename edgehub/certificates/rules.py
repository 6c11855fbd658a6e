"""When a certificate will do, when it is renewed, and what a clock must have to do with it. Pure.

The rules are those of KubeEdge's certmanager, and for the renewal of Kubernetes' own (client-go's certificate manager).
"""

from typing import Final

from edgehub.certificates.certificate import Certificate
from edgehub.certificates.errors import ClockError, RefusedError, WrongNodeError
from edgehub.certificates.times import lasting, shown

ORGANISATION: Final = "system:nodes"
SUBJECT: Final = (("C", "CN"), ("ST", "Zhejiang"), ("L", "Hangzhou"), ("O", ORGANISATION))
"""What stands before the common name in a node's request, in KubeEdge's order on the wire."""

EARLIEST, LATEST = 0.7, 0.9
"""Shares of a certificate's life between which it is renewed; drawn, so that nodes do not all come at once."""

CLOCK_TOLERANCE: Final = 60.0
"""Seconds by which two clocks may differ without being named in an error."""


def common_name(node: str) -> str:
    """Kubernetes' user name of a node."""
    return f"system:node:{node}"


def why_unusable(certificate: Certificate | None, node: str, now: float) -> str | None:
    """Why another certificate is needed, in words; None when this one will do.

    One that is not valid yet will do: the cloud has the say, and its clock may be the right one.
    """
    if certificate is None:
        return "there is none"
    if certificate.common_name != common_name(node):
        return f"it is for {certificate.common_name or 'nobody'}, this node is {common_name(node)}"
    if certificate.not_after <= now:
        return f"it expired at {shown(certificate.not_after)}"
    return None


def renewal(certificate: Certificate, draw: float) -> float:
    """Unix time at which a certificate is to be renewed; `draw` is from 0 to 1."""
    life = certificate.not_after - certificate.not_before
    return certificate.not_before + life * (EARLIEST + (LATEST - EARLIEST) * draw)


def check_issued(certificate: Certificate, node: str, now: float) -> None:
    """Whether what the cloud has signed is of use.

    Raises:
        WrongNodeError: it names somebody else.
        RefusedError: it is over already.
    """
    names = (certificate.organisation, certificate.common_name)
    if names != (ORGANISATION, common_name(node)):
        hint = f"{ORGANISATION}, {common_name(node)} was asked for"
        raise WrongNodeError("the cloud signed a certificate for somebody else", ", ".join(names), hint)
    if certificate.not_after <= now:
        hint = f"it is {shown(now)} on this node; is its clock right?"
        raise RefusedError("the cloud signed a certificate that is over", shown(certificate.not_after), hint)


def check_clock(certificate: Certificate | None, now: float) -> None:
    """Raises ClockError when the clock says a time before the node's own certificate was made."""
    if certificate is not None and certificate.not_before - now > CLOCK_TOLERANCE:
        raise clock_error(certificate.not_before - now, now, at_least=True)


def clock_error(behind: float, now: float, *, at_least: bool = False) -> ClockError:
    """The error that names a clock which is `behind` by seconds (ahead when negative)."""
    where = "behind" if behind > 0 else "ahead"
    by = f"{'at least ' if at_least else ''}{lasting(abs(behind))} {where}"
    on = f"it says {shown(now)}, the cloud {'at least ' if at_least else ''}{shown(now + behind)}"
    return ClockError(f"this node's clock is {by}", on, "set it, for example with NTP")
