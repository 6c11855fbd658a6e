"""What a machine wants of a bundle, and the order of versions."""

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from modules.processes.edgecore.upgrade.preconditions import LEAST_MEMORY, UpgradeHost, refusal_of
from modules.processes.edgecore.upgrade.versions import is_version, order_of
from tests.modules.processes.edgecore.upgrade.releases import make_wheel, manifest_for

HOST = UpgradeHost.of("1.0.0", 1000.0)


def test_versions_are_ordered_as_pip_orders_them() -> None:
    ascending = ["0.3.0.dev5210+g46384b1b", "0.3.0.dev5211", "0.3.0", "0.3.0.post3+g46384b1b", "0.3.1.dev0", "0.10.0"]
    assert all(order_of(one) < order_of(other) for one, other in pairwise(ascending))


@pytest.mark.parametrize(
    "text", ["", "1.0", "1.0.0.", "1.0.0 ", "../1.0.0", "1.0.0+", "1.0.0+g/..", "v1.0.0", "1.0.0rc1", "１.0.0"]
)
def test_what_is_no_version(text: str) -> None:
    assert not is_version(text)
    with pytest.raises(ValueError, match="no version"):
        order_of(text)


@pytest.mark.parametrize(
    ("version", "host", "why"),
    [
        ("1.0.1", HOST._replace(machine="mips"), "this machine is mips"),
        ("1.0.1", HOST._replace(python="3.99"), "this is 3.99"),
        ("1.0.1", HOST._replace(memory=LEAST_MEMORY - 1), "of memory"),
        ("1.0.1", HOST._replace(memory=None), ""),
        ("1.0.1", HOST._replace(memory=LEAST_MEMORY), ""),
        ("1.0.0", HOST._replace(memory=None), "it is the current version"),
        ("0.9.9", HOST._replace(memory=None), "older than the current version 1.0.0"),
        ("0.9.9", HOST._replace(memory=None, current=""), ""),
    ],
)
def test_what_is_refused(version: str, host: UpgradeHost, why: str, tmp_path: Path) -> None:
    manifest = msgspec.structs.replace(manifest_for(make_wheel(tmp_path, version)), version=version)
    found = refusal_of(manifest, host, allow_downgrade=False)
    assert (why in found) if why else not found


def test_a_downgrade_that_is_asked_for(tmp_path: Path) -> None:
    manifest = manifest_for(make_wheel(tmp_path, "0.9.9"), "0.9.9")
    assert not refusal_of(manifest, HOST._replace(memory=None), allow_downgrade=True)


@pytest.mark.parametrize(("expires", "why"), [(0, ""), (1000, ""), (1001, ""), (999, "1970-01-01: have it made again")])
def test_a_signature_that_has_expired(tmp_path: Path, expires: int, why: str) -> None:
    """Who is in the cloud's place offers no old release for ever; the owner may take one nevertheless."""
    manifest = msgspec.structs.replace(manifest_for(make_wheel(tmp_path, "1.0.1"), "1.0.1"), expires=expires)
    host = HOST._replace(memory=None)
    found = refusal_of(manifest, host, allow_downgrade=True)
    assert (why in found) if why else not found
    assert not refusal_of(manifest, host, allow_downgrade=False, allow_expired=True)
