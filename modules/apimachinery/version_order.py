"""The order of the versions of an API group, the preferred one first."""

import re
from collections.abc import Iterable
from typing import Final

_VERSION: Final = re.compile(r"v([0-9]{1,18})(?:(alpha|beta)([0-9]{1,18}))?")
_STAGES: Final = (None, "beta", "alpha")


def preferred_first(versions: Iterable[str]) -> list[str]:
    """Return versions by Kubernetes' version priority (CustomResourceDefinition Versioning, "Version priority"): stable
    ones, betas, alphas, each with the highest number first; then others as texts.
    """
    return sorted(versions, key=_rank)


def _rank(version: str) -> tuple[int, int, int, str]:
    match = _VERSION.fullmatch(version)
    if match is None:
        return len(_STAGES), 0, 0, version
    return _STAGES.index(match[2]), -int(match[1]), -int(match[3] or 0), version
