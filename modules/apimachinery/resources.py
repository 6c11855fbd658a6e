"""Resources of the Kubernetes API, as discovery lists them."""

from typing import Final

import msgspec

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

    @property
    def group_version(self) -> str:
        """The apiVersion: `v1`, `storage.k8s.io/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """Its name in errors: `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural
