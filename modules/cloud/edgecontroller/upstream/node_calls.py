"""The API calls of nodes, of administrators and of the cloud's other modules, as the cluster's API server gets them."""

from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Final

import msgspec

from modules.apimachinery.api_errors import (
    ApiError,
    ForbiddenError,
    InternalError,
    MethodNotAllowedError,
    UnknownKindError,
)
from modules.apimachinery.application import incomplete
from modules.apimachinery.kinds import JsonObject, Kind, ObjectKey, key_for, key_of, kind_named, uid_of
from modules.cloud.apiextensions.kinds import ServedKinds
from modules.cloud.authorization.access_control import AccessControl
from modules.cloud.authorization.attributes import user_of
from modules.cloud.authorization.node_accounts import MOST_REQUESTS
from modules.cloud.client.calls import WATCH, Answered, ApiCall, ApiResult, is_write
from modules.cloud.edgecontroller.cluster.client import ClusterClient
from modules.cloud.edgecontroller.cluster.remote_cluster import RemoteCluster
from modules.cloud.edgecontroller.downstream.controller import DownstreamController
from modules.cloud.edgecontroller.downstream.node_groups import FILTERED, FindService, NodeGroupFilter
from modules.cloud.edgecontroller.mirror.ended_pods import ended_uid, listed_pods, missing_pods
from modules.cloud.edgecontroller.mirror.mirrored_bodies import MirroredBodies
from modules.cloud.edgecontroller.mirror.reflectors import MIRRORED
from modules.cloud.edgecontroller.upstream import api_requests
from modules.cloud.edgecontroller.upstream.node_writes import (
    admitted,
    is_conditional,
    is_present,
    needs_live,
    version_in,
    with_labels,
)

_OWNER_FIELDS = {"pods": "nodeName", "volumeattachments": "nodeName", "certificatesigningrequests": "username"}
"""Fields of the spec that say whose object it is."""
_SERVICE = kind_named("Service")
_REQUEST: Final = "CertificateSigningRequest"
_MOST_PAGES: Final = 4000
_MOST_ATTEMPTS: Final = 4
"""Repeated attempts to write an object without a version, which others write, too."""


def shown(call: ApiCall, node: str, result: ApiResult) -> ApiResult:
    """Return the result of a node's call, or a refusal in place of an object of others.

    The authorizer lets a node ask for objects that the mirror does not have, as they may not exist. But a pod without a
    node is never there, a pod just bound not yet, and a certificate signing request neither.
    """
    field = _OWNER_FIELDS.get(call.plural)
    if call.verb != "get" or field is None or result.object is None:
        return result
    owner = user_of(node) if field == "username" else node
    if _spec_of(result.object).get(field) == owner:
        return result
    why = f"no relationship found between node '{node}' and this object"
    group, slash, _ = call.api_version.partition("/")
    error = ForbiddenError(call.plural, call.name[:253], why, group if slash else "")
    return ApiResult(refusal=error.status())


def _key_of(service: JsonObject) -> ObjectKey:
    metadata = service["metadata"]
    return key_for(_SERVICE, str(metadata.get("namespace") or ""), str(metadata["name"]))


def _spec_of(obj: JsonObject) -> JsonObject:
    spec = obj.get("spec")
    return spec if isinstance(spec, dict) else {}


