"""The documents of deploy/."""

from pathlib import Path
from typing import Any, Final

import yaml

DEPLOY: Final = Path(__file__).parents[4] / "deploy"


def manifests() -> list[dict[str, Any]]:
    """All documents of the file."""
    return list(yaml.safe_load_all((DEPLOY / "cloudcore.yaml").read_text()))


def device_definitions() -> list[dict[str, Any]]:
    """All documents of deploy/devices.yaml."""
    return list(yaml.safe_load_all((DEPLOY / "devices.yaml").read_text()))


def of_kind(kind: str) -> list[dict[str, Any]]:
    """The documents of a kind."""
    return [one for one in manifests() if one["kind"] == kind]
