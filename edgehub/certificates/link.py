"""A link that sees to the node's certificate before it dials.

So a certificate that cannot be had is one more reason why a link did not come up: counted, logged, and tried again
after the back-off, while everything else on the node goes on.
"""

import threading

from edgehub.certificates.errors import CertificateError
from edgehub.certificates.keeper import Keeper
from edgehub.errors import ClosedHereError, DialError, LinkError
from edgehub.link import Link, LinkEvents, LinkFactory


class CertifiedLink(Link):
    """See the module's docstring.

    Args:
        make_link: makes the link that dials, once there is a certificate.
        keeper: of the certificate.
    """

    def __init__(self, make_link: LinkFactory, keeper: Keeper) -> None:
        self._make_link = make_link
        self._keeper = keeper
        self._link: Link | None = None
        self._lock = threading.Lock()
        self._closed = False

    def run(self, events: LinkEvents) -> LinkError:
        try:
            self._keeper.ensure(lambda: not self._closed)
        except CertificateError as error:
            return ClosedHereError() if self._closed else error
        with self._lock:
            if self._closed:
                return ClosedHereError()
            link = self._link = self._make_link()
        return self._explained(link.run(events))

    def send(self, frame: bytes) -> None:
        if self._link is not None:
            self._link.send(frame)

    def check(self) -> None:
        if self._link is not None:
            self._link.check()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._keeper.cancel()
        if self._link is not None:
            self._link.close()

    def _explained(self, error: LinkError) -> LinkError:
        """A clock that is behind is a better reason than what TLS makes of it."""
        if isinstance(error, DialError):
            try:
                self._keeper.check_clock()
            except CertificateError as better:
                return better
        return error
