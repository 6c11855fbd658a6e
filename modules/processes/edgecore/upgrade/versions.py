"""The order of edgecore's versions: releases, what leads to one (`.dev`), and what follows one (`.post`)."""

import re
from typing import Final

VERSION_PATTERN: Final = r"[0-9]{1,6}\.[0-9]{1,6}\.[0-9]{1,6}(?:\.(?:dev|post)[0-9]{1,9})?(?:\+[a-z0-9.]{1,40})?"
"""A version of a wheel of edgecore, see `modules.processes.common.source_version`; safe as the name of a directory."""

_PARTS: Final = re.compile(r"([0-9]+)\.([0-9]+)\.([0-9]+)(?:\.(dev|post)([0-9]+))?")
_KINDS: Final = {"dev": -1, None: 0, "post": 1}


def is_version(text: str) -> bool:
    """Return whether a text is a version."""
    return re.fullmatch(VERSION_PATTERN, text, re.ASCII) is not None


def order_of(version: str) -> tuple[int, ...]:
    """Return what versions are compared by, as PEP 440 orders them; the commit after `+` does not count.

    Raises:
        ValueError: it is no version.
    """
    found = _PARTS.match(version)
    if found is None or not is_version(version):
        raise ValueError(f"no version: {version[:60]!r}")
    major, minor, patch, kind, number = found.groups()
    return int(major), int(minor), int(patch), _KINDS[kind], int(number or 0)
