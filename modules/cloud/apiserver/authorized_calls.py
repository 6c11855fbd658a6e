"""The calls of nodes, users and administrators, each within the rights of who makes it."""

from collections.abc import Sequence

from beehive.clock import Clock
from modules.apimachinery.kinds import JsonObject
from modules.cloud.apiserver import api_calls
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.completeness import Completeness
from modules.cloud.apiserver.fencing import check_fence
from modules.cloud.apiserver.lease_renewals import renew
from modules.cloud.apiserver.pod_statuses import PodStatuses
from modules.cloud.authentication.users import Authenticated, User
from modules.cloud.authorization import access_reviews
from modules.cloud.authorization.access_control import AccessControl
from modules.cloud.authorization.attributes import of_call
from modules.cloud.authorization.graph import NodeGraph
from modules.cloud.authorization.node_authorizer import authorize
from modules.cloud.authorization.rbac.escalation import admission
from modules.cloud.authorization.rbac.index import RbacIndex
from modules.cloud.authorization.rbac.rules import AccessRequest
from modules.cloud.client.calls import APPLY, ApiCall, ApiResult
from modules.cloud.refusals import Refusals


class AuthorizedCalls:
    """The maker of API calls: of an administrator without authorization; of users, whose servers have authorized them,
    within their quotas and without rights that they lack; of nodes with authorization.

    Args:
        cluster: the objects.
        graph: which objects a node's pods use.
        index: the roles and bindings of users.
        refusals: counts refused requests of nodes.
        completeness: whether a missing object was deleted.
        clock: the time.
    """

    def __init__(
        self,
        cluster: Cluster,
        graph: NodeGraph,
        index: RbacIndex,
        refusals: Refusals,
        completeness: Completeness,
        clock: Clock,
    ) -> None:
        self._cluster = cluster
        self._graph = graph
        self._index = index
        self._access_control = AccessControl(graph, refusals)
        self._statuses = PodStatuses(cluster, graph)
        self._completeness = completeness
        self._clock = clock

    def may(self, call: ApiCall) -> bool:
        """Return whether the node authorizer allows a call; calls of others are authorized before they come here."""
        return not call.node or authorize(of_call(call.node, call), self._graph).allowed

    def serve(self, call: ApiCall, part: Sequence[JsonObject] | None = None) -> ApiResult:
        """Make a call.

        Args:
            call: the call.
            part: the objects of its collection that are deleted; None: all.

        Raises:
            ForbiddenError: the node may not make it.
            ConflictError: another cloudcore runs the controllers.
            DryRunError: a dry run has succeeded; the caller rolls back its changes.
        """
        if call.fence:
            check_fence(self._cluster, call.fence)
        if call.user and not call.node:
            user = User(call.user, groups=call.groups)
            of_user = self._cluster.with_admission(admission(user, self._index, _creation(call)))
            with of_user, self._cluster.within_quotas():
                return api_calls.serve(self._cluster, call, part=part)
        if not call.node:
            if (renewed := renew(self._cluster.storage, call)) is not None:
                return renewed
            with self._cluster.within_quotas():
                return api_calls.serve(self._cluster, call, part=part)
        if (reported := self._statuses.serve(call)) is not None:
            return reported
        if access_reviews.is_review(call):
            return access_reviews.answer(call, self._graph, self._index, self._authenticate)
        self._access_control.authorize(of_call(call.node, call))
        with self._cluster.with_admission(self._access_control.admission(call.node)):
            if call.verb != "list":
                return api_calls.serve(self._cluster, call)
            knows = self._completeness
            return api_calls.serve(self._cluster, call, knows_all=knows.knows_all, known_since=knows.known_since)

    def _authenticate(self, token: str, audiences: tuple[str, ...]) -> Authenticated | None:
        return self._cluster.tokens.authenticate(token, audiences, self._cluster.storage, self._clock.now())


def _creation(call: ApiCall) -> AccessRequest | None:
    """Return the right that an apply or an update takes where the object does not exist; None for other calls."""
    if call.patch_type != APPLY and call.verb != "update":
        return None
    group = call.api_version.rpartition("/")[0]
    return AccessRequest(verb="create", group=group, resource=call.plural, namespace=call.namespace, name=call.name)
