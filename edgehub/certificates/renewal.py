"""When a certificate is renewed, and the actor that renews the node's."""

import logging
from collections.abc import Callable
from typing import Final

from beehive import Actor, Timer
from beehive.backoff import Backoff
from edgehub.certificates.certificate import Certificate
from edgehub.certificates.manager import CertificateManager
from edgehub.errors import CertificateError

_log = logging.getLogger(__name__)

EARLIEST, LATEST = 0.7, 0.9
"""A certificate is renewed at a random time between these shares of its life, so that nodes come at different times
(client-go's certificate manager)."""
LONGEST_WAIT: Final = 3600.0
"""Largest number of seconds between two checks of the certificate."""

_BASE, _LIMIT = 10.0, 600.0
"""Seconds: upper bounds of the delay after the first failure, and after many."""

CHECK: Final = "check"
"""Message to the actor: the certificate may have changed."""


def renewal(certificate: Certificate, draw: float) -> float:
    """Return the Unix time for the renewal of a certificate; `draw` is a random number from 0 to 1."""
    life = certificate.not_after - certificate.not_before
    return certificate.not_before + life * (EARLIEST + (LATEST - EARLIEST) * draw)


class Renewer(Actor):
    """The actor that renews the node's certificate in time on its own thread, and reports when the files hold it.

    It reads the file at least every hour, because the wall clock may jump and somebody may replace the file. After a
    renewal it waits at least for the back-off: with a clock that is ahead, each new certificate is due immediately, and
    each renewal ends the link.

    Args:
        certificates: manages the certificate.
        renewed: called after a renewal; does not block.
    """

    def __init__(self, certificates: CertificateManager, renewed: Callable[[], None]) -> None:
        super().__init__()
        self._certificates = certificates
        self._renewed = renewed
        self._backoff = Backoff(_BASE, _LIMIT)
        self._timer: Timer | None = None
        self._due: tuple[Certificate, float] | None = None
        self._rests_until = float("-inf")
        """Earliest time of the next renewal, in monotonic seconds."""

    def on_start(self) -> None:
        """Check the certificate."""
        self._check()

    def on_stop(self) -> None:
        """Cancel the next check."""
        self._cancel()

    def on_receive(self, message: object) -> None:
        """Check the certificate again."""
        if message == CHECK:
            self._check()

    def _check(self) -> None:
        self._cancel()
        delay = self._renew_if_due()
        self._timer = self.clock.after(min(delay, LONGEST_WAIT), lambda: self.actor_ref.tell(CHECK))

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _renew_if_due(self) -> float:
        """Renew the certificate if it is due; return the seconds until the next check."""
        try:
            certificate = self._certificates.current()
            if certificate is None or self._certificates.why_unusable() is not None:
                return LONGEST_WAIT
            wait = self._deadline(certificate) - self.clock.now()
            if wait > 0:
                self._backoff.reset()
                return wait
            if self.clock.monotonic() < self._rests_until:
                return self._rests_until - self.clock.monotonic()
            self._certificates.renew()
        except CertificateError as error:
            delay = self._backoff.next(self.clock.random)
            _log.warning("the certificate is not renewed: %s; next try in %.0f s", error, delay)
            return delay
        delay = self._backoff.next(self.clock.random)
        self._rests_until = self.clock.monotonic() + delay
        self._renewed()
        return delay

    def _deadline(self, certificate: Certificate) -> float:
        """Return the Unix time for the renewal of this certificate; drawn once for each."""
        if self._due is None or self._due[0] != certificate:
            self._due = certificate, renewal(certificate, self.clock.random.random())
        return self._due[1]
