"""Why a program could not be started by its name."""

import os
import subprocess
from pathlib import Path

import pytest

from beehive.files.programs import is_not_found


@pytest.fixture
def searched(tmp_path: Path) -> list[str]:
    """Two directories of PATH, which have a program that may not be executed and a script without its interpreter."""
    for name, mode, text in (("one/closed", 0o600, "#!/bin/sh\n"), ("two/script", 0o755, "#!/no/such/interpreter\n")):
        file = tmp_path / name
        file.parent.mkdir()
        file.write_text(text)
        file.chmod(mode)
    return [str(tmp_path / "one"), str(tmp_path / "two")]


@pytest.mark.parametrize(
    ("command", "is_absent"), [("absent", True), ("./absent", False), ("closed", False), ("script", False)]
)
def test_a_program_is_absent_only_if_no_directory_has_it(searched: list[str], command: str, is_absent: bool) -> None:
    with pytest.raises(OSError) as raised:
        subprocess.run([command], env={"PATH": os.pathsep.join(searched)}, check=False)
    assert is_not_found(raised.value, command, searched) is is_absent


def test_a_directory_that_may_not_be_searched_does_not_have_the_program(searched: list[str]) -> None:
    """The kernel's error for it is the one for a program that may not be executed."""
    assert is_not_found(PermissionError(13, "Permission denied"), "absent", searched)
    assert not is_not_found(PermissionError(13, "Permission denied"), "closed", searched)
    assert not is_not_found(OSError(8, "Exec format error"), "absent", searched)
