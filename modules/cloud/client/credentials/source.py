"""The contract between the transport and the sources of credentials."""

from typing import Protocol

import msgspec


class RequestCredentials(msgspec.Struct, frozen=True):
    """The credentials of a request. Their text form contains no secret."""

    authorization: str = ""
    """The value of the header Authorization, or ""."""
    certificate: bytes = b""
    """The client certificate and its chain as PEM, or b""."""
    key: bytes = b""
    """The certificate's private key as PEM."""

    def __repr__(self) -> str:
        return "RequestCredentials(…)"


class CredentialSource(Protocol):
    """A credential source. One `fetch` runs at a time, on any thread; the rest is called on the transport's thread."""

    def current(self) -> RequestCredentials | None:
        """Return the credentials for a request now, without waiting; None if they must be fetched first.

        Raises:
            KubeCredentialsError: they cannot be had.
        """

    def fetch(self) -> None:
        """Fetch credentials; may wait.

        Raises:
            KubeCredentialsError: they cannot be had.
        """

    def refuse(self, credentials: RequestCredentials) -> bool:
        """Take note that the server answered 401; return whether others may be had, so that a repetition has sense."""

    def close(self) -> None:
        """End a `fetch` that is under way."""
