"""Where the answer to a query comes from, the store or the cloud, by the type of the object. Pure."""

from enum import Enum, auto

from beehive import ResourceType


class Origin(Enum):
    """Source of the answer to a query."""

    STORE = auto()
    STORE_FIRST = auto()
    STORE_REFRESHED = auto()
    """The store first, with a query to the cloud in the background, because it does not push changes."""
    CLOUD_FIRST = auto()
    """The store only while the cloud does not answer."""
    CLOUD = auto()


_ORIGINS: dict[str, Origin] = {
    ResourceType.POD: Origin.STORE_FIRST,
    ResourceType.CONFIGMAP: Origin.STORE_FIRST,
    ResourceType.SECRET: Origin.STORE_FIRST,
    ResourceType.NODE: Origin.CLOUD_FIRST,
    ResourceType.PERSISTENT_VOLUME: Origin.STORE_REFRESHED,
    ResourceType.PERSISTENT_VOLUME_CLAIM: Origin.STORE_REFRESHED,
    ResourceType.VOLUME_ATTACHMENT: Origin.STORE_REFRESHED,
    ResourceType.SERVICE_ACCOUNT_TOKEN: Origin.STORE_REFRESHED,
    ResourceType.CA_CERTIFICATE: Origin.CLOUD_FIRST,
    ResourceType.LEASE: Origin.CLOUD,
    ResourceType.CERTIFICATE_SIGNING_REQUEST: Origin.CLOUD,
}


def origin_of(kind: str, *, named: bool) -> Origin:
    """Return the source of the answer to a query. Lists come from the store; the CA certificate has no name."""
    if not named and kind != ResourceType.CA_CERTIFICATE:
        return Origin.STORE
    return _ORIGINS.get(kind, Origin.STORE)
