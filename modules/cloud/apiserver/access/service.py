"""The Kubernetes API over TCP: authentication and authorization in front of the service of the control socket.

Members of `system:masters` may do everything, nodes may do what the node authorizer allows, and all others, what RBAC
allows. They decide on the attributes of a request (kube-apiserver's `RequestInfo`).
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from http import HTTPStatus
from typing import Final, Protocol, TypeVar

import msgspec

from beehive.http.browser_guard import OTHER_SITE, is_sent_by_another_site
from beehive.http.connections import Client
from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.http.responses import Handler, Reply, Response
from beehive.http.router import Admitted, AdmittingService, HttpService
from modules.apimachinery.api_errors import ApiError
from modules.apimachinery.errors import ApiStatusError, CloudRefusalError, unread
from modules.apimachinery.options import check_plain
from modules.apimachinery.paths import parse_target
from modules.cloud.apiserver.access.flow_control import FlowControl, NoSeatError, too_many_requests
from modules.cloud.apiserver.endpoints.module_caller import ApiCaller
from modules.cloud.apiserver.endpoints.requests import REVIEW_BYTES, review_of
from modules.cloud.apiserver.endpoints.watch_paths import without_watch_path
from modules.cloud.audit.recording import AuditRecord, AuditTrail, begin_record
from modules.cloud.authentication.authenticator import is_by_token
from modules.cloud.authentication.users import ANONYMOUS, SERVICE_ACCOUNTS, User, runs_cluster, share_of
from modules.cloud.authorization import access_reviews
from modules.cloud.authorization.node_rules import RULES
from modules.cloud.authorization.rbac.index import RbacIndex
from modules.cloud.authorization.rbac.rules import AccessRequest
from modules.cloud.authorization.user_reviews import PATHS, review
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.storage.watch_history import WatchQuery, WatchStart

_OPEN: Final = (("healthz",), ("livez",), ("readyz",), ("version",))
_AUTHENTICATION: Final = "authentication.k8s.io"
_ACCOUNT: Final = "system:serviceaccount:"
_READS: Final = ("GET", "HEAD")
_VERBS_OF_READS: Final = ("get", "list", "watch")
_REVIEW_GROUPS: Final = {parts[1:2] for parts in PATHS}

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_OF_COLLECTIONS: Final = {"get": "list", "delete": "deletecollection"}
_OF_PATHS: Final = {"POST": "post", "PUT": "put", "PATCH": "patch", "DELETE": "delete"}
_BY_NAME: Final = "metadata.name="
_NAMESPACES: Final = "namespaces"
_TOKEN: Final = "token"  # noqa: S105 - a subresource
_Result = TypeVar("_Result")


class Authenticates(Protocol):
    """An authenticator that finds the users of requests."""

    def user(self, request: Request, /) -> User | None:
        """Return the user of a request, None for an anonymous one. Raise ApiStatusError for invalid credentials."""


class NodeCaller:
    """A caller in a node's name, to which its requests are passed, so that the node authorizer decides on them
    (`ApiCaller`).

    Args:
        caller: passes the requests on.
        node: the node's name, from its certificate.
    """

    def __init__(self, caller: ApiCaller, node: str) -> None:
        self._caller = caller
        self._node = node

    def call(self, call: ApiCall) -> ApiResult:
        """Return the response. Raise ApiStatusError without one."""
        return self._caller.call(msgspec.structs.replace(call, node=self._node))

    def start_watch(self, query: WatchQuery) -> WatchStart:
        """Refuse a watch: a node gets changes over its link, where they are only its own."""
        raise ApiStatusError(403, f"nodes cannot watch {query.kind} here: changes reach them over their link")


class UserAccess(msgspec.Struct, frozen=True):
    """Way in which requests of users are served; nodes have handlers of their own."""

    rbac: RbacIndex
    """The roles and bindings."""
    service_of: Callable[[User], HttpService]
    """Returns the service of resources for a user."""
    administration_of: Callable[[User], HttpService] | None = None
    """Returns the service for an administrator; None: all have the same."""


def attributes_of(request: Request) -> AccessRequest:
    """Return the attributes of a request; a path that is no resource is a path."""
    request = without_watch_path(request)
    try:
        target = parse_target(request.parts)
    except ApiStatusError:
        return AccessRequest(verb=_OF_PATHS.get(request.method, "get"), path=request.path)
    verb, name = _VERBS.get(request.method, "get" if request.method in _READS else ""), target.name
    if not name:
        verb = _OF_COLLECTIONS.get(verb, verb)
        fields = request.first("fieldSelector")
        if verb != "create" and fields.startswith(_BY_NAME) and "," not in fields:
            name = fields.removeprefix(_BY_NAME)
    if verb == "list" and request.flag("watch"):
        verb = "watch"
    is_namespace = target.plural == _NAMESPACES and not target.group
    return AccessRequest(
        verb=verb,
        group=target.group,
        resource=target.plural,
        subresource=target.subresource.partition("/")[0],
        namespace=target.namespace or (name if is_namespace else ""),
        name=name,
    )


class MissingRightError(ApiStatusError):
    """A request that the user has no right to."""


def forbidden(user: str, asked: AccessRequest, why: str = "") -> MissingRightError:
    """Return the error for a user without the right, in kube-apiserver's words."""
    if not asked.resource:
        return MissingRightError(403, f'forbidden: User "{user}" cannot {asked.verb} path "{asked.path}"')
    qualified = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
    named = f' "{asked.name}"' if asked.name else ""
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    told = f'User "{user}" cannot {asked.verb} resource "{asked.combined}" in API group "{asked.group}" {where}'
    details = {"name": asked.name, "group": asked.group, "kind": asked.resource}
    kept = {key: value for key, value in details.items() if value}
    return MissingRightError(403, f"{qualified}{named} is forbidden: {told}{why}", kept)


