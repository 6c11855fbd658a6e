"""The rules of the API group resource.k8s.io (Kubernetes' `resource/validation`): what an update keeps."""

from edged.validation.causes import Causes
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.validation.metadata import immutable


def claim_update(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check that a ResourceClaim keeps what it asks for."""
    immutable(new.get("spec"), live.get("spec"), "spec", found)


def slice_update(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check that a ResourceSlice keeps its driver, its node and its pool."""
    wanted, before = new.get("spec") or {}, live.get("spec") or {}
    for field in ("driver", "nodeName"):
        immutable(wanted.get(field), before.get(field), f"spec.{field}", found)
    pool, old_pool = wanted.get("pool") or {}, before.get("pool") or {}
    immutable(pool.get("name"), old_pool.get("name"), "spec.pool.name", found)
