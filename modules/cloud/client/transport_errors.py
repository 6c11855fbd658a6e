"""Errors of requests to an API server that got no, or no complete, response.

KubeTransportError
├── KubeConnectError        no connection could be opened
│   └── KubeTlsError            TLS failed, or its certificates cannot be read
├── KubeCredentialsError    the credentials for the request could not be had
├── KubeDeadlineError       the response did not come, or did not end, in time
├── KubeCutError            the connection ended before the response did
├── KubeTooLargeError       the response exceeds the limit
└── KubeProtocolError       the request cannot be sent, or the response is not HTTP/1.1

Each names the server and a remedy; none contains a secret.
"""

from typing import Final

from beehive.errors import BeehiveError

_UNKNOWN: Final = "whether the server has carried out the request is unknown: read the object before repeating it"


class KubeTransportError(BeehiveError):
    """Base of the tree.

    Args:
        attempt: a phrase such as "cannot connect to the API server".
        on: the server's URL.
        why: the reason, and what to do about it.
    """

    is_unanswered = False
    """Whether a request that changes something was sent, so that the server may have carried it out."""

    def __init__(self, attempt: str, on: str, why: str = "") -> None:
        super().__init__(attempt, on, why, retryable=True)

    def unanswered(self) -> "KubeTransportError":
        """Return the same error for a request that may have been carried out."""
        error = type(self)(self.attempt, self.on, f"{self.hint}; {_UNKNOWN}" if self.hint else _UNKNOWN)
        error.is_unanswered = True
        return error


class KubeConnectError(KubeTransportError):
    """No connection could be opened, so the request was not sent."""


class KubeTlsError(KubeConnectError):
    """TLS failed, or a certificate for it cannot be read."""


class KubeCredentialsError(KubeTransportError):
    """A token or certificate could not be had, so the request was not sent."""


class KubeDeadlineError(KubeTransportError):
    """The response did not come, or did not end, in time; or a stream was silent for too long."""


class KubeCutError(KubeTransportError):
    """The connection ended before the response did."""


class KubeTooLargeError(KubeTransportError):
    """The head or the body of the response exceeds its limit."""


class KubeProtocolError(KubeTransportError):
    """The request cannot be sent as HTTP, or the response is not HTTP/1.1."""


def no_credentials(where: str, why: str) -> KubeCredentialsError:
    """Return the error that a kubeconfig's user has no credentials that can be used now."""
    return KubeCredentialsError("cannot get credentials for the API server", where, why)
