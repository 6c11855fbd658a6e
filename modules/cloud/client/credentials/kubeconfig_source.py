"""The credentials that a kubeconfig's user names: tokens, passwords, client certificates."""

import base64
import os
import stat
from typing import TYPE_CHECKING, Final

from modules.cloud.client.credentials.source import CredentialSource, RequestCredentials
from modules.cloud.client.kubeconfig.reading import KubeconfigError
from modules.cloud.client.transport_errors import KubeCredentialsError, no_credentials

if TYPE_CHECKING:
    from beehive.clock import Clock
    from modules.cloud.client.credentials.exec_plugin import ExecPlugin, ExecStatus
    from modules.cloud.client.kubeconfig.model import Selected, UserEntry

_NEVER: Final = float("-inf")

MAX_BYTES: Final = 1024 * 1024
"""Size of the largest file that is read."""
PERIOD: Final = 60.0
"""Seconds after which a file is read again even if its time is unchanged (client-go's cachingTokenSource)."""


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


def credential_source(selected: "Selected", clock: "Clock") -> CredentialSource:
    """Return the source of the credentials of a kubeconfig's user.

    A token file is preferred to a token, a token to a password, and each of them to a plug-in, as in client-go.

    Args:
        selected: the user and its cluster.
        clock: for the times after which credentials are read again.

    Raises:
        KubeconfigError: the user's entries do not fit together.
    """
    _check(selected)
    user = selected.user
    if user.exec is None or user.token or user.token_file or user.username or user.password:
        return KubeconfigCredentials(user, clock)
    from modules.cloud.client.credentials.exec_plugin import ExecPlugin  # noqa: PLC0415 - few kubeconfigs have one

    plugin = ExecPlugin(selected, clock, os.environ)
    return ExecCredentials(plugin, selected.where, clock)


class KubeconfigCredentials:
    """A `CredentialSource` of the values in a kubeconfig, or in files that it names.

    Args:
        user: the entry.
        clock: for the time after which files are read again.
    """

    def __init__(self, user: "UserEntry", clock: "Clock") -> None:
        self._authorization = "" if user.token_file else _authorization(user)
        self._token = _file(user.token_file, "tokenFile", clock)
        self._certificate_data = user.client_certificate_data
        self._key_data = user.client_key_data
        self._certificate = (
            None if user.client_certificate_data else _file(user.client_certificate, "client-certificate", clock)
        )
        self._key = None if user.client_key_data else _file(user.client_key, "client-key", clock)
        self._last = RequestCredentials()

    def current(self) -> RequestCredentials:
        """Return the credentials; the same object while they have not changed. See `CredentialSource`."""
        authorization = self._authorization
        if self._token is not None:
            authorization = _bearer(self._token)
        credentials = RequestCredentials(
            authorization,
            self._certificate_data if self._certificate is None else self._certificate.content(),
            self._key_data if self._key is None else self._key.content(),
        )
        if credentials != self._last:
            self._last = credentials
        return self._last

    def fetch(self) -> None:
        """Do nothing: files are read immediately."""

    def refuse(self, credentials: RequestCredentials) -> bool:
        """Have the token's file read again; see `CredentialSource`."""
        if self._token is None:
            return False
        if credentials is self._last:
            self._token.forget()
        return True

    def close(self) -> None:
        """Do nothing."""


class WatchedFile:
    """A file that is read again when its modification time changes, a minute has passed, or its content was refused.

    Args:
        path: of a regular file.
        field: of the kubeconfig, for errors.
        clock: for the minute.
    """

    def __init__(self, path: str, field: str, clock: "Clock") -> None:
        self._path = path
        self._field = field
        self._clock = clock
        self._content = b""
        self._identity: tuple[int, int, int] | None = None
        self._read_at = 0.0

    def content(self) -> bytes:
        """Return the file's bytes; the last ones while it cannot be read again, as client-go's cachingTokenSource does:
        somebody may be writing it.

        Raises:
            KubeCredentialsError: it cannot be read, is too long, or empty.
        """
        now = self._clock.monotonic()
        try:
            identity = self._stat()
            if identity != self._identity or now >= self._read_at + PERIOD:
                self._content, self._identity, self._read_at = self._read(), identity, now
        except (OSError, KubeCredentialsError) as error:
            if self._content:
                return self._content
            if isinstance(error, KubeCredentialsError):
                raise
            why = f"{self._field}: {error.strerror}: name a file that this user may read"
            raise no_credentials(self._path, why) from error
        return self._content

    def forget(self) -> None:
        """Read the file again when it is needed next."""
        self._identity = None

    def _stat(self) -> tuple[int, int, int]:
        found = os.stat(self._path)  # noqa: PTH116 - for each request: a Path costs as much again
        if not stat.S_ISREG(found.st_mode):
            raise no_credentials(self._path, f"{self._field} is not a regular file")
        return found.st_mtime_ns, found.st_ino, found.st_size

    def _read(self) -> bytes:
        with open(self._path, "rb") as file:  # noqa: PTH123 - as above
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise no_credentials(self._path, f"{self._field} is longer than {MAX_BYTES} bytes")
        if not content.strip():
            raise no_credentials(self._path, f"{self._field} is empty")
        return content


def _file(path: str, field: str, clock: "Clock") -> WatchedFile | None:
    return WatchedFile(path, field, clock) if path else None


def _bearer(file: WatchedFile) -> str:
    token = file.content().strip().decode("latin-1")
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise no_credentials("tokenFile", "it contains more than one token: write only the token into the file")
    return f"Bearer {token}"


def _authorization(user: "UserEntry") -> str:
    if user.token:
        return f"Bearer {user.token.strip()}"
    if user.username or user.password:
        pair = f"{user.username}:{user.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"
    return ""


def _check(selected: "Selected") -> None:
    user, where = selected.user, selected.where
    has_certificate = bool(user.client_certificate or user.client_certificate_data)
    has_key = bool(user.client_key or user.client_key_data)
    if has_certificate != has_key:
        raise KubeconfigError(where, "client-certificate and client-key belong together: set both")
