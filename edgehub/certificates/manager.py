"""Manages the node's certificate."""

import logging
from collections.abc import Callable

from beehive import Clock
from edgehub.certificates import files, rules
from edgehub.certificates.certificate import Certificate, format_time
from edgehub.certificates.issuer import CertificateIssuer
from edgehub.certificates.settings import CertificateSettings
from edgehub.certificates.token import Token
from edgehub.counters import LinkCounters
from edgehub.errors import CertificateError

_log = logging.getLogger(__name__)


class CertificateManager:
    """The manager that reads the node's certificate, and obtains a new one when it is unusable or due for renewal.

    The links and the `Renewer` share one object; its state is in the files and the counters.

    Args:
        settings: of the certificate.
        clock: for the validity of certificates.
        counters: of the link.
        issuer: obtains certificates.
    """

    def __init__(
        self, settings: CertificateSettings, clock: Clock, counters: LinkCounters, issuer: CertificateIssuer
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._counters = counters
        self._issuer = issuer

    @property
    def rotates(self) -> bool:
        """Whether the certificate is renewed before it expires."""
        return self._settings.rotate

    def current(self) -> Certificate | None:
        """Return the certificate of the file; None without a file.

        Raises:
            CertificateError: the file cannot be read.
        """
        files.finish_replacement(self._settings.paths)
        certificate = files.read_certificate(self._settings.paths.certificate)
        self._counters.certificate_expires = None if certificate is None else certificate.not_after
        return certificate

    def ensure(self, wanted: Callable[[], bool]) -> None:
        """Obtain a certificate unless there is a usable one. Blocks.

        Args:
            wanted: returns False once the certificate is no longer needed; called on the same thread.

        Raises:
            CertificateError: the node has no usable certificate and cannot obtain one.
        """
        why = self.why_unusable()
        if why is None:
            return
        if not self._settings.token.strip():
            raise rules.no_way_to(self.current(), self._settings.node, self._clock.now())
        Token.parse(self._settings.token)
        _log.warning("this node needs a certificate (%s); asking %s", why, self._settings.server)
        self._obtain(wanted, renew=False)

    def renew(self) -> None:
        """Obtain the next certificate with the present one. Blocks; raises CertificateError."""
        self._obtain(lambda: True, renew=True)

    def cancel(self) -> None:
        """End the running attempt. Any thread."""
        self._issuer.cancel()

    def check_clock(self) -> None:
        """Raise ClockError if this node's clock is before the beginning of its own certificate."""
        rules.check_clock(self.current(), self._clock.now())

    def why_unusable(self) -> str | None:
        """Return why the node needs a certificate, as text; None if it has a usable one. Raises CertificateError."""
        why = rules.why_unusable(self.current(), self._settings.node, self._clock.now())
        paths = self._settings.paths
        missing = next(
            (path for path in (paths.key, paths.authority) if why is None and not files.file_exists(path)), None
        )
        return why if missing is None else f"{missing} is missing"

    def _obtain(self, wanted: Callable[[], bool], *, renew: bool) -> None:
        outcome = "issued"
        try:
            self._issuer.obtain(self._settings, renew=renew, wanted=wanted)
        except CertificateError as error:
            outcome = error.reason
            raise
        finally:
            self._counters.certificates[outcome] += 1
        certificate = self.current()
        if certificate is not None:
            _log.info("a new certificate, valid until %s", format_time(certificate.not_after))
