"""The node's certificate as edgehub sees it: is there one that will do, and get another.

One for a process, shared by the links and the renewal; nothing in it is changed but the counters.
"""

import logging
from collections.abc import Callable

from beehive import Clock
from edgehub.certificates import files, rules
from edgehub.certificates.certificate import Certificate
from edgehub.certificates.errors import CertificateError
from edgehub.certificates.issuer import Issue
from edgehub.certificates.settings import CertificateSettings
from edgehub.certificates.times import shown
from edgehub.certificates.token import Token
from edgehub.counters import LinkCounters

_log = logging.getLogger(__name__)


class Keeper:
    """See the module's docstring.

    Args:
        settings: of the certificate.
        clock: what is valid now.
        counters: of the link.
        issuer: gets certificates.
    """

    def __init__(self, settings: CertificateSettings, clock: Clock, counters: LinkCounters, issuer: Issue) -> None:
        self._settings = settings
        self._clock = clock
        self._counters = counters
        self._issuer = issuer

    @property
    def rotates(self) -> bool:
        """Whether the certificate is to be renewed."""
        return self._settings.rotate

    def current(self) -> Certificate | None:
        """The certificate in the files; None when there is none.

        Raises:
            CertificateError: the file cannot be read.
        """
        files.settle(self._settings.paths)
        certificate = files.read_certificate(self._settings.paths.certificate)
        self._counters.certificate_expires = None if certificate is None else certificate.not_after
        return certificate

    def ensure(self, wanted: Callable[[], bool]) -> None:
        """Get a certificate if there is none that will do. Blocks.

        Args:
            wanted: whether it still is; asked from the same thread.

        Raises:
            CertificateError: there is none, and none to be had.
        """
        why = self.why_unusable()
        if why is None:
            return
        Token.parse(self._settings.token)
        _log.warning("this node needs a certificate (%s); asking %s", why, self._settings.server)
        self._obtain(wanted, renew=False)

    def renew(self) -> None:
        """Get the next certificate. Blocks; raises CertificateError."""
        self._obtain(lambda: True, renew=True)

    def cancel(self) -> None:
        """End what is being done. Any thread."""
        self._issuer.cancel()

    def check_clock(self) -> None:
        """Raises ClockError when this node's clock is before its own certificate's beginning."""
        rules.check_clock(self.current(), self._clock.now())

    def why_unusable(self) -> str | None:
        """Why a certificate is needed, in words; None when that in the files will do. Raises CertificateError."""
        why = rules.why_unusable(self.current(), self._settings.node, self._clock.now())
        paths = self._settings.paths
        missing = next(
            (path for path in (paths.key, paths.authority) if why is None and not files.is_there(path)), None
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
            _log.info("a new certificate, valid until %s", shown(certificate.not_after))
