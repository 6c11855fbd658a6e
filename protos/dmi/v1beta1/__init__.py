"""DMI v1beta1 of KubeEdge, and the names of its services on the wire."""

from typing import Final

MANAGER: Final = "v1beta1.DeviceManagerService"
"""The service of edgecore."""

MAPPER: Final = "v1beta1.DeviceMapperService"
"""The service of a mapper."""

REFUSAL: Final = "edgecore-refusal-bin"
"""The key of the metadata of ReportDeviceStates with which a mapper says why it does not take the device, in UTF-8. DMI
has no other way to refuse a device of the answer to a registration; KubeEdge's edgecore reads no metadata.
"""
