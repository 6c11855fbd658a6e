"""The AppArmor profile of containers that name none."""

import shutil
import subprocess
from pathlib import Path

import pytest

from modules.runtimes.oci.apparmor import NAME, PROFILE, load_default_profile


def _parser(directory: Path, script: str) -> str:
    """A directory with an apparmor_parser that runs a script."""
    program = directory / "apparmor_parser"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(directory)


def _kernel(directory: Path, *loaded: str) -> Path:
    """The kernel's list of profiles."""
    path = directory / "profiles"
    path.write_text("".join(f"{name} (enforce)\n" for name in loaded))
    return path


def test_a_kernel_without_apparmor(tmp_path: Path) -> None:
    """Nothing is loaded, and the status says why."""
    found = load_default_profile(None, _parser(tmp_path, "exit 1"))
    assert found.name == ""
    assert "off in this kernel" in found.reason


def test_it_is_loaded(tmp_path: Path) -> None:
    """By apparmor_parser, which replaces an older one."""
    profiles = _kernel(tmp_path)
    script = f'grep -q "profile {NAME}" && [ "$1" = --replace ] && echo "{NAME} (enforce)" >> {profiles}'
    assert load_default_profile(profiles, _parser(tmp_path, script)) == (NAME, "")


@pytest.mark.parametrize(
    ("script", "loaded", "name", "reason"),
    [
        ("echo no good >&2; exit 1", ("docker-default",), "docker-default", "no good"),
        ("echo no good >&2; exit 1", ("mine",), "", "no good"),
        ("", (), "", "apt-get install apparmor"),
    ],
)
def test_it_cannot_be_loaded(tmp_path: Path, script: str, loaded: tuple[str, ...], name: str, reason: str) -> None:
    """Another runtime's counts if it is there; the status says what mends it."""
    searched = _parser(tmp_path, script) if script else str(tmp_path / "nowhere")
    found = load_default_profile(_kernel(tmp_path, *loaded), searched)
    assert found.name == name
    assert reason in found.reason


def test_the_profile_is_one() -> None:
    """apparmor_parser takes it, without loading it."""
    parser = shutil.which("apparmor_parser", path="/usr/sbin:/sbin:/usr/bin")
    if parser is None:
        pytest.skip("apparmor_parser is not installed")
    done = subprocess.run(
        [parser, "--skip-kernel-load", "--skip-cache"], input=PROFILE, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
