"""A cloudcore's certificates for calls to others with the same authority."""

import os
import ssl
import threading
from typing import Final

from beehive.clock import Clock
from modules.cloud.cloudhub.certificates.authority import Authority
from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles

_RENEWED_AFTER: Final = 12 * 3600.0
"""Seconds: half of the certificate's validity."""


class CloudcoreCredentials:
    """A TLS context for calls of other cloudcores, which is made when it is needed; for any thread.

    The key exists in the memory of this process only.

    Args:
        files: of the authority.
        authority: that all of these cloudcores have.
        identity: of this process.
        clock: of the certificate's validity.
    """

    def __init__(self, files: AuthorityFiles, authority: Authority, identity: str, clock: Clock) -> None:
        self._files = files
        self._authority = authority
        self._identity = identity
        self._clock = clock
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None
        self._until = 0.0

    def context(self) -> ssl.SSLContext:
        """Return the context, with a certificate that is valid for half a day at least.

        Raises:
            OSError: the authority's certificate cannot be read.
        """
        with self._lock:
            now = self._clock.monotonic()
            if self._context is None or now >= self._until:
                self._context, self._until = self._made(), now + _RENEWED_AFTER
            return self._context

    def _made(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_verify_locations(self._files.authority)
        certificate, key = self._authority.make_cloudcore_certificate(self._identity, self._clock.now())
        _load(context, certificate + key)
        return context


def _load(context: ssl.SSLContext, pem: bytes) -> None:
    """Load certificate and key from memory, though Python wants a path."""
    with os.fdopen(os.memfd_create("cloudcore-certificate"), "wb") as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
