"""The documents of deploy/."""

from pathlib import Path
from typing import Any, Final

import yaml

DEPLOY: Final = Path(__file__).parents[4] / "deploy"


ONE: Final = "cloudcore.yaml"
REPLICAS: Final = "cloudcore-replicas.yaml"


def manifests(file: str = ONE) -> list[dict[str, Any]]:
    """All documents of a file."""
    return list(yaml.safe_load_all((DEPLOY / file).read_text()))


def device_definitions() -> list[dict[str, Any]]:
    """All documents of deploy/devices.yaml."""
    return list(yaml.safe_load_all((DEPLOY / "devices.yaml").read_text()))


def of_kind(kind: str, file: str = ONE) -> list[dict[str, Any]]:
    """The documents of a kind."""
    return [one for one in manifests(file) if one["kind"] == kind]
