"""The credentials that a kubeconfig's user names: tokens, passwords, client certificates."""

import base64
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from modules.cloud.client.credentials.errors import no_credentials
from modules.cloud.client.credentials.exec_source import ExecCredentials
from modules.cloud.client.credentials.source import CredentialSource, RequestCredentials
from modules.cloud.client.credentials.watched_file import WatchedFile
from modules.cloud.client.kubeconfig.errors import KubeconfigError

if TYPE_CHECKING:
    from beehive.clock import Clock
    from modules.cloud.client.kubeconfig.model import Selected, UserEntry


def credential_source(
    selected: "Selected", clock: "Clock", environment: Mapping[str, str] | None = None
) -> CredentialSource:
    """Return the source of the credentials of a kubeconfig's user.

    A token file is preferred to a token, a token to a password, and each of them to a plug-in, as in client-go.

    Args:
        selected: the user and its cluster.
        clock: for the times after which credentials are read again.
        environment: of a plug-in; None: that of this process.

    Raises:
        KubeconfigError: the user's entries do not fit together.
    """
    _check(selected)
    user = selected.user
    if user.exec is None or user.token or user.token_file or user.username or user.password:
        return KubeconfigCredentials(user, clock)
    from modules.cloud.client.credentials.exec_plugin import ExecPlugin  # noqa: PLC0415 - few kubeconfigs have one

    plugin = ExecPlugin(selected, clock, os.environ if environment is None else environment)
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
        """Do nothing: files are read at once."""

    def refuse(self, credentials: RequestCredentials) -> bool:
        """Have the token's file read again; see `CredentialSource`."""
        if self._token is None:
            return False
        if credentials is self._last:
            self._token.forget()
        return True

    def close(self) -> None:
        """Do nothing."""


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
