"""The Kubernetes API over TCP: authentication and authorization in front of the service of the control socket.

There is no RBAC engine: members of `system:masters` may do everything, nodes may do what the node authorizer allows,
and other users may only ask for their identity and rights.
"""

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.http.responses import Reply, Response
from beehive.http.router import HttpService
from modules.apimachinery.api_errors import ApiError
from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.paths import parse_target
from modules.cloud.apiserver.access.flow_control import FlowControl, NoSeatError, too_many_requests
from modules.cloud.apiserver.endpoints.requests import call_of_request, decoded
from modules.cloud.apiserver.endpoints.service import ApiCaller
from modules.cloud.authentication.users import User
from modules.cloud.authorization import access_reviews
from modules.cloud.authorization.rules import RULES
from modules.cloud.authorization.subject_reviews import TOKEN_REVIEW, token_review
from modules.cloud.authorization.user_reviews import PATHS, review
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.storage.watch_history import WatchQuery, WatchStart

_OPEN: Final = (("healthz",), ("livez",), ("readyz",), ("version",))
_READS: Final = ("GET", "HEAD")
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_REVIEW_GROUPS: Final = {parts[1:2] for parts in PATHS}
_ANONYMOUS: Final = User("system:anonymous", groups=("system:unauthenticated",))


class Authenticates(Protocol):
    """Finds the users of requests."""

    def user(self, request: Request, /) -> User | None:
        """Return the user of a request, None for an anonymous one. Raise ApiStatusError for invalid credentials."""


class NodeCaller:
    """Passes a node's requests on in the node's name, so that the node authorizer decides on them (`ApiCaller`).

    Args:
        caller: passes the requests on.
        node: the node's name, from its certificate.
    """

    def __init__(self, caller: ApiCaller, node: str) -> None:
        self._caller = caller
        self._node = node

    def call(self, call: ApiCall) -> ApiResult:
        """Return the response. Raise ApiStatusError when there is none."""
        return self._caller.call(msgspec.structs.replace(call, node=self._node))

    def start_watch(self, query: WatchQuery) -> WatchStart:
        """Refuse a watch: a node gets changes over its link, where they are only its own."""
        raise ApiStatusError(403, f"nodes cannot watch {query.kind} here: changes reach them over their link")


class AccessService:
    """Serves the Kubernetes API to clients that it authenticates (`HttpService`).

    Args:
        authenticator: finds the user of a request.
        administrators: the service for members of `system:masters`.
        of_node: returns the service for a node.
        review: answers the access reviews of nodes; None: they are refused.
        flow: bounds the requests that are served at a time, fairly by user; None: nothing does.
        user_of_token: finds the user of a bearer token, for TokenReviews of administrators; None: they are not served.
    """

    def __init__(
        self,
        authenticator: Authenticates,
        administrators: HttpService,
        of_node: Callable[[str], HttpService],
        review: Callable[[ApiCall], ApiResult] | None = None,
        flow: FlowControl | None = None,
        user_of_token: Callable[[str], User | None] | None = None,
    ) -> None:
        self._user_of_token = user_of_token
        self._flow = flow
        self._authenticator = authenticator
        self._administrators = administrators
        self._of_node = of_node
        self._review = review

    def serve(self, request: Request) -> Reply:
        """Return the reply; refusals become a metav1.Status."""
        try:
            return self._reply(request)
        except NoSeatError:
            return too_many_requests()
        except ApiStatusError as error:
            return error.response()
        except ApiError as error:
            return ApiStatusError(int(error.status()["code"]), error.message).response()
        except HttpStatusError as error:
            return ApiStatusError(error.status, str(error)).response()

    def _reply(self, request: Request) -> Reply:
        user = impersonated(request, self._authenticator.user(request))
        if request.method in _READS and request.parts in _OPEN:
            return self._administrators.serve(request)
        if user is None:
            raise _forbidden(_ANONYMOUS, request)
        if self._flow is None:
            return self._served(user, request)
        with self._flow.seat(user, request):
            return self._served(user, request)

    def _served(self, user: User, request: Request) -> Reply:
        """Return the reply to a user."""
        if user.node and self._review is not None and (call := _node_review(user, request)) is not None:
            result = self._review(call)
            answer = result.object if result.refusal is None else result.refusal
            status = 201 if result.refusal is None else int(result.refusal.get("code", 500))
            return Response(status, "application/json", msgspec.json.encode(answer))
        if request.method == "POST" and request.parts in PATHS:
            return review(user, request.parts)
        if user.is_administrator:
            if request.method == "POST" and request.parts == TOKEN_REVIEW and self._user_of_token is not None:
                found = token_review(decoded(request.body, request.header("content-type")), self._user_of_token)
                return Response(201, "application/json", msgspec.json.encode(found))
            return self._administrators.serve(request)
        if user.node:
            reply = self._of_node(user.node).serve(request)
            if isinstance(reply, Response) and reply.status == 404 and _has_no_rule(request):
                raise _forbidden(user, request)  # whether there is such a resource is no question of theirs
            return reply
        raise _forbidden(user, request)


