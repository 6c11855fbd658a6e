"""The names of bundles of edgecore, as `make bundle` gives them."""

import re
from pathlib import Path
from typing import Final

BUNDLE_NAME: Final = re.compile(
    r"edgecore-(?P<version>[A-Za-z0-9.+]{1,60})-cp[0-9]{2,4}-[A-Za-z0-9_]{1,30}\.bundle", re.ASCII
)


def bundle_versions(directory: Path) -> list[str]:
    """Return the versions that a directory has bundles of, for any Python and any machine. Raises OSError."""
    found = (BUNDLE_NAME.fullmatch(each.name) for each in directory.iterdir())
    return sorted({each["version"] for each in found if each is not None})
