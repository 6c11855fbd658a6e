"""The credentials of a plug-in, kept until they expire or are refused."""

from typing import TYPE_CHECKING, Final

from modules.cloud.client.credentials.errors import no_credentials
from modules.cloud.client.credentials.source import RequestCredentials

if TYPE_CHECKING:
    from beehive.clock import Clock
    from modules.cloud.client.credentials.exec_plugin import ExecPlugin, ExecStatus

_NEVER: Final = float("-inf")


class ExecCredentials:
    """A `CredentialSource` of a plug-in.

    Args:
        plugin: is run for each new set of credentials.
        where: the kubeconfig, for errors.
        clock: by whose wall time credentials expire.
    """

    def __init__(self, plugin: "ExecPlugin", where: str, clock: "Clock") -> None:
        self._plugin = plugin
        self._where = where
        self._clock = clock
        self._state = RequestCredentials(), _NEVER
        """Credentials, and the seconds since the epoch when they end."""

    def current(self) -> RequestCredentials | None:
        """Return the credentials that have not expired; see `CredentialSource`."""
        credentials, expires = self._state
        return credentials if self._clock.now() < expires else None

    def fetch(self) -> None:
        """Run the plug-in; see `CredentialSource`."""
        status = self._plugin.run()
        try:
            credentials, expires = _credentials(status), status.expires()
        except ValueError:
            raise no_credentials(self._where, "the plug-in's expirationTimestamp or token cannot be used") from None
        if expires <= self._clock.now():
            why = "the plug-in's credentials have expired already: check this machine's clock"
            raise no_credentials(self._where, why)
        self._state = credentials, expires

    def refuse(self, credentials: RequestCredentials) -> bool:
        """Have the plug-in run again; see `CredentialSource`."""
        if self._state[0] is credentials:
            self._state = credentials, _NEVER
        return True

    def close(self) -> None:
        """Kill the plug-in."""
        self._plugin.kill()


def _credentials(status: "ExecStatus") -> RequestCredentials:
    token = status.token.strip()
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise ValueError("not a token")
    return RequestCredentials(
        f"Bearer {token}" if token else "",
        status.client_certificate_data.encode(),
        status.client_key_data.encode(),
    )
