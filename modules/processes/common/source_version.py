"""Which commit a clone has checked out, and the version of a wheel that is built from it.

Only `edgecore version`, in a clone, and `setup.py` ask git; the agent never does.
"""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from time import gmtime, strftime
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
"""The directory that has the packages: a clone, an unpacked sdist, or `site-packages`."""

VERSION_FILE: Final = "modules/processes/common/version.py"

_SECONDS: Final = 20.0
_NEXT: Final = ".dev0"
_LETTERS: Final = 8
"""So many of the commit's hash are in a version."""


@dataclass(frozen=True)
class SourceCommit:
    """git's description of the commit that is checked out.

    Args:
        hash: of the commit, 40 hexadecimal digits or more.
        time: of the commit, in seconds of Unix time.
        commits: number of commits that lead to it, itself included; 0 in a shallow clone, which does not know.
        since_version: number of commits since the last change of the file with the version.
        is_modified: whether a tracked file differs from the commit.
    """

    hash: str
    time: int
    commits: int
    since_version: int
    is_modified: bool

    @property
    def rfc3339(self) -> str:
        """Return the time of the commit in UTC."""
        return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(self.time))


def checked_out(root: Path = ROOT) -> SourceCommit | None:
    """Return the commit of a clone; None where there is no clone, no git, or no commit."""
    if not (root / ".git").exists():
        return None
    try:
        commit, time = _git(root, "log", "-1", "--format=%H %ct").split()
        is_shallow = _git(root, "rev-parse", "--is-shallow-repository") == "true"
        # --follow: the file has moved since
        changed = _git(root, "log", "-1", "--format=%H", "--follow", "-G^VERSION: ", "--", VERSION_FILE)
        return SourceCommit(
            commit, int(time),
            commits=0 if is_shallow else int(_git(root, "rev-list", "--count", "HEAD")),
            since_version=int(_git(root, "rev-list", "--count", f"{changed}..HEAD")),
            is_modified=bool(_git(root, "status", "--porcelain", "--untracked-files=no")),
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=_SECONDS).stdout.strip()


def built_version(version: str, source: SourceCommit | None) -> str:
    """Return the version of a wheel, by PEP 440: a wheel of a later commit is newer.

    Args:
        version: in the sources, a release or ending in `.dev0`.
        source: the commit; None where it is not known, which leaves the version as it is.
    """
    if source is None:
        return version
    local = f"+g{source.hash[:_LETTERS]}{'.dirty' if source.is_modified else ''}"
    if version.endswith(_NEXT):
        return f"{version.removesuffix(_NEXT)}.dev{source.commits}{local}"
    if source.commits and not source.since_version and not source.is_modified:
        return version
    return f"{version}.post{source.since_version}{local}"


def stamped(text: str, version: str, source: SourceCommit) -> str:
    """Return the text of the file with the version, as it is in a wheel.

    Raises:
        ValueError: the text lacks one of the constants.
    """
    for name, value in (("VERSION", version), ("COMMIT", source.hash), ("COMMIT_TIME", source.rfc3339)):
        text, found = re.subn(rf'^{name}: Final = ".*"$', f'{name}: Final = "{value}"', text, flags=re.MULTILINE)
        if found != 1:
            raise ValueError(f"{VERSION_FILE} has {found} lines {name}: Final")
    return text
