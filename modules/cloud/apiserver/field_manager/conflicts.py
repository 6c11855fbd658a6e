"""Conflicts of a server-side apply, in the words of kube-apiserver."""

from collections.abc import Iterable
from typing import Final

from modules.apimachinery.api_errors import ApiError
from modules.cloud.apiserver.field_manager.managed_fields import UPDATE, Managed
from modules.cloud.apiserver.field_manager.paths import Path, path_text

_MOST: Final = 100
"""Conflicts that are named."""
_LONGEST: Final = 300
"""Characters of a path."""


class ApplyConflictError(ApiError):
    """Other managers have set the fields of a manifest to other values.

    Args:
        conflicts: the managers, and the fields of each.
    """

    code = 409
    reason = "Conflict"

    def __init__(self, conflicts: Iterable[tuple[Managed, Iterable[Path]]]) -> None:
        all_ = [(_told(one), path_text(path)[:_LONGEST]) for one, paths in conflicts for path in sorted(paths)]
        named = all_[:_MOST]
        causes = [
            {"reason": "FieldManagerConflict", "message": f"conflict with {of}", "field": path} for of, path in named
        ]
        if len(all_) == 1:
            message = f"Apply failed with 1 conflict: conflict with {all_[0][0]}: {all_[0][1]}"
        else:
            by_manager: dict[str, list[str]] = {}
            for of, path in named:
                by_manager.setdefault(of, []).append(path)
            lines = [
                line for of, paths in sorted(by_manager.items())
                for line in (f"conflicts with {of}:", *(f"- {path}" for path in paths))
            ]  # fmt: skip
            message = f"Apply failed with {len(all_)} conflicts: " + "\n".join(lines)
        super().__init__("cannot apply a manifest", message, {"causes": causes})


def _told(one: Managed) -> str:
    of = one.manager
    told = f'"{of.name}"' + (f' with subresource "{of.subresource}"' if of.subresource else "")
    if of.operation != UPDATE:
        return told
    return f"{told} using {of.api_version}" + (f" at {one.time}" if one.time else "")
