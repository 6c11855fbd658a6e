"""The constraints have what setup.cfg asks for: `make constraints` renews them."""

import configparser
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.end_to_end.processes import REPOSITORY

OLDEST: Final = {"python_version": "3.11", "python_full_version": "3.11.2"}
"""Debian 12's interpreter."""


def pinned(name: str) -> dict[str, str]:
    """The versions of a file of constraints, by the name of the distribution, for the oldest interpreter."""
    lines = (REPOSITORY / name).read_text().replace("\\\n", " ").splitlines()
    found = [Requirement(line.partition("--hash")[0]) for line in lines if not line.startswith("#")]
    here = [one for one in found if one.marker is None or one.marker.evaluate(OLDEST)]
    return {canonicalize_name(one.name): str(one.specifier).removeprefix("==") for one in here}


def wanted(*extras: str) -> list[Requirement]:
    """What setup.cfg asks for."""
    config = configparser.ConfigParser(interpolation=None)
    config.read(REPOSITORY / "setup.cfg")
    lists = [config["options"]["install_requires"], *(config["options.extras_require"][extra] for extra in extras)]
    lines = [line.strip() for text in lists for line in text.splitlines()]
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize(
    ("file", "extras"),
    [
        ("constraints.txt", []),
        ("constraints-cloud.txt", ["postgresql"]),
        ("constraints-dev.txt", ["postgresql", "tui", "docs", "dev"]),
    ],
)
def test_each_requirement_has_a_version_that_it_allows(file: str, extras: list[str]) -> None:
    """On Debian 12's Python, too; a change of setup.cfg without `make constraints` fails here."""
    versions = pinned(file)
    for requirement in wanted(*extras):
        version = versions.get(canonicalize_name(requirement.name), "")
        assert version, f"{requirement} is not in {file}: make constraints"
        assert requirement.specifier.contains(version), f"{requirement}, and {file} has {version}: make constraints"


def test_all_files_agree() -> None:
    """Tests run with what a release installs."""
    product, cloud, developers = map(pinned, ("constraints.txt", "constraints-cloud.txt", "constraints-dev.txt"))
    assert product.items() <= cloud.items() <= developers.items()


@pytest.mark.parametrize("file", ["constraints.txt", "constraints-cloud.txt"])
def test_the_packages_of_a_release_have_hashes(file: str) -> None:
    """`pip install --require-hashes` takes nothing else."""
    lines = (REPOSITORY / file).read_text().replace("\\\n", " ").splitlines()
    assert [line.split()[0] for line in lines if not line.startswith("#") and "--hash=sha256:" not in line] == []