def impersonated(request: Request, user: User | None) -> User | None:
    """Return the user as whom a request is to be served: the one of its `Impersonate-` headers, or its own.

    Args:
        request: the request.
        user: the authenticated user, who must be an administrator to impersonate another user.

    Raises:
        ApiStatusError: 403, the user may not impersonate; 400, the headers name no user.
    """
    if not any(name.startswith("impersonate-") for name, _ in request.headers):
        return user
    name = request.header("impersonate-user")
    if user is None or not user.is_administrator:
        own = (user or _ANONYMOUS).name
        why = f'User "{own}" cannot impersonate resource "users" in API group "" at the cluster scope'
        raise ApiStatusError(403, f'users "{name[:253]}" is forbidden: {why}', {"name": name[:253], "kind": "users"})
    if not name:
        raise ApiStatusError(400, "the headers impersonate groups without a user: add Impersonate-User")
    groups = tuple(value for key, value in request.headers if key == "impersonate-group")
    return User(name, request.header("impersonate-uid"), groups)


def _forbidden(user: User, request: Request) -> ApiStatusError:
    """Return the error for a user without the right, in kube-apiserver's words."""
    try:
        target = parse_target(request.parts)
    except ApiStatusError:
        verb = {"create": "post", "update": "put"}.get(_verb(request), _verb(request))
        return ApiStatusError(403, f'forbidden: User "{user.name}" cannot {verb} path "{request.path}"')
    resource = f"{target.plural}/{target.subresource}" if target.subresource else target.plural
    qualified = f"{target.plural}.{target.group}" if target.group else target.plural
    named = f' "{target.name}"' if target.name else ""
    where = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
    verb = _verb(request)
    if not target.name:
        verb = {"get": "list", "delete": "deletecollection"}.get(verb, verb)
    why = f'User "{user.name}" cannot {verb} resource "{resource}" in API group "{target.group}" {where}'
    details = {"name": target.name, "group": target.group, "kind": target.plural}
    kept = {key: value for key, value in details.items() if value}
    return ApiStatusError(403, f"{qualified}{named} is forbidden: {why}", kept)


def _verb(request: Request) -> str:
    return "watch" if request.flag("watch") else _VERBS.get(request.method, "get")


def _has_no_rule(request: Request) -> bool:
    """Return whether a request is about a resource to which no node has any right."""
    try:
        target = parse_target(request.parts)
    except ApiStatusError:
        return False
    return (target.group, target.plural) not in RULES


def _node_review(user: User, request: Request) -> ApiCall | None:
    """Return the call of a node that asks for a review, None for another request.

    Raises:
        ApiStatusError, ApiError: the request cannot be read.
    """
    if request.method != "POST" or request.parts[1:2] not in _REVIEW_GROUPS:
        return None
    call = msgspec.structs.replace(call_of_request(request, parse_target(request.parts)), node=user.node)
    return call if access_reviews.is_review(call) else None
