"""The mutants that are known to survive, and why they may: `survivors.toml`."""

import tomllib
from pathlib import Path

FILE = Path(__file__).parent / "survivors.toml"


def reasons(file: Path = FILE) -> dict[str, str]:
    """By the mutants' names."""
    with file.open("rb") as opened:
        listed = tomllib.load(opened).get("survivor", [])
    return {one["name"]: one["reason"] for one in listed}
