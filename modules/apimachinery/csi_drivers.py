"""Annotations of a Node about the storage drivers that run on it."""

from typing import Annotated, Final

from msgspec import Meta, Struct

MOST_VOLUMES: Final = 2**31 - 1
"""The largest limit that a CSINode can have."""

NODE_ID_ANNOTATION: Final = "csi.volume.kubernetes.io/nodeid"
"""Each driver's id of the node, as JSON. Attachers and provisioners read it (kubelet's nodeinfomanager)."""
DRIVERS_ANNOTATION: Final = "edgecore.io/csi-drivers"
"""A `DriverNote` of each driver that has anything to note, as JSON. cloudcore makes the CSINode of both."""


class DriverNote(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a CSINode says of a driver beside its id of the node."""

    topology_keys: tuple[str, ...] = ()
    """Labels of the node by which the driver tells places apart, sorted."""
    count: Annotated[int, Meta(ge=0, le=MOST_VOLUMES)] = 0
    """The most volumes that the node can have; 0: no limit."""
