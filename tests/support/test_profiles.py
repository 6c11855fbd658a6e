"""The examples of `make test` are the same in every run, those of `make slow` vary."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from tests.end_to_end.processes import REPOSITORY
from tests.support import profiles

TEST = """
from hypothesis import given, strategies as st
import {imported}

@given(st.text("abc"), st.integers(), st.binary(), st.floats())
def test_examples(text, number, data, size):
    with open("examples", "a") as file:
        print(repr((text, number, data, size)), file=file)
"""
CONFTEST = (
    "from tests.support import profiles\nprofiles.register()\ndef pytest_sessionstart():\n    profiles.fix_examples()\n"
)


@pytest.mark.parametrize(("profile", "same"), [
    (profiles.FIXED, True), pytest.param(profiles.RANDOM, False, marks=pytest.mark.slow),
])  # fmt: skip
def test_examples_are_the_same_after_any_imports(profile: str, *, same: bool, tmp_path: Path) -> None:
    found = set()
    for number, imported in enumerate(("json", "modules.cloud.cloudhub.module")):
        directory = tmp_path / str(number)
        directory.mkdir()
        (directory / "conftest.py").write_text(CONFTEST)
        (directory / "test_it.py").write_text(TEST.format(imported=imported))
        (directory / "pytest.ini").write_text(f"[pytest]\npythonpath = {shlex.quote(str(REPOSITORY))}\n")
        command = [sys.executable, "-m", "pytest", "-p", "no:xdist", f"--hypothesis-profile={profile}"]
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
        found.add((directory / "examples").read_text())
    assert len(found) == (1 if same else 2)


def test_no_test_has_the_profile_of_the_machine() -> None:
    """Hypothesis loads another one by itself where it sees that it runs in CI."""
    assert settings.get_current_profile_name() in (profiles.FIXED, profiles.RANDOM)
    for name, fixed in ((profiles.FIXED, True), (profiles.RANDOM, False)):
        profile = settings.get_profile(name)
        assert (profile.derandomize, profile.deadline, profile.database is None) == (fixed, None, fixed)
