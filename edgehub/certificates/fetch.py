"""The cloud's server of certificates, as a client sees it (spec/03 §4): `GET /ca.crt` and `GET /edge.crt`.

Runs in short processes only: every call blocks, for at most `SECONDS` at each step.
"""

import http.client
import ssl
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from edgehub.certificates.diagnosis import explain
from edgehub.certificates.errors import RefusedError, UnreachableError

SECONDS: Final = 10.0
"""Longest wait for a connection, and for each part of an answer."""

LONGEST: Final = 64 * 1024
"""Bytes of an answer that are read; certificates have less than two thousand."""

_SHOWN: Final = 200


class Answer(NamedTuple):
    """What the cloud answered with status 200."""

    body: bytes
    date: float | None
    """The cloud's clock, as Unix time, where it says it."""


class CertificateServer:
    """One server.

    Args:
        url: `https://HOST:PORT`.

    Raises:
        UnreachableError: the URL cannot be used.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        parts = urlsplit(self.url)
        if parts.scheme != "https" or not parts.hostname:
            raise UnreachableError(
                "cannot ask for a certificate", url, "an address such as https://host:10002 is wanted"
            )
        self._host, self._port = parts.hostname, parts.port or 443

    def authority(self) -> Answer:
        """The CA as DER. Who answered is not verified: what is believed of it has to be checked by its hash.

        Raises:
            UnreachableError: no answer.
            RefusedError: another answer than the CA.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return self._get("/ca.crt", context)

    def sign(self, request: bytes, node: str, context: ssl.SSLContext, bearer: str = "") -> Answer:
        """A certificate (DER) for a request (DER): a GET with a body, as KubeEdge has it.

        Args:
            request: what is to be signed.
            node: name of the node.
            context: verifies the cloud; shows the node's certificate when that is renewed.
            bearer: the token's JWT; empty when a certificate is shown.

        Raises:
            UnreachableError: no answer, or not from the cloud that the context knows.
            RefusedError: the cloud says no.
        """
        headers = {"NodeName": node}
        if bearer:
            headers["Authorization"] = f"Bearer {bearer}"
        return self._get("/edge.crt", context, request, headers)

    def _get(
        self, path: str, context: ssl.SSLContext, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        connection = http.client.HTTPSConnection(self._host, self._port, timeout=SECONDS, context=context)
        try:
            connection.request("GET", path, body, headers or {})
            answer = connection.getresponse()
            data = answer.read(LONGEST + 1)
        except OSError as error:
            raise UnreachableError("cannot ask for a certificate", self.url + path, explain(error)) from error
        except http.client.HTTPException as error:
            hint = f"{type(error).__name__}: something else may be listening there"
            raise UnreachableError("cannot ask for a certificate", self.url + path, hint) from error
        finally:
            connection.close()
        if answer.status != http.client.OK or len(data) > LONGEST:
            said = "".join(char for char in data[:_SHOWN].decode("utf-8", "replace") if char.isprintable())
            raise RefusedError(
                "the cloud gave no certificate",
                f"{self.url}{path} answered {answer.status}",
                _hint(answer.status, said),
            )
        return Answer(data, _date(answer.getheader("Date")))


def _hint(status: int, said: str) -> str:
    if status == http.client.UNAUTHORIZED:
        return f"it does not take the token or certificate: {said!r}; a new token may help"
    return f"it says {said!r}; see its log"


def _date(text: str | None) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp() if text else None
    except (ValueError, OverflowError):
        return None
