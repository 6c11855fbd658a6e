"""Statuses of pods, which are most of what nodes write.

`AuthorizedCalls` authorizes, merges, admits, checks and stores any call by steps of general use. Of a status much is
known beforehand: the pod keeps its name, its metadata and its spec. So only the status is looked at here. Whatever is
not as usual is left to the general way, which also words each refusal.
"""

from functools import cache
from typing import Final

from modules.apimachinery.api_errors import ApiError
from modules.apimachinery.conversion import validate_schema
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, kind_named, uid_of
from modules.apimachinery.merge_schema import MergeSchema
from modules.apimachinery.pods.objects import node_of
from modules.apimachinery.protobuf.empty_members import without_empty_members
from modules.apimachinery.strategic_merge import merge_strategic
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.fields.merge_schemas import schema_of
from modules.cloud.apiserver.fields.plain_form import is_in_stored_form
from modules.cloud.apiserver.fields.types import decoded
from modules.cloud.apiserver.strategies import with_changed_status
from modules.cloud.authorization.graph import NodeGraph
from modules.cloud.authorization.node_rules import RULES, Scope
from modules.cloud.client.calls import STRATEGIC, ApiCall, ApiResult

_POD: Final = kind_named("Pod")
_STATUS: Final = "status"
_TYPE: Final = ("V1PodStatus", "core.v1.PodStatus")
_CLAIMS: Final = "resourceClaimStatuses"
"""No node may change them."""
_OPTIONS: Final[tuple[JsonObject, ...]] = ({}, {"fieldValidation": "Ignore"})
_IS_RESTRICTED: Final = RULES["", "pods/status"]["patch"] is Scope.RESTRICTED
"""Whether a node may patch the statuses of the pods that are bound to it."""


class PodStatuses:
    """Patches of the statuses of pods by their nodes.

    Args:
        cluster: the objects.
        graph: has the account of each node.
    """

    def __init__(self, cluster: Cluster, graph: NodeGraph) -> None:
        self._storage = cluster.storage
        self._accounts = graph.accounts

    def serve(self, call: ApiCall) -> ApiResult | None:
        """Carry out a call if it is such a patch, the node may make it, and it changes nothing but the status.
        Otherwise return None; then nothing is done.
        """
        body, is_one = call.body, call.verb == "patch" and call.plural == "pods" and call.subresource == _STATUS
        if not is_one or call.patch_type != STRATEGIC or call.api_version != "v1" or call.options not in _OPTIONS:
            return None
        key = tuple.__new__(ObjectKey, (_POD.key_name, call.namespace, call.name))  # in C
        live = self._storage.find(key)
        if live is None or node_of(live) != call.node or not _IS_RESTRICTED or is_being_deleted(live):
            return None
        if type(body) is not dict or type(body.get(_STATUS)) is not dict or type(live.get(_STATUS)) is not dict:
            return None
        if len(body) > 1 and body != {"metadata": {"uid": uid_of(live)}, _STATUS: body[_STATUS]}:
            return None
        try:
            status = _merged(body[_STATUS], live)
        except ApiError:
            return None
        is_claim_kept = (status.get(_CLAIMS) or []) == (live[_STATUS].get(_CLAIMS) or [])
        if not is_claim_kept or not self._accounts.has_room(call.node, key, status):
            return None
        return ApiResult(self._storage.change_status(key, live, status))


@cache
def _schema() -> MergeSchema:
    """Return the strategies of the fields of a pod's status."""
    return schema_of(_POD.key_name).field(_STATUS).schema


def _merged(patch: JsonObject, live: JsonObject) -> JsonObject:
    """Return the checked status that a patch makes of a pod's. A change of a pod's status has rules for metadata only.

    Raises:
        ApiError: it may not be stored.
    """
    before = live[_STATUS]
    merged = merge_strategic(before, patch, _schema())
    changed = {**live, _STATUS: merged}
    if not is_in_stored_form(*_TYPE, merged):
        stored = [each for some in before.values() if type(some) is list for each in some if type(each) is dict]
        changed = without_empty_members({**live, **decoded(_POD, {_STATUS: merged}, stored)}, live)
        validate_schema({"kind": _POD.name, "apiVersion": _POD.api_version, _STATUS: changed[_STATUS]})
    status: JsonObject = with_changed_status(changed, live)[_STATUS]
    return status
