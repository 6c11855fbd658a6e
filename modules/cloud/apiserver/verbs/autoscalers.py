"""Requests about HorizontalPodAutoscalers of the older version, as requests about the stored one."""

from typing import Any

import msgspec

from modules.apimachinery.api_errors import BadRequestError
from modules.apimachinery.autoscaler_versions import KIND, OLDER, to_newer, to_older
from modules.apimachinery.computed import computed
from modules.apimachinery.json_patch import apply_json_patch
from modules.apimachinery.kinds import JsonObject, key_for
from modules.apimachinery.merge_patch import merge_patch
from modules.apimachinery.strategic_merge import merge_json
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.verbs.requests import check_version
from modules.cloud.client.calls import APPLY, JSON_PATCH, MERGE, ApiCall

_PARTS = ("spec", "status")
"""The parts of an object that the versions do not share."""


def with_newer_autoscaler(cluster: Cluster, request: ApiCall) -> ApiCall:
    """Return a request about an autoscaler of `autoscaling/v1` as one of `autoscaling/v2`, where what the older version
    does not have stays as it is.

    Raises:
        BadRequestError: the body has another apiVersion, or is a patch that cannot be applied.
    """
    live = cluster.storage.find(key_for(KIND, request.namespace, request.name)) if request.name else None
    found = msgspec.structs.replace(request, api_version=KIND.api_version)
    if live is not None and request.verb == "patch" and request.patch_type != APPLY:
        return _with_newer_patch(found, live)
    if not isinstance(request.body, dict):
        return found
    check_version(request.body, OLDER)
    kept = live if request.verb in ("update", "updatestatus") else None
    return msgspec.structs.replace(found, body=to_newer(request.body, kept))


def _with_newer_patch(request: ApiCall, live: JsonObject) -> ApiCall:
    """Return a request with the patch that makes of the stored object what its own patch makes of the older one."""
    shown, patch = to_older(live), request.body
    if request.patch_type == JSON_PATCH:
        unmanaged = {name: value for name, value in live["metadata"].items() if name != "managedFields"}
        shown = {**shown, "metadata": unmanaged}
        made: Any = computed(apply_json_patch, shown, patch)
        if not isinstance(made, dict):
            raise BadRequestError("the patch makes no object of the autoscaler")
        before = {**live, "metadata": unmanaged}
        return msgspec.structs.replace(
            request, body=merge_patch(before, to_newer(made, live)), patch_type=MERGE, document=b""
        )
    if not isinstance(patch, dict):
        return request
    check_version(patch, OLDER)
    parts = {name: patch[name] for name in _PARTS if isinstance(patch.get(name), dict)}
    made = to_newer(computed(merge_json, {name: shown.get(name) or {} for name in parts}, parts), live)
    changed = {name: merge_patch(live.get(name) or {}, made[name]) for name in parts}
    others = {**patch, "apiVersion": KIND.api_version} if "apiVersion" in patch else patch
    return msgspec.structs.replace(request, body={**others, **changed})
