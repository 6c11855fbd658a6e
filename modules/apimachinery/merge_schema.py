"""The merge strategies of fields in Kubernetes objects, for strategic merge patches.

Kubernetes declares them beside each field of its Go types (`patchStrategy`, `patchMergeKey`), and in its OpenAPI
(`x-kubernetes-patch-strategy`).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

MERGE: Final = "merge"
REPLACE: Final = "replace"


class MergeSchema(msgspec.Struct, frozen=True):
    """The merge strategies of an object's fields."""

    fields: Mapping[str, "MergeField"] = MappingProxyType({})
    values: "MergeField | None" = None
    """The strategy of every other field, as of a map's values; None: the default."""

    def field(self, name: str) -> "MergeField":
        """Return the strategy of a field."""
        return self.fields.get(name) or self.values or PLAIN


class MergeField(msgspec.Struct, frozen=True):
    """The merge strategy of one field."""

    schema: MergeSchema = MergeSchema()
    """The schema of the field's value, or of its elements when it is a list."""
    strategy: str = ""
    """`merge` for a list whose elements are merged, `replace` for an object that is replaced. By default, an object is
    merged, and a list replaced.
    """
    merge_key: str = ""
    """The merge key of a list: elements with an equal value of it are the same element; "" for a list of plain values,
    which is merged as a set.
    """


PLAIN: Final = MergeField()
"""The default strategy."""
