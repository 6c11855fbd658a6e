"""The headers that the transport adds to a request."""

from typing import Final

from modules.cloud.client.credentials.source import RequestCredentials
from modules.cloud.client.http.request_text import RequestHead
from modules.cloud.client.http.server_url import ServerUrl
from modules.cloud.client.kubeconfig.errors import KubeconfigError
from modules.cloud.client.kubeconfig.model import Selected, UserEntry
from modules.cloud.client.transport import ApiRequest

_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_TOKEN: Final = frozenset("!#$&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
"""Characters of a header's name (RFC 9110 §5.6.2) that stand for themselves."""


class RequestHeads:
    """Makes the heads of the requests to one server as one user.

    Args:
        server: where the requests go.
        selected: with the user to impersonate.
        agent: the value of User-Agent.

    Raises:
        KubeconfigError: groups, a uid or extras are to be impersonated without a user.
    """

    def __init__(self, server: ServerUrl, selected: Selected, agent: str) -> None:
        self._server = server
        self._always = [("Host", server.host_header), ("User-Agent", agent), *_impersonation(selected)]
        if server.proxy and server.proxy.authorization and not server.is_https:
            self._always.append(("Proxy-Authorization", server.proxy.authorization))

    def head(self, request: ApiRequest, credentials: RequestCredentials) -> RequestHead:
        """Return a request's head."""
        headers = [*self._always, *request.headers]
        if all(name.lower() != "accept" for name, _ in request.headers):
            headers.append(("Accept", "application/json"))
        if credentials.authorization:
            headers.append(("Authorization", credentials.authorization))
        if request.body or request.method in _WITH_BODY:
            headers.append(("Content-Length", str(len(request.body))))
        return RequestHead(request.method, self._server.target_prefix + request.path, headers)


def _impersonation(selected: Selected) -> list[tuple[str, str]]:
    user: UserEntry = selected.user
    extra = user.as_user_extra or {}
    if not user.as_user:
        if user.as_uid or user.as_groups or extra:
            raise KubeconfigError(selected.where, "as-uid, as-groups and as-user-extra need a user: set as")
        return []
    headers = [("Impersonate-User", user.as_user)]
    headers += [("Impersonate-Uid", user.as_uid)] if user.as_uid else []
    headers += [("Impersonate-Group", group) for group in user.as_groups or ()]
    return headers + [
        (f"Impersonate-Extra-{_escaped(key)}", value) for key, values in extra.items() for value in values
    ]


def _escaped(key: str) -> str:
    return "".join(chr(byte) if chr(byte) in _TOKEN else f"%{byte:02X}" for byte in key.encode())
