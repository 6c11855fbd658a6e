"""Watches of nodes' metaservers of a cluster's other resources, custom ones among them."""

from http import HTTPStatus
from typing import Final

from modules.apimachinery.api_errors import ApiError, ForbiddenError
from modules.apimachinery.kinds import Kind
from modules.cloud.client.call_requests import failure
from modules.cloud.client.calls import Answered, ApiCall, ApiResult, CallSender
from modules.cloud.edgecontroller.cluster.resources import ClusterResources
from modules.cloud.edgecontroller.downstream.controller import DownstreamController
from modules.cloud.edgecontroller.mirror.reflectors import Reflectors
from modules.cloud.storage.transactions import Transactions

_REVIEWS: Final = "authorization.k8s.io/v1", "selfsubjectaccessreviews"


class ClusterWatches:
    """The watches of nodes, each begun when the cluster's RBAC lets the node watch, by a review in its name. All nodes
    that watch a kind share one reflector; each gets the objects that its watch selects.

    Args:
        api: sends calls of nodes.
        resources: finds kinds.
        reflectors: mirror the kinds.
        downstream: has the watches.
        transactions: of edgecontroller.
    """

    def __init__(
        self,
        api: CallSender,
        resources: ClusterResources,
        reflectors: Reflectors,
        downstream: DownstreamController,
        transactions: Transactions,
    ) -> None:
        self._api = api
        self._resources = resources
        self._reflectors = reflectors
        self._downstream = downstream
        self._transactions = transactions

    def begin(self, call: ApiCall, answered: Answered) -> None:
        """Begin a watch. It ends with an answer that has the reason when it is forbidden, or there is no such
        resource.
        """
        group, _, version = call.api_version.partition("/")
        asked = {
            "verb": call.verb,
            "group": group,
            "version": version,
            "resource": call.plural,
            "namespace": call.namespace,
            "name": call.name,
        }
        body = {"kind": "SelfSubjectAccessReview", "apiVersion": _REVIEWS[0], "spec": {"resourceAttributes": asked}}
        review = ApiCall(verb="create", api_version=_REVIEWS[0], plural=_REVIEWS[1], body=body, node=call.node)

        def reviewed(result: ApiResult) -> None:
            if result.object is None:
                answered(result)
                return
            status = result.object.get("status")
            if not isinstance(status, dict) or status.get("allowed") is not True:
                why = f"the cluster's RBAC does not let node '{call.node}' watch this"
                answered(ApiResult(refusal=ForbiddenError(call.plural[:253], call.name[:253], why, group).status()))
                return
            self._resources.find(call.api_version, call.plural, found)

        def found(kind: Kind | None, why: str) -> None:
            if kind is None:
                answered(failure(HTTPStatus.NOT_FOUND, why))
            else:
                self._watch(call, kind, answered)

        self._api.send(review, reviewed, call.node)

    def _watch(self, call: ApiCall, kind: Kind, answered: Answered) -> None:
        self._transactions.begin()
        if not self._reflectors.mirror(kind):
            why = "cloudcore watches as many other kinds for nodes as it can"
            answered(failure(HTTPStatus.TOO_MANY_REQUESTS, why))
            return
        try:
            self._downstream.watch(call, kind)
        except ApiError as error:
            answered(ApiResult(refusal=error.status()))
        else:
            answered(ApiResult())
