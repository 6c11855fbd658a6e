"""The messages between the agent and the process that fetches certificates, as JSON."""

import msgspec

from edgehub.certificates.settings import CertificateSettings
from edgehub.errors import Failure


class IssueRequest(msgspec.Struct, frozen=True):
    """Request for one certificate."""

    settings: CertificateSettings
    renew: bool = False
    """Whether to authenticate with the present certificate; otherwise with the token."""


class IssueResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """Result of a request."""

    failure: Failure | None = None
    """None for success: the files hold the new certificate."""
