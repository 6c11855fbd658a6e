"""Resources of the Kubernetes API, as discovery lists them."""

from typing import Any, Final

import msgspec


class PrinterColumn(msgspec.Struct, frozen=True):
    """A column of a custom resource's table (additionalPrinterColumns)."""

    name: str
    path: tuple[str | int, ...]
    """Names of members and indexes of elements, out of its JSONPath."""
    type: str = "string"
    priority: int = 0
    """Above 0: shown with `-o wide` only."""
    description: str = ""


READ_VERBS: Final = ("get", "list", "watch")
WRITE_VERBS: Final = ("create", "delete", "patch", "update")


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
    verbs: tuple[str, ...] = (*READ_VERBS, *WRITE_VERBS)
    columns: tuple[PrinterColumn, ...] = ()
    """Of a custom resource's table, after its name."""
    schema: dict[str, Any] | None = None
    """The OpenAPI v3 schema of a custom resource."""
    watched_as: str = ""
    """The kind in the API server's keys; empty: the kind."""

    @property
    def is_custom(self) -> bool:
        """Whether a CustomResourceDefinition defines it."""
        return self.schema is not None

    @property
    def group_version(self) -> str:
        """The apiVersion: `v1`, `storage.k8s.io/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """Its name in errors: `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural
