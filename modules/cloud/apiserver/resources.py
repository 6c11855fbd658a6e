"""The resources that the API server serves: its kinds, as discovery lists them."""

from typing import Final

from modules.apimachinery.resources import READ_VERBS, WRITE_VERBS, Resource
from modules.cloud.apiserver.kinds import KINDS, Kind

_WITH_STATUS: Final = (
    "Pod", "Node", "PersistentVolume", "PersistentVolumeClaim", "VolumeAttachment", "CertificateSigningRequest",
)  # fmt: skip
_IN_ALL: Final = ("Pod",)


def _resource(kind: Kind) -> Resource:
    return Resource(
        kind=kind.name,
        plural=kind.plural,
        token=kind.singular,
        group=kind.api_group,
        version=kind.api_version.rpartition("/")[2],
        namespaced=kind.namespaced,
        short_names=kind.short_names,
        categories=("all",) if kind.name in _IN_ALL else (),
        subresources=("status",) if kind.name in _WITH_STATUS else (),
        verbs=(*READ_VERBS, *WRITE_VERBS, "deletecollection"),
    )


RESOURCES: Final = tuple(_resource(kind) for kind in KINDS)

_BY_KIND: Final = {one.kind: one for one in RESOURCES}


def resource_of(kind: Kind) -> Resource:
    """Return the resource of a kind."""
    return _BY_KIND[kind.name]
