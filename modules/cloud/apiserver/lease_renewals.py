"""Renewals of leases, nearly all that idle nodes write: as `pod_statuses`, a short way for what is as usual."""

from typing import Final

from modules.apimachinery.go_values import time_error
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, kind_named
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.storage.object_storage import Storage

_LEASE: Final = kind_named("Lease")
_TIME: Final = "renewTime"
_CREATED: Final = "creationTimestamp"
_OPTIONS: Final[tuple[JsonObject, ...]] = ({}, {"fieldValidation": "Ignore"})
_PLAIN: Final = frozenset({str, int})
"""As a number equals a float or a truth value, too."""
_POINT: Final = len("2006-01-02T15:04:05")


def renew(storage: Storage, call: ApiCall) -> ApiResult | None:
    """Carry out an administrator's call if it changes nothing but the time of a lease's renewal, and names the state
    that it changes. Otherwise return None; then nothing is done.
    """
    body, is_one = call.body, call.verb == "update" and call.plural == _LEASE.plural and not call.subresource
    if not is_one or call.api_version != _LEASE.api_version or call.options not in _OPTIONS or call.duplicates:
        return None
    key = ObjectKey(_LEASE.key_name, call.namespace, call.name)
    live = storage.find(key)
    if live is None or is_being_deleted(live) or type(body) is not dict:
        return None
    spec, before, metadata = body.get("spec"), live.get("spec"), body.get("metadata")
    if type(spec) is not dict or type(before) is not dict or type(metadata) is not dict:
        return None
    time, last = spec.get(_TIME), before.get(_TIME)
    if type(time) is not str or type(last) is not str or len(time) != len(last) or time_error(time, is_micro=True):
        return None
    new = {**live, "metadata": {**live["metadata"]}, "spec": {**before, _TIME: time}}
    metadata = {_CREATED: live["metadata"][_CREATED], **metadata}
    if time[_POINT] != "." or not _PLAIN.issuperset(map(type, spec.values())) or {**body, "metadata": metadata} != new:
        return None
    return ApiResult(storage.change(key, live, new, is_checked=True))
