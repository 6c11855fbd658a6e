"""Resources of the Kubernetes API, as discovery lists them."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec


class PrinterColumn(msgspec.Struct, frozen=True):
    """A column of a custom resource's table (additionalPrinterColumns)."""

    name: str
    path: str
    """Its JSONPath, which can be read."""
    type: str = "string"
    priority: int = 0
    """Above 0: shown with `-o wide` only."""
    description: str = ""


READ_VERBS: Final = ("get", "list", "watch")
WRITE_VERBS: Final = ("create", "delete", "patch", "update")
_VERBS_OF: Final = {"log": ("get",), "finalize": ("update",)}
"""Verbs of subresources that have fewer than others."""
SCALE: Final = "scale"
"""The subresource with the number of replicas, of the kind Scale."""


class CreatedSubresource(msgspec.Struct, frozen=True):
    """A subresource that is only created, by POST: its kind may be of another group than the resource."""

    name: str
    kind: str
    group: str = ""
    version: str = ""


class ConnectedSubresource(msgspec.Struct, frozen=True):
    """A subresource that connects a client to an object's node."""

    name: str
    kind: str
    verbs: tuple[str, ...] = ("create", "get")


class ServedSubresource(msgspec.Struct, frozen=True):
    """A subresource as discovery lists it."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    """Group of its kind, if that is not the resource's group."""
    version: str = ""


class Resource(msgspec.Struct, frozen=True):
    """A kind in the API."""

    kind: str
    plural: str
    token: str
    """Its name in resource strings of messages and in the store."""
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    created_subresources: tuple[CreatedSubresource, ...] = ()
    connected_subresources: tuple[ConnectedSubresource, ...] = ()
    verbs: tuple[str, ...] = (*READ_VERBS, *WRITE_VERBS)
    columns: tuple[PrinterColumn, ...] = ()
    """Columns of a custom resource's table, after its name."""
    selectable_fields: tuple[str, ...] = ()
    """The fields of a custom resource that field selectors may name beside `metadata`."""
    schema: dict[str, Any] | None = None
    """The OpenAPI v3 schema of a custom resource."""
    has_defaults: bool = False
    """Whether the schema has defaults, which objects get that were stored before it had."""
    watched_as: str = ""
    """The kind in the API server's keys; empty: the kind."""
    stored_version: str = ""
    """The apiVersion of its stored objects; empty: none are stored."""
    deprecation: str = ""
    """What clients of a deprecated version of a custom resource are told."""

    @property
    def is_custom(self) -> bool:
        """Whether a CustomResourceDefinition defines it."""
        return self.schema is not None

    @property
    def key_kind(self) -> str:
        """Its kind in the API server's keys."""
        return self.watched_as or self.kind

    @property
    def singular(self) -> str:
        """Its name in the singular, as discovery has it."""
        return self.token if self.is_custom else self.kind.lower()

    def all_subresources(self) -> Iterator[ServedSubresource]:
        """Yield its subresources of every sort."""
        for name in self.subresources:
            verbs = _VERBS_OF.get(name, ("get", "patch", "update"))
            if name == SCALE:
                yield ServedSubresource(name, "Scale", verbs, "autoscaling", "v1")
            else:
                yield ServedSubresource(name, self.kind, verbs)
        for connected in self.connected_subresources:
            yield ServedSubresource(connected.name, connected.kind, connected.verbs)
        for created in self.created_subresources:
            yield ServedSubresource(created.name, created.kind, ("create",), created.group, created.version)

    @property
    def group_version(self) -> str:
        """The apiVersion: `v1`, `storage.k8s.io/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """Its name in errors: `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural
