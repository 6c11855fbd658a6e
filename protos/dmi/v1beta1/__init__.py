"""DMI v1beta1 of KubeEdge, and the names of its services on the wire."""

from typing import Final

MANAGER: Final = "v1beta1.DeviceManagerService"
"""The service of edgecore."""

MAPPER: Final = "v1beta1.DeviceMapperService"
"""The service of a mapper."""
