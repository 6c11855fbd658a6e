"""critest: AppArmor."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from protos.cri.v1 import api_pb2 as cri
from tests.cri_contract.client import Client, refused

_LOADED = Path("/sys/kernel/security/apparmor/profiles")
_PROFILES = """
#include <tunables/global>
profile edgecore-contract-deny flags=(attach_disconnected) { file, deny /** w, }
profile edgecore-contract-allow flags=(attach_disconnected) { file, }
"""


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Two profiles in the kernel: one denies writing, one allows it."""
    parser = shutil.which("apparmor_parser", path="/usr/sbin:/sbin:/usr/bin")
    if not _LOADED.exists() or parser is None:
        pytest.skip("AppArmor is off in this kernel" if parser else "apparmor_parser is not installed")
    file = tmp_path_factory.mktemp("apparmor") / "profiles"
    file.write_text(_PROFILES)
    subprocess.run([parser, "--replace", str(file)], check=True)
    yield
    subprocess.run([parser, "--remove", str(file)], check=True)


_FIELDS = ["old", "new", "both"]


def _security(name: str, field: str) -> cri.LinuxContainerSecurityContext:
    """The profile in the old field, in the structured one, or there with another name in the old one."""
    profile = cri.SecurityProfile(profile_type=cri.SecurityProfile.Localhost, localhost_ref=name)
    old = {"old": f"localhost/{name}", "new": "", "both": "localhost/edgecore-contract-other"}[field]
    return cri.LinuxContainerSecurityContext(apparmor_profile=old, apparmor=None if field == "old" else profile)


@pytest.mark.parametrize("field", _FIELDS)
@pytest.mark.usefixtures("profiles")
def test_a_profile_that_is_not_loaded(client: Client, field: str) -> None:
    """critest: AppArmor: should fail with an unloaded apparmor_profile."""
    refused(lambda: client.create("true", security=_security("edgecore-contract-nosuch", field)))


@pytest.mark.parametrize("field", _FIELDS)
@pytest.mark.usefixtures("profiles")
def test_a_profile_that_denies_writing(client: Client, field: str) -> None:
    """critest: AppArmor: should enforce a profile blocking writes."""
    ended = client.run("touch /tmp/f", security=_security("edgecore-contract-deny", field))
    assert ended.status.exit_code != 0


@pytest.mark.parametrize("field", _FIELDS)
@pytest.mark.usefixtures("profiles")
def test_a_profile_that_permits(client: Client, field: str) -> None:
    """critest: AppArmor: should enforce a permissive profile."""
    ended = client.run("touch /tmp/f", security=_security("edgecore-contract-allow", field))
    assert ended.status.exit_code == 0
