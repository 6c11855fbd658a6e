"""A kill or a power cut at each step of what the commands write; `edgecore/upgrade` has whole upgrades."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from modules.processes.cloudcore.issued_kubeconfigs import IssuedKubeconfig, issued, remember
from modules.processes.common.backup.archive import FORMAT, BackupManifest, Part, read_archive, write_archive
from modules.processes.common.backup.replacement import Replacement, replace_all, replacing_database
from modules.processes.common.version import VERSION
from modules.processes.edgecore import join
from modules.processes.edgecore.config.names import OCI_ENDPOINT
from modules.processes.edgecore.runtime_choice import keep_runtime, kept_runtime
from modules.processes.edgecore.runtime_commands.images import keep_archive
from modules.processes.edgecore.upgrade.staging import stage
from modules.processes.edgecore.upgrade.updater.files import replace_durably
from modules.processes.edgecore.upgrade.updater.installation import Installation
from tests.modules.processes.edgecore.upgrade.releases import make_wheel
from tests.support.power_cuts import Cut, Promise, after_each_cut

Life = Callable[[Promise], object]
Check = Callable[[Cut], object]

SECRET: Final = b"a secret of the configuration"
OLD, NEW = SECRET + b", old\n", SECRET + b", new\n"


def configuration_of_a_join(root: Path) -> tuple[Life, Check]:
    """The former configuration is kept as it was."""
    path, kept = root / "edgecore.yaml", root / "edgecore.yaml.before-join"
    path.write_bytes(OLD)
    path.chmod(0o600)

    def life(promise: Promise) -> None:
        join._write(path, NEW.decode())
        promise("written")

    def check(cut: Cut) -> None:
        assert path.read_bytes() in ((NEW,) if cut.promised else (OLD, NEW))
        assert path.read_bytes() == OLD or kept.read_bytes() == OLD

    return life, check


def configuration_of_an_upgrade(root: Path) -> tuple[Life, Check]:
    """Owner and mode stay."""
    path = root / "edgecore.yaml"
    path.write_bytes(OLD)
    path.chmod(0o600)

    def life(promise: Promise) -> None:
        replace_durably(path, NEW, like=path.stat())
        promise("written")

    def check(cut: Cut) -> None:
        assert path.read_bytes() in ((NEW,) if cut.promised else (OLD, NEW))
        replace_durably(path, NEW, like=path.stat())

    return life, check


def runtime_choice(root: Path) -> tuple[Life, Check]:
    """The runtime of a node without a file: none, or the one that was chosen."""

    def life(promise: Promise) -> None:
        keep_runtime(root / "node", OCI_ENDPOINT)
        promise(OCI_ENDPOINT)

    def check(cut: Cut) -> None:
        assert kept_runtime(root / "node") in (cut.promised or ("", OCI_ENDPOINT))

    return life, check


def link_of_versions(root: Path) -> tuple[Life, Check]:
    """The link leads to one of two versions."""
    installation = Installation(root)
    for version in ("1", "2"):
        (installation.versions / version).mkdir(parents=True)
    installation.activate("1")

    def life(promise: Promise) -> None:
        installation.activate("2")
        promise("2")

    def check(cut: Cut) -> None:
        assert installation.current() in (cut.promised or ("1", "2"))

    return life, check


def staged_version(root: Path) -> tuple[Life, Check]:
    """A version that is there is whole."""
    installation, wheel = Installation(root / "i"), make_wheel(root, "1.0.0")
    installation.versions.mkdir(parents=True)

    def life(promise: Promise) -> None:
        promise(stage([wheel], b"{}", "1.0.0", installation, 1 << 20))

    def check(cut: Cut) -> None:
        place = installation.versions / "1.0.0"
        if not cut.promised and not place.exists():
            return
        assert (place / "bin" / "python").is_symlink()
        assert (place / "bin" / "edgecore").read_text().startswith("#!")
        assert (place / "pyvenv.cfg").read_text().startswith("home")
        assert (next(place.glob("lib/*/site-packages")) / "edgecore_payload.py").exists()

    return life, check


def archive_of_images(root: Path) -> tuple[Life, Check]:
    """An archive with a name that the runtime imports is whole."""
    (root / "own.tar").write_bytes(b"layers" * 1000)

    def life(promise: Promise) -> None:
        keep_archive(root / "own.tar", root / "archives")
        promise("kept")

    def check(cut: Cut) -> None:
        path = root / "archives" / "own.tar"
        assert path.exists() or not cut.promised
        assert not path.exists() or path.read_bytes() == b"layers" * 1000

    return life, check


def backup(root: Path) -> tuple[Life, Check]:
    """A backup is whole, or not there."""
    head = BackupManifest(FORMAT, "edgecore", VERSION, "n1", "2026-11-20T00:00:00Z")

    def life(promise: Promise) -> None:
        write_archive(root / "backup", head, [Part("a", SECRET)])
        promise("written")

    def check(cut: Cut) -> None:
        if cut.promised or (root / "backup").exists():
            into = root / "into"
            into.mkdir()
            read_archive(root / "backup", into, "edgecore", lambda _: True)
            assert (into / "a").read_bytes() == SECRET

    return life, check


def restore(root: Path) -> tuple[Life, Check]:
    """Of each file, the former or the restored one is somewhere; no former log is beside a restored database."""
    new, place = root / "new", root / "place"
    for directory, content in ((new, NEW), (place, OLD)):
        directory.mkdir()
        for name in ("a.db", "b"):
            (directory / name).write_bytes(content)
            (directory / name).chmod(0o600)
    (place / "a.db-wal").write_bytes(OLD)
    (place / "a.db-wal").chmod(0o600)
    wanted = [*replacing_database(new / "a.db", place / "a.db"), Replacement(new / "b", place / "b")]

    def life(promise: Promise) -> None:
        replace_all(wanted, ".was")
        promise("restored")

    def check(cut: Cut) -> None:
        for name in ("a.db", "b"):
            found = {each: (place / each).read_bytes() for each in (name, f"{name}.was") if (place / each).exists()}
            assert OLD in found.values(), name
            assert found.get(name) in ((NEW,) if cut.promised else (None, OLD, NEW))
        has_both = (place / "a.db").exists() and (place / "a.db-wal").exists()
        assert not has_both or (place / "a.db").read_bytes() == OLD

    return life, check


def issued_kubeconfig(root: Path) -> tuple[Life, Check]:
    """A certificate of an administrator, which can be revoked by its serial number."""

    def life(promise: Promise) -> None:
        for serial in ("1", "2"):
            remember(root, IssuedKubeconfig(serial, "u", 1.0, 2.0))
            promise(serial)

    def check(cut: Cut) -> None:
        assert {each.serial for each in issued(root)} >= set(cut.promised)

    return life, check


WRITERS: Final = {
    made.__name__: made
    for made in (
        configuration_of_a_join, configuration_of_an_upgrade, runtime_choice, link_of_versions, staged_version,
        archive_of_images, backup, restore, issued_kubeconfig,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", WRITERS)
def test_a_cut_at_any_step_leaves_the_old_or_the_new(tmp_path: Path, name: str) -> None:
    before = os.umask(0o022)
    try:
        assert after_each_cut(tmp_path, *WRITERS[name](tmp_path), secrets=(SECRET,)) >= 3
    finally:
        os.umask(before)
