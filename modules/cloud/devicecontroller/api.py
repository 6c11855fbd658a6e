"""Calls about DeviceStatuses."""

from modules.apimachinery.kinds import JsonObject
from modules.cloud.client.calls import ApiCall
from modules.cloud.devices import API_VERSION, DEVICE_STATUS


def status_call(
    verb: str, namespace: str = "", name: str = "", body: JsonObject | None = None, options: JsonObject | None = None
) -> ApiCall:
    """Return a call about DeviceStatuses."""
    return ApiCall(
        verb=verb,
        api_version=API_VERSION,
        plural=DEVICE_STATUS.plural,
        namespace=namespace,
        name=name,
        body=body,
        options=options or {},
    )
