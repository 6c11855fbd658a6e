"""The TLS contexts of one server: a new one only when the client certificate has changed."""

import ssl

from modules.cloud.client.credentials.source import RequestCredentials
from modules.cloud.client.http.server_url import ServerUrl
from modules.cloud.client.http.tls import client_context
from modules.cloud.client.kubeconfig.model import ClusterEntry


class TlsContexts:
    """Remembers the last context: connections are of the same user when theirs is the same object.

    Args:
        cluster: authorities to trust.
        server: an https server, or one without TLS.
    """

    def __init__(self, cluster: ClusterEntry, server: ServerUrl) -> None:
        self._cluster = cluster
        self._server = server
        self._pair: tuple[bytes, bytes] | None = None
        self._context: ssl.SSLContext | None = None

    def context(self, credentials: RequestCredentials) -> ssl.SSLContext | None:
        """Return the context for requests with these credentials; None without TLS.

        Raises:
            KubeTlsError: an authority, certificate or key cannot be read.
        """
        if not self._server.is_https:
            return None
        pair = credentials.certificate, credentials.key
        if pair != self._pair:
            self._context = client_context(self._cluster, credentials, self._server.text)
            self._pair = pair
        return self._context
