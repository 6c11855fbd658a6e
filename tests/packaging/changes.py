"""The releases that CHANGELOG.md has."""

import re

from tests.end_to_end.processes import REPOSITORY


def released() -> list[str]:
    """Return the versions of releases, newest first."""
    return re.findall(
        r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", (REPOSITORY / "CHANGELOG.md").read_text(), re.MULTILINE
    )