class NodeCalls:
    """The calls of nodes: reads of mirrored objects are answered from the mirror, writes are checked by
    NodeRestriction, and all other calls are made by requests.

    Args:
        cluster: the cluster.
        bodies: its mirrored objects.
        client: of the cluster.
        access_control: checks the writes of nodes; the cluster sees them as cloudcore's.
        downstream: knows the pods of each node, and is told of those that a node is answered.
    """

    def __init__(
        self,
        cluster: RemoteCluster,
        bodies: MirroredBodies,
        client: ClusterClient,
        access_control: AccessControl,
        downstream: DownstreamController,
    ) -> None:
        self._groups = NodeGroupFilter(bodies)
        self._kinds = ServedKinds({})
        self._cluster = cluster
        self._bodies = bodies
        self._api = client.calls
        self._watches = client.watches
        self._reflectors = client.reflectors
        self._claims = client.claims
        self._access_control = access_control
        self._downstream = downstream
        self._following: dict[str, list[Callable[[], None]]] = {}
        """By object that is read before a write to it, the later writes, which must not overtake that write."""

    def perform(self, call: ApiCall, answered: Answered, node: str) -> None:
        """Make a call of a node, or of an administrator (""): a node's read of a mirrored object from the mirror, all
        others by requests. An administrator, or a module, may decide by the answer, and the mirror is late.

        A node's list waits for the claim of the node: this cloudcore tells the node of deletions after the claim. The
        node's former cloudcore may have sent objects without having noted them.
        """
        if call.verb == "list" and self._claims.must_wait(node, partial(self.perform, call, answered, node)):
            return
        kind = self._kind_of(call)
        if kind is not None and not kind.namespaced:  # a metaserver's path may have one all the same
            call = msgspec.structs.replace(call, namespace="")
        known = self._mirrored(kind, call, node) if node and call.verb == "get" else None
        if known is not None:
            answered(ApiResult(known))
        elif call.verb == WATCH:
            self._watches.begin(call, answered)
        elif not node or (self._cluster.decides_on(call) and not (self._following and is_write(call))):
            self._api.send(call, answered, node)
        elif not is_write(call):
            self._api.send(call, partial(self._have_read, call, node, answered), node)
        elif kind is not None and kind.name == _REQUEST and call.verb == "create":
            self._ask_for_certificate(kind, call, node, answered)
        elif kind is not None:
            self._admit(kind, call, node, self._handling_end(kind, call, node, answered))
        else:
            error = MethodNotAllowedError(f"a node writes no {call.plural[:80]}")
            answered(ApiResult(refusal=error.status()))

    def read_for(self, call: ApiCall, answered: Answered, node: str) -> None:
        """Make a read of this cloudcore's own that decides on a node's objects, after the claim of the node: before it
        the node is sent nothing.
        """
        if not self._claims.must_wait(node, partial(self.read_for, call, answered, node)):
            self._api.send(call, answered)

    def _kind_of(self, call: ApiCall) -> Kind | None:
        """Return the kind of a call's resource, None for a resource that edgecontroller does not know."""
        try:
            return self._kinds.at(call.api_version, call.plural)
        except UnknownKindError:
            return None

    def _mirrored(self, kind: Kind | None, call: ApiCall, node: str) -> JsonObject | None:
        if call.subresource or kind is None or kind.name not in MIRRORED:
            return None
        key = key_for(kind, call.namespace, call.name)
        if call.options == api_requests.NEWEST or self._claims.is_claiming(node):
            return None
        return None if self._downstream.stale.may_have_newer(node, key) else self._bodies.find_whole(key)

    def _have_read(self, call: ApiCall, node: str, answered: Answered, result: ApiResult) -> None:
        """Take the answer to a node's read. A list of its pods may be newer than the mirror, whose watch is late: a pod
        that the list lacks must not be sent to the node again, and the deletion of a pod that it has must be, even if
        the watch never tells of that pod.
        """
        known = (self._bodies.find(key) for key in self._downstream.locations.pods_of(node))
        for pod in list(missing_pods(call, node, result, (pod for pod in known if pod is not None))):
            self._reflectors.handle_end(key_of(pod), uid_of(pod), node)
        for pod in listed_pods(call, node, result):
            self._reflectors.observe(partial(self._downstream.record_answer, node, pod))
        if call.verb == "list" and result.object is not None and not self._cluster.knows_all():
            metadata = {**result.object["metadata"], **incomplete(self._cluster.known_since())}
            result = msgspec.structs.replace(result, object={**result.object, "metadata": metadata})
        kind = self._kind_of(call)
        if kind is None or kind.name not in FILTERED or result.object is None:
            answered(shown(call, node, result))
        elif self._reflectors.mirrors(_SERVICE.key_name):
            answered(ApiResult(self._near(kind, node, result.object, None)))
        else:
            self._read_services(kind, call, node, answered, result.object)

    def _read_services(self, kind: Kind, call: ApiCall, node: str, answered: Answered, found: JsonObject) -> None:
        """Answer a read of endpoints when their Services are here: the mirror does not have all of them yet. Where they
        cannot be read, all endpoints are answered, as in KubeEdge.
        """

        def read(result: ApiResult) -> None:
            services = {_key_of(each): each for each in (result.object or {}).get("items") or []}
            answered(ApiResult(self._near(kind, node, found, services.get)))

        listing = ApiCall(verb="list", api_version="v1", plural=_SERVICE.plural, namespace=call.namespace)
        self._api.send(listing, read)

    def _near(self, kind: Kind, node: str, found: JsonObject, find: FindService | None) -> JsonObject:
        """Return an object with endpoints, or a list of such objects, as a node gets it. Items may have no kind."""
        if "items" not in found:
            return self._groups.shown(node, found, find)
        items = []
        for each in found["items"] or []:
            near = self._groups.shown(node, {**each, "kind": kind.name}, find)
            items.append(near if "kind" in each else {name: part for name, part in near.items() if name != "kind"})
        return {**found, "items": items}

    def _handling_end(self, kind: Kind, call: ApiCall, node: str, answered: Answered) -> Answered:
        """Return a function that takes the answer to a node's write. The answer to a deletion has no object, as in
        KubeEdge. The end of a pod is noted until the watch reports it, because the node waits for it, also when the
        mirror never had the pod.
        """
        if call.verb != "delete":
            return answered

        def handle(result: ApiResult) -> None:
            uid = ended_uid(call, result) if kind.name == "Pod" else ""
            if uid:
                self._reflectors.handle_deletion(key_for(kind, call.namespace, call.name), uid, node)
            answered(result if result.refusal is not None else ApiResult())

        return handle

    def _ask_for_certificate(self, kind: Kind, call: ApiCall, node: str, answered: Answered) -> None:
        """Create a node's certificate signing request, unless it has too many. The requests of a node are counted one
        after the other.
        """
        turn = f"{call.plural} of {node}"
        if turn in self._following:
            self._following[turn].append(partial(self._ask_for_certificate, kind, call, node, answered))
            return
        self._following[turn] = []

        def counted(refusal: ApiResult | None) -> None:
            waiting = self._following.pop(turn)
            try:
                if refusal is None:
                    self._admit(kind, call, node, answered)
                else:
                    answered(refusal)
            finally:
                for each in waiting:
                    each()

        self._count_requests(kind, user_of(node), counted)

    def _count_requests(
        self,
        kind: Kind,
        user: str,
        counted: Callable[[ApiResult | None], None],
        made: int = 0,
        token: str = "",
        pages: int = 1,
    ) -> None:
        """Count the stored certificate signing requests of a user, page by page, because requests of all users are
        listed. `counted` takes a refusal when there are too many, or when they cannot be listed in so many pages.
        """

        def listed(result: ApiResult) -> None:
            if result.object is None:
                counted(result)
                return
            there = made + sum(_spec_of(one).get("username") == user for one in result.object["items"])
            following = str((result.object.get("metadata") or {}).get("continue") or "")
            if there >= MOST_REQUESTS:
                why = f"{user} has {there} already; delete some"
                counted(ApiResult(refusal=ForbiddenError(kind.plural, "", why, kind.api_group).status()))
            elif following and pages < _MOST_PAGES:
                self._count_requests(kind, user, counted, there, following, pages + 1)
            elif following:
                counted(ApiResult(refusal=InternalError(f"{kind.plural} have more than {_MOST_PAGES} pages").status()))
            else:
                counted(None)

        self._api.send(api_requests.page_of(kind.name, token), listed)

    def _admit(
        self, kind: Kind, call: ApiCall, node: str, answered: Answered, attempts: int = 0, *, reads: bool = False
    ) -> None:
        """Check a node's write by NodeRestriction, and make it. The mirror may be behind the node, which may have had a
        new object from another cloudcore, and behind others who change the object: then it is read before the next of
        so many attempts.
        """
        turn = f"{call.plural} {call.namespace}/{call.name}"
        if call.name and turn in self._following:
            again = partial(self._admit, kind, call, node, answered, attempts, reads=reads)
            self._following[turn].append(again)
            return
        live = self._bodies.find_whole(key_for(kind, call.namespace, call.name)) if call.name and not reads else None
        if not needs_live(kind, call) or (live is not None and is_present(kind, call, live)):
            self._admit_change(kind, call, node, live, answered, attempts)
            return

        def found(result: ApiResult) -> None:
            waiting = self._following.pop(turn, ())
            try:
                if result.object is None:
                    answered(result)
                else:
                    self._admit_change(kind, call, node, result.object, answered, attempts)
            finally:
                for each in waiting:
                    each()

        if call.name:
            self._following[turn] = []
        read = ApiCall(
            verb="get", api_version=call.api_version, plural=call.plural, namespace=call.namespace, name=call.name
        )
        self._api.send(read, found)

    def _admit_change(
        self, kind: Kind, call: ApiCall, node: str, live: JsonObject | None, answered: Answered, attempts: int
    ) -> None:
        changed = HTTPStatus.UNPROCESSABLE_ENTITY if isinstance(call.body, list) else HTTPStatus.CONFLICT

        def written(result: ApiResult) -> None:
            if (result.refusal or {}).get("code") == changed:
                self._admit(kind, call, node, answered, attempts + 1, reads=True)
            else:
                answered(result)

        try:
            write = admitted(kind, call, live, self._access_control.admission(node))
        except ApiError as error:
            answered(ApiResult(refusal=error.status()))
        else:
            if kind.name == "Node" and write.verb == "create":
                write = with_labels(write, self._cluster.labels_of(node))
            is_again = is_conditional(kind, call) and not version_in(call) and attempts < _MOST_ATTEMPTS
            self._api.send(write, written if is_again else answered, node)
