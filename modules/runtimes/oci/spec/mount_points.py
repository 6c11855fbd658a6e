"""Mount points below links of an image that lead to nothing yet.

The runtime makes missing mount points inside the image, but crun 1.8 fails at an absolute link to a directory that the
image lacks, such as /var/run -> /run without /run, where nearly every pod has its service account mounted.
"""

import os
import stat
from pathlib import Path
from typing import Final

_MOST_LINKS: Final = 40
"""Links followed for one path, as in Linux."""


def mount_point(rootfs: Path, path: str) -> str:
    """Return where a mount at `path` is to be made: where the links on its way lead inside the image if something is
    missing there, `path` itself otherwise. Both have no "..".
    """
    top = str(rootfs)
    found: list[str] = []
    pending = path.strip("/").split("/")[::-1]
    links = 0
    while pending:
        name = pending.pop()
        if name in ("", ".", ".."):
            del found[len(found) - (name == "..") :]
            continue
        try:
            mode = os.lstat(f"{top}/{'/'.join((*found, name))}").st_mode
        except OSError:
            return _without_links(found, name, pending) if links and pending else path
        if not stat.S_ISLNK(mode) or not pending:
            found.append(name)
            continue
        links += 1
        if links > _MOST_LINKS:
            return path
        target = os.readlink(f"{top}/{'/'.join((*found, name))}")  # noqa: PTH115 - the same text as above
        found = [] if target.startswith("/") else found
        pending.extend(target.split("/")[::-1])
    return path


def _without_links(found: list[str], name: str, pending: list[str]) -> str:
    """Nothing below a missing name can be a link."""
    parts = [*found, name]
    for part in reversed(pending):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)