class AccessService(AdmittingService):
    """The service of the Kubernetes API to clients that it authenticates (`HttpService`).

    Who asks, and whether they may, is decided by the head of a request. Where the body decides, as of a review, for
    which everybody may ask, it is small.

    Args:
        authenticator: finds the user of a request.
        administrators: the service for members of `system:masters`.
        of_node: returns the service for a node.
        review: answers the reviews of nodes, by the node authorizer.
        flow: bounds the requests that are served at a time, fairly by user; None: nothing does.
        users: serves all other users; None: they are refused.
        audit: records the requests; None: nothing does.
    """

    def __init__(
        self,
        authenticator: Authenticates,
        administrators: HttpService,
        of_node: Callable[[str], HttpService],
        review: Callable[[ApiCall], ApiResult],
        flow: FlowControl | None = None,
        users: UserAccess | None = None,
        audit: AuditTrail | None = None,
    ) -> None:
        self._audit = audit
        self._users = users or UserAccess(RbacIndex(), lambda _: administrators)
        self._flow = flow
        self._authenticator = authenticator
        self._administrators = administrators
        self._of_node = of_node
        self._review = review

    def admit(self, request: Request) -> Admitted | Reply:
        """See `AdmittingService`; refusals become a metav1.Status."""
        record = begin_record(self._audit, request)
        try:
            decided = _answer_of(record, lambda: self._decided(request, record))
        except Exception:
            record.end(HTTPStatus.INTERNAL_SERVER_ERROR)
            raise
        if not isinstance(decided, Admitted):
            return record.run(lambda: decided)
        return msgspec.structs.replace(
            decided, serve=lambda whole: record.run(lambda: _answer_of(record, lambda: decided.serve(whole)))
        )

    def _decided(self, request: Request, record: AuditRecord) -> Admitted:
        if is_sent_by_another_site(request) and not is_by_token(request):
            raise ApiStatusError(403, OTHER_SITE)
        asked = record.asked = attributes_of(request)
        authenticated = self._authenticator.user(request)
        record.user = authenticated or ANONYMOUS
        user = impersonated(request, authenticated, self._users.rbac)
        record.impersonated = user if user is not authenticated else None
        client = _client_of(authenticated, request)
        if request.method in _READS and request.parts in _OPEN:
            return Admitted(self._administrators.serve, REVIEW_BYTES, client)
        user = user or ANONYMOUS
        admitted = self._admitted(user, request, asked)
        seated = partial(self._seated, admitted.serve, user, asked)
        return msgspec.structs.replace(admitted, serve=seated, client=client)

    def _seated(self, serve: Handler, user: User, asked: AccessRequest, request: Request) -> Reply:
        """Return the reply of a handler, once the request has a seat."""
        if self._flow is None:
            return serve(request)
        with self._flow.seat(user, request, asked.verb, asked.subresource):
            return serve(request)

    def _admitted(self, user: User, request: Request, asked: AccessRequest) -> Admitted:
        """Return what serves a user. Raise ApiStatusError or NoSeatError."""
        if user.node and not user.is_administrator and _is_node_review(user, request):
            check_plain(request.header("accept"))
            return Admitted(partial(self._node_reviewed, user), REVIEW_BYTES)
        if request.method == "POST" and request.parts in PATHS and user.name != ANONYMOUS.name:
            check_plain(request.header("accept"))
            return Admitted(partial(self._user_reviewed, user), REVIEW_BYTES)
        if user.is_administrator:
            of_user = self._users.administration_of
            return Admitted((self._administrators if of_user is None else of_user(user)).serve)
        is_allowed = self._users.rbac.allowed(user, asked) is not None
        if user.node:
            return self._node_admitted(user, asked, request, is_allowed=is_allowed)
        if not is_allowed:
            raise forbidden(user.name, asked)
        return Admitted((self._users.service_of(user) if asked.resource else self._administrators).serve)

    def _user_reviewed(self, user: User, request: Request) -> Reply:
        return review(user, request.parts, review_of(request), self._users.rbac)

    def _node_reviewed(self, user: User, request: Request) -> Reply:
        call = _call_of_node(user.node, "create", request)
        result = self._review(msgspec.structs.replace(call, body=review_of(request)))
        answer = result.object if result.refusal is None else result.refusal
        status = 201 if result.refusal is None else int(result.refusal.get("code", 500))
        return Response(status, "application/json", msgspec.json.encode(answer))

    def _node_admitted(self, user: User, asked: AccessRequest, request: Request, *, is_allowed: bool) -> Admitted:
        """Return what serves a node. RBAC may let it read what the node authorizer has no rule for, and no more."""
        if (asked.group, asked.resource) not in RULES and asked.verb in _VERBS_OF_READS and is_allowed:
            return Admitted(self._users.service_of(user).serve)
        if not (asked.resource and asked.verb and request.has_body) or request.method in _READS:
            return Admitted(partial(self._node_served, user, asked))
        call = _call_of_node(user.node, asked.verb, request)
        if call.subresource == _TOKEN:
            return Admitted(partial(self._node_served, user, asked), REVIEW_BYTES)
        with nullcontext() if self._flow is None else self._flow.seat(user, request, asked.verb, asked.subresource):
            if not access_reviews.is_allowed(self._review(access_reviews.review_of_rights(call))):
                raise CloudRefusalError(self._review(call).refusal or {})  # the authorizer's words, which it counts
        return Admitted(partial(self._node_served, user, asked))

    def _node_served(self, user: User, asked: AccessRequest, request: Request) -> Reply:
        """Return the reply to a node whose rights are known, but for a token, for which the body decides."""
        if request.has_body and asked.subresource == _TOKEN:
            review_of(request)
        reply = self._of_node(user.node).serve(request)
        is_missing = isinstance(reply, Response) and reply.status == 404
        if is_missing and asked.resource and (asked.group, asked.resource) not in RULES:
            raise forbidden(user.name, asked)  # whether there is such a resource is no question of theirs
        return reply


