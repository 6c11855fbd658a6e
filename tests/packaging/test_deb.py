"""The Debian package: what is in it, and its life on a clean root."""

import gzip
import itertools
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from modules.processes.edgecore.upgrade.bundle import SBOM
from tests.end_to_end.processes import REPOSITORY
from tests.modules.processes.edgecore.upgrade.releases import make_wheel
from tests.packaging import deb
from tests.packaging.bundle import parts_of, released, released_at
from tests.packaging.deb import SOURCES, debian_version, oldest_libc, units
from tests.packaging.release import build
from tests.support.patience import PATIENCE

needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="there is no dpkg-deb on this machine")
MIRROR = "http://deb.debian.org/debian"


def said(*command: str | Path, **environment: str) -> str:
    """Return the output of a command that must succeed."""
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=4 * PATIENCE, check=False
    )
    assert done.returncode == 0, f"{done.args}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@needs_dpkg
def test_versions_are_in_the_order_of_their_wheels() -> None:
    """What leads to a release is before it, as for pip."""
    wheels = ["0.2.0", "0.3.0.dev9+gab", "0.3.0.dev10+gaa", "0.3.0", "0.3.0.post1+g0", "0.3.1.dev1+g0"]
    for lesser, greater in itertools.pairwise(debian_version(each) for each in wheels):
        said("dpkg", "--compare-versions", lesser, "lt", greater)
    with pytest.raises(ValueError, match="no"):
        debian_version("no")


def test_its_units_start_nothing_before_a_node_has_joined() -> None:
    """And leave containers running."""
    node, cloud = units()["edgecore.service"], units()["cloudcore.service"]
    for line in (
        "ExecStart=/opt/edgecore/env/bin/edgecore run --config /etc/kubeedge/config/edgecore.yaml",
        "ConditionPathExists=/etc/kubeedge/config/edgecore.yaml", "KillMode=process", "Delegate=yes",
        "EnvironmentFile=-/etc/default/edgecore",
    ):  # fmt: skip
        assert line in node.splitlines()
    assert node.index("ConditionPathExists") < node.index("[Service]")
    assert "ExecStart=/opt/edgecore/env/bin/cloudcore run $CLOUDCORE_OPTIONS" in cloud.splitlines()


@needs_dpkg
def test_what_is_in_it(tmp_path: Path) -> None:
    """Root's files, the same bytes each time; every value of its control file and scripts is filled in."""
    wheel, listed = make_wheel(tmp_path, "1.0.0"), tmp_path / SBOM
    listed.write_bytes(b"{}")
    one, two = (deb.build([wheel, listed], "1.0.0", 1_790_000_000, tmp_path / name) for name in "ab")
    assert one.read_bytes() == two.read_bytes()
    contents = said("dpkg-deb", "--contents", one).splitlines()
    assert {line.split()[1] for line in contents} == {"root/root"}
    names = {line.split()[5].removeprefix(".") for line in contents}
    assert {
        "/opt/edgecore/env/bin/edgecore", "/opt/edgecore/env/bin/python", "/usr/bin/edgecore", "/etc/default/edgecore",
        "/lib/systemd/system/edgecore.service", "/lib/systemd/system/cloudcore.service",
        f"/usr/share/doc/edgecore/{SBOM}", "/usr/share/doc/edgecore/copyright",
        "/usr/share/doc/edgecore/CHANGELOG.md.gz",
    } <= names  # fmt: skip
    said("dpkg-deb", "--control", one, tmp_path / "c")
    for path in (tmp_path / "c").iterdir():
        assert not re.search(r"@[A-Z_]+@", path.read_text()), path.name
    said("dpkg-deb", "--field", one, "Package", "Version", "Architecture", "Maintainer", "Description", "Depends")
    said("dpkg-deb", "--extract", one, tmp_path / "x")
    changes = gzip.decompress((tmp_path / "x/usr/share/doc/edgecore/changelog.gz").read_bytes()).decode().splitlines()
    assert changes[0] == "edgecore (1.0.0) unstable; urgency=medium"
    assert changes[-1] == " -- edgecore <edgecore@localhost>  Mon, 21 Sep 2026 14:13:20 +0000"


def test_it_depends_on_the_c_library_that_its_libraries_were_linked_with(tmp_path: Path) -> None:
    """The newest version that one of them names: with an older one it could not be loaded."""
    for name, symbols in {
        "a.so": b"GLIBC_2.9\0GLIBC_2.34\0GLIBC_2.2.5\0",
        "b.so.1": b"GLIBC_2.17\0",
        "c": b"GLIBC_3.0\0",
    }.items():
        (tmp_path / name).write_bytes(b"\x7fELF\0" + symbols)
    assert oldest_libc(tmp_path) == "2.34"


@pytest.mark.parametrize("name", ["preinst", "prerm", "postinst", "postrm"])
def test_its_scripts_are_shell(name: str) -> None:
    said("sh", "-n", SOURCES / name)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a clean Debian with Python."""
    if os.geteuid() != 0:
        pytest.skip("only root makes a clean root")
    if shutil.which("debootstrap") is None:
        pytest.skip("debootstrap is not installed")
    directory = tmp_path_factory.mktemp("root")
    command = ["debootstrap", "--variant=minbase", "--include=python3", "bookworm", str(directory), MIRROR]
    made = subprocess.run(command, capture_output=True, text=True, timeout=8 * PATIENCE, check=False)
    if made.returncode:
        pytest.skip(f"debootstrap has no mirror of Debian here: {made.stdout.strip()[-200:]}")
    return directory


@pytest.mark.slow
@pytest.mark.timeout(20 * PATIENCE)
@needs_dpkg
def test_its_life_on_a_clean_root(root: Path, tmp_path: Path) -> None:
    """Installed, upgraded, downgraded, removed and purged: the container is the same as long as the package is there, a
    database that it does not know refuses a version, and purge leaves nothing.
    """
    clone, dist = tmp_path / "clone", tmp_path / "dist"
    said("git", "clone", "--quiet", REPOSITORY, clone)
    build(clone, dist)
    scratch = tmp_path / "wheels"
    scratch.mkdir()
    own, version = released(dist)
    package = deb.build(parts_of(dist, scratch), version, released_at(own), dist)
    shutil.copy(package, root / "one.deb")
    said("dpkg-deb", "--raw-extract", package, tmp_path / "x")
    control = tmp_path / "x/DEBIAN/control"
    control.write_text(re.sub(r"^Version: .*$", "Version: 9.0.0", control.read_text(), flags=re.MULTILINE))
    said("dpkg-deb", "--root-owner-group", "-Znone", "--build", tmp_path / "x", root / "two.deb")
    shutil.copy(REPOSITORY / "tests/packaging/clean_root.sh", root / "run.sh")
    output = said("unshare", "--mount", "--pid", "--fork", "--kill-child", "chroot", root, "sh", "/run.sh")
    found = dict(line.split(" ", 1) for line in output.splitlines())
    assert found.pop("version") == f"edgecore {version}"
    container = found["installed"]
    assert container.startswith("edgecore-processes://")
    assert found == {
        "installed": container, "upgraded": container, "conffile": "# mine", "downgraded": container,
        "schema": "refused", "still": container, "processes": "0",
        "kept": "/etc/kubeedge/config/edgecore.yaml /var/lib/kubeedge/edgecore.db ", "left": "",
    }  # fmt: skip
