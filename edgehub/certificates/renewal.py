"""The actor that renews the node's certificate in time, on a thread of its own.

It looks at the file again at least every hour: the wall clock may jump, and somebody may have put another certificate
there. One that is due the moment it comes (this node's clock is ahead) is not renewed at once, and then ever more
rarely: each renewal ends the link. The link goes on meanwhile; only when the new certificate is in its files, edgehub
is told.
"""

import logging
from collections.abc import Callable
from typing import Final

from beehive import Actor, Timer
from beehive.backoff import Backoff
from edgehub.certificates import rules
from edgehub.certificates.certificate import Certificate
from edgehub.certificates.errors import CertificateError
from edgehub.certificates.keeper import Keeper

_log = logging.getLogger(__name__)

LONGEST_WAIT: Final = 3600.0
"""Seconds between two looks at the certificate, at most."""

_BASE, _LIMIT = 10.0, 600.0
"""Seconds: ceilings of the delay after a first failure, and after many."""

LOOK: Final = "look"
"""Told when the certificate may have changed."""


class Renewer(Actor):
    """See the module's docstring.

    Args:
        keeper: of the certificate.
        renewed: told when there is a new one; returns at once.
    """

    def __init__(self, keeper: Keeper, renewed: Callable[[], None]) -> None:
        super().__init__()
        self._keeper = keeper
        self._renewed = renewed
        self._backoff = Backoff(_BASE, _LIMIT)
        self._timer: Timer | None = None
        self._due: tuple[Certificate, float] | None = None
        self._rests_until = float("-inf")
        """Monotonic seconds, after a renewal."""

    def on_start(self) -> None:
        """Look at once."""
        self._look()

    def on_stop(self) -> None:
        """Look no more."""
        self._cancel()

    def on_receive(self, message: object) -> None:
        """Look again."""
        if message == LOOK:
            self._look()

    def _look(self) -> None:
        self._cancel()
        delay = self._act()
        self._timer = self.clock.after(min(delay, LONGEST_WAIT), lambda: self.actor_ref.tell(LOOK))

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _act(self) -> float:
        """Renew if it is time; returns after how many seconds to look again."""
        try:
            certificate = self._keeper.current()
            if certificate is None or self._keeper.why_unusable() is not None:
                return LONGEST_WAIT
            wait = self._deadline(certificate) - self.clock.now()
            if wait > 0:
                self._backoff.reset()
                return wait
            if self.clock.monotonic() < self._rests_until:
                return self._rests_until - self.clock.monotonic()
            self._keeper.renew()
        except CertificateError as error:
            delay = self._backoff.next(self.clock.random)
            _log.warning("the certificate is not renewed: %s; next try in %.0f s", error, delay)
            return delay
        delay = self._backoff.next(self.clock.random)
        self._rests_until = self.clock.monotonic() + delay
        self._renewed()
        return delay

    def _deadline(self, certificate: Certificate) -> float:
        """When this certificate is to be renewed: drawn once for each."""
        if self._due is None or self._due[0] != certificate:
            self._due = certificate, rules.renewal(certificate, self.clock.random.random())
        return self._due[1]
