"""The documents of deploy/."""

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

DEPLOY: Final = Path(__file__).parents[4] / "deploy"


ONE: Final = "cloudcore.yaml"
REPLICAS: Final = "cloudcore-replicas.yaml"


def manifests(file: str = ONE) -> list[dict[str, Any]]:
    """All documents of a file, which the caller may change."""
    return deepcopy(_documents(file))


@cache
def _documents(file: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / file).read_text()))


def device_definitions() -> list[dict[str, Any]]:
    """All documents of deploy/devices.yaml."""
    return manifests("devices.yaml")


def of_kind(kind: str, file: str = ONE) -> list[dict[str, Any]]:
    """The documents of a kind."""
    return [one for one in manifests(file) if one["kind"] == kind]
