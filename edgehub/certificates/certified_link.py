"""A link that obtains the node's certificate before it dials."""

import threading

from edgehub.certificates.manager import CertificateManager
from edgehub.errors import CertificateError, ClosedHereError, DialError, LinkError
from edgehub.link import Link, LinkEvents, LinkFactory


class CertifiedLink(Link):
    """A link that obtains the node's certificate before it dials.

    So a missing certificate ends the link like any other failure: counted, logged, and retried after the back-off.

    Args:
        make_link: makes the link that dials with the certificate.
        certificates: manages the certificate.
    """

    def __init__(self, make_link: LinkFactory, certificates: CertificateManager) -> None:
        self._make_link = make_link
        self._certificates = certificates
        self._link: Link | None = None
        self._lock = threading.Lock()
        self._closed = False

    def run(self, events: LinkEvents) -> LinkError:
        try:
            self._certificates.ensure(lambda: not self._closed)
        except CertificateError as error:
            return ClosedHereError() if self._closed else error
        with self._lock:
            if self._closed:
                return ClosedHereError()
            link = self._link = self._make_link()
        return self._with_clock_error(link.run(events))

    def send(self, frame: bytes) -> None:
        if self._link is not None:
            self._link.send(frame)

    def check(self) -> None:
        if self._link is not None:
            self._link.check()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._certificates.cancel()
        if self._link is not None:
            self._link.close()

    def _with_clock_error(self, error: LinkError) -> LinkError:
        """Return a ClockError instead of a TLS failure, if this node's clock explains it."""
        if isinstance(error, DialError):
            try:
                self._certificates.check_clock()
            except CertificateError as better:
                return better
        return error
