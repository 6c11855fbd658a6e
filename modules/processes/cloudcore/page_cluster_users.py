"""The users of the page in front of a cluster."""

import hashlib
import re
import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from beehive.clock import Clock
from beehive.http.errors import HttpStatusError
from beehive.runtime import Threads
from modules.apimachinery.printing.fields import text_at, value_at
from modules.cli.errors import StatusError
from modules.cli.rest import RestClient
from modules.cloud.apiserver.access.service import forbidden
from modules.cloud.authorization.rbac.rules import AccessRequest
from modules.cloud.client.http.factory import http_transport
from modules.cloud.client.kubeconfig.model import Selected, UserEntry
from modules.cloud.client.transport import KubeTransport
from modules.page.shells import ClosedDoor
from modules.processes.cloudcore.in_process_client import Credentials
from modules.processes.cloudcore.page_users import PageUser
from modules.processes.common.kubeconfig_client import KubeconfigClient
from modules.processes.common.page_shell import USER_AGENT

_KUBECTL: Final = "kubectl exec -it"
_TOKEN: Final = re.compile(r"Bearer [A-Za-z0-9._~+/=-]{1,8192}")
"""A bearer token (RFC 6750)."""
_KEPT_SECONDS: Final = 30.0
"""Seconds that a cluster's answer about a user counts."""
_MOST_ANSWERS: Final = 4096
_NAMESPACES: Final = 20
"""Namespaces whose rights are looked up at a cluster: each is a request."""
_SELF: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_ACCESS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class ClusterUsers:
    """The users of a cluster, who sign in with a bearer token that it takes (`PageUsers`). Thread-safe.

    The cluster decides whose token it is and what its user may do (SelfSubjectReview, SelfSubjectAccessReview), asked
    with the token itself; cloudcore's own credentials are never used for a user. An answer counts for 30 s.

    Args:
        selected: names the cluster; its user is not taken.
        clock: for deadlines, and for how long answers count.
    """

    flow: Final = None
    """The cluster does not say who its identity provider is."""

    def __init__(self, selected: Selected, clock: Clock) -> None:
        nobody = Selected(where=selected.where, cluster=selected.cluster, user=UserEntry())
        self._transport = http_transport(nobody, Threads(clock), USER_AGENT)
        self._answers = _Answers(clock)

    def user(self, credentials: Credentials) -> PageUser | None:
        """See `PageUsers`."""
        if not _TOKEN.fullmatch(credentials.authorization):
            return None
        client = TokenClient(self._transport, credentials.authorization)
        owner = hashlib.sha256(credentials.authorization.encode()).hexdigest()
        name = self._answers.get((owner,), lambda: _name_of(client))
        if not name:
            return None

        def refusal(asked: AccessRequest) -> str:
            return self._answers.get((owner, asked), lambda: _refusal_of(client, name, asked))

        return PageUser(name, refusal, client, ClosedDoor(_KUBECTL), _NAMESPACES)

    def close(self) -> None:
        """See `PageUsers`."""
        self._transport.close()


class TokenClient(KubeconfigClient):
    """A client of a cluster with a user's token.

    Args:
        transport: to the cluster, without credentials of its own.
        authorization: the header with the token.
    """

    def __init__(self, transport: KubeTransport, authorization: str) -> None:
        super().__init__(transport, (("Authorization", authorization),))


class _Answers:
    """The cluster's answers about users, kept for a while. Thread-safe.

    Args:
        clock: for their ends.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[tuple[object, ...], tuple[float, str]] = {}

    def get(self, question: tuple[object, ...], ask: Callable[[], str]) -> str:
        """Return the answer to a question, which is asked again when it is too old."""
        now = self._clock.monotonic()
        with self._lock:
            until, answer = self._kept.get(question, (0.0, ""))
        if now < until:
            return answer
        answer = ask()
        with self._lock:
            if len(self._kept) >= _MOST_ANSWERS:
                self._kept = {key: each for key, each in self._kept.items() if each[0] > now}
            if len(self._kept) >= _MOST_ANSWERS:
                self._kept.clear()
            self._kept[question] = now + _KEPT_SECONDS, answer
        return answer


def _name_of(client: RestClient) -> str:
    """Return the name of a token's user; empty for a token that the cluster does not take."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        return text_at(client.request("POST", _SELF, body=body), "status.userInfo.username")
    except StatusError as error:
        if error.code == HTTPStatus.UNAUTHORIZED:
            return ""
        raise HttpStatusError(
            HTTPStatus.BAD_GATEWAY, f"the cluster does not say whose token this is: {error}"
        ) from error


def _refusal_of(client: RestClient, name: str, asked: AccessRequest) -> str:
    """Return why a user may not do something, in kube-apiserver's words; empty if the cluster allows it."""
    fields = ("verb", "group", "resource", "subresource", "namespace", "name")
    attributes = {field: value for field in fields if (value := getattr(asked, field))}
    about = {"resourceAttributes": attributes}
    if asked.path:
        about = {"nonResourceAttributes": {"verb": asked.verb, "path": asked.path}}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": about}
    review = client.request("POST", _ACCESS, body=body)
    return "" if value_at(review, "status.allowed") is True else forbidden(name, asked).message