def _client_of(user: User | None, request: Request) -> Client:
    """Return the client that a user is, and not whom it impersonates; without credentials it is its address."""
    if user is None:
        return Client(request.address)
    return Client(share_of(user), is_privileged=runs_cluster(user))


def _answer_of(record: AuditRecord, serve: Callable[[], _Result]) -> _Result | Response:
    """Return a result, or the refusal instead of it as a metav1.Status."""
    try:
        return serve()
    except NoSeatError:
        return too_many_requests()
    except MissingRightError as error:
        record.is_forbidden = True
        return error.response()
    except ApiStatusError as error:
        return error.response()
    except ApiError as error:
        return ApiStatusError(int(error.status()["code"]), error.message).response()
    except HttpStatusError as error:
        return unread(error)


def impersonated(request: Request, user: User | None, index: RbacIndex) -> User | None:
    """Return the user to serve a request as: the user of its `Impersonate-` headers, or its own.

    Args:
        request: the request.
        user: the authenticated user, who must be an administrator to impersonate another user, or have the verb
            `impersonate` on the user, the groups and the uid; for a service account on that, instead, which gets its
            groups.
        index: the roles and bindings.

    Raises:
        ApiStatusError: 403, the user may not impersonate; 400, the headers name no user.
    """
    if not any(name.startswith("impersonate-") for name, _ in request.headers):
        return user
    name = request.header("impersonate-user")
    own = user or ANONYMOUS
    groups = tuple(value for key, value in request.headers if key == "impersonate-group")
    space, _, account = name.removeprefix(_ACCOUNT).partition(":")
    is_account = name.startswith(_ACCOUNT) and bool(account)
    asked = AccessRequest(verb="impersonate", resource="users", name=name[:253])
    if is_account:
        asked = AccessRequest(verb="impersonate", resource="serviceaccounts", namespace=space, name=account[:253])
    of_others = [AccessRequest(verb="impersonate", resource="groups", name=group[:253]) for group in groups]
    if uid := request.header("impersonate-uid"):
        of_others.append(AccessRequest(verb="impersonate", group=_AUTHENTICATION, resource="uids", name=uid[:253]))
    for each in (asked, *of_others) if not own.is_administrator else ():
        if index.allowed(own, each) is None:
            raise forbidden(own.name, each)
    if is_account and not groups:
        groups = (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{space}")
    if not name:
        raise ApiStatusError(400, "the headers impersonate groups without a user: add Impersonate-User")
    return User(name, uid, groups)


def _is_node_review(user: User, request: Request) -> bool:
    """Return whether a node asks for a review. Raise ApiStatusError for a path that cannot be read."""
    if request.method != "POST" or request.parts[1:2] not in _REVIEW_GROUPS:
        return False
    return access_reviews.is_review(_call_of_node(user.node, "create", request))


def _call_of_node(node: str, verb: str, request: Request) -> ApiCall:
    """Return a node's call without its body."""
    target = parse_target(request.parts)
    return ApiCall(
        verb=verb,
        api_version=f"{target.group}/{target.version}" if target.group else target.version,
        plural=target.plural,
        namespace=target.namespace,
        name=target.name,
        subresource=target.subresource,
        node=node,
    )
