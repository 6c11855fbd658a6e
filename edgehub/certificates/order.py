"""What the agent and the process that fetches certificates tell each other, as JSON."""

import msgspec

from edgehub.certificates.errors import Failure
from edgehub.certificates.settings import CertificateSettings


class Order(msgspec.Struct, frozen=True):
    """What is to be done."""

    settings: CertificateSettings
    renew: bool = False
    """Whether with the certificate that is there; otherwise with the token."""


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of it."""

    failure: Failure | None = None
    """None when the files hold the new certificate."""
