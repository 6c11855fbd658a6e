"""A wheel that is built from a later commit is newer, whatever state the version in the sources is in."""

import re
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
from packaging.version import Version

from modules.processes.common.source_version import VERSION_FILE, SourceCommit, built_version, checked_out, stamped
from modules.processes.common.version import COMMIT, VERSION
from tests.end_to_end.processes import REPOSITORY
from tests.packaging.changes import released
from tests.packaging.release import ReleaseError, build

HASH: Final = "46384b1b" + 32 * "0"


def commit(commits: int, since_version: int = 0, *, is_modified: bool = False) -> SourceCommit:
    """A commit of 2026."""
    return SourceCommit(HASH, 1_795_000_000, commits, since_version, is_modified)


@pytest.mark.parametrize(
    ("version", "source", "built"),
    [
        ("0.3.0.dev0", commit(5210, 17), "0.3.0.dev5210+g46384b1b"),
        ("0.3.0.dev0", commit(5210, is_modified=True), "0.3.0.dev5210+g46384b1b.dirty"),
        ("0.2.0", commit(5193), "0.2.0"),
        ("0.2.0", commit(5193, is_modified=True), "0.2.0.post0+g46384b1b.dirty"),
        ("0.2.0", commit(5194, 1), "0.2.0.post1+g46384b1b"),
        # a shallow clone
        ("0.3.0.dev0", commit(0), "0.3.0.dev0+g46384b1b"),
        ("0.2.0", commit(0), "0.2.0.post0+g46384b1b"),
        # no clone
        ("0.3.0.dev0", None, "0.3.0.dev0"),
    ],
)
def test_the_version_of_a_commit(version: str, source: SourceCommit | None, built: str) -> None:
    """Also when nobody has written the next version after a release."""
    assert built_version(version, source) == built == str(Version(built))


def test_later_is_newer() -> None:
    """By PEP 440, which pip compares with; 0.1.0 was the version of all wheels before."""
    history = [
        "0.1.0",
        built_version("0.2.0.dev0", commit(5192, 9)),
        built_version("0.2.0.dev0", commit(5193, 10)),
        built_version("0.2.0", commit(5194)),
        built_version("0.2.0", commit(5195, 1)),
        built_version("0.2.0", commit(5196, 2)),
        built_version("0.3.0.dev0", commit(5197)),
        built_version("0.3.0.dev0", commit(5198, 1)),
        built_version("0.3.0", commit(5199)),
    ]
    assert all(Version(older) < Version(newer) for older, newer in pairwise(history))


def git(where: Path, *arguments: str) -> None:
    """Run git as a user who commits."""
    user = ("-c", "user.name=t", "-c", "user.email=t@example", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *user, *arguments], cwd=where, check=True, capture_output=True)


def test_versions_of_a_clone_from_git(tmp_path: Path) -> None:
    """Also of a shallow one, and where git has nothing to say."""
    assert checked_out(tmp_path) is None
    git(tmp_path, "init", "here")
    here = tmp_path / "here"
    assert checked_out(here) is None
    (here / VERSION_FILE).parent.mkdir(parents=True)
    (here / "version.py").write_text('VERSION: Final = "1.dev0"\n')
    git(here, "add", ".")
    git(here, "commit", "--message", "version")
    git(here, "mv", "version.py", VERSION_FILE)
    git(here, "commit", "--message", "a move leaves the version as it is")
    git(tmp_path, "clone", "--depth", "1", f"file://{here}", "shallow")
    found, shallow = checked_out(here), checked_out(tmp_path / "shallow")
    assert found is not None
    assert shallow is not None
    assert (found.commits, found.since_version, found.is_modified, shallow.commits) == (2, 1, False, 0)
    assert (found.hash, found.time) == (shallow.hash, shallow.time)
    with pytest.raises(ReleaseError, match="unshallow"):
        build(tmp_path / "shallow", tmp_path / "dist")
    (here / VERSION_FILE).write_text("changed")
    changed = checked_out(here)
    assert changed is not None
    assert changed.is_modified
    with pytest.raises(ReleaseError, match="commit them first"):
        build(here, tmp_path / "dist")


def test_stamped_into_the_file() -> None:
    """The sources name no commit; nothing else of the file changes."""
    before = (REPOSITORY / VERSION_FILE).read_text()
    assert COMMIT == ""
    after = stamped(before, "1.2.3", commit(1))
    assert [line for line in after.splitlines() if line not in before.splitlines()] == [
        'VERSION: Final = "1.2.3"',
        f'COMMIT: Final = "{HASH}"',
        f'COMMIT_TIME: Final = "{commit(1).rfc3339}"',
    ]
    with pytest.raises(ValueError, match="0 lines VERSION"):
        stamped("", "1.2.3", commit(1))


def test_the_changes_are_by_version() -> None:
    """The version in the sources is the newest release's, or leads to a later one."""
    versions = [Version(one) for one in released()]
    assert versions == sorted(set(versions), reverse=True)
    ours = Version(VERSION)
    assert ours > versions[0] if ours.is_devrelease else ours == versions[0]
    assert "\n## [Unreleased]\n" in (REPOSITORY / "CHANGELOG.md").read_text()


def test_the_manifests_have_the_image_of_the_newest_release() -> None:
    """As the page that says how it is built."""
    named = {
        tag
        for path in [*(REPOSITORY / "deploy").iterdir(), REPOSITORY / "docs" / "in-a-cluster.md"]
        if path.is_file()
        for tag in re.findall(r"cloudcore:(\d+\.\d+\.\d+)", path.read_text())
    }
    assert named == {released()[0]}
