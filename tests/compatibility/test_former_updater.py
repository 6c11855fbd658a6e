"""An installation whose updater is a former release's, which is one file, or today's, which is a package: a power cut
or a rollback may leave any launcher and any journal to any updater.
"""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from modules.processes.edgecore.upgrade.programs import write_programs
from modules.processes.edgecore.upgrade.updater.installation import Installation
from modules.processes.edgecore.upgrade.updater.journal import Phase
from tests.compatibility.former import RELEASES, unpack
from tests.modules.processes.edgecore.upgrade.releases import journal_of
from tests.modules.processes.edgecore.upgrade.test_updater_process import make_installation

_FILE: Final = "modules/processes/edgecore/upgrade/updater.py"
_READ: Final = """\
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from updater import Installation, Phase
installation = Installation(Path(sys.argv[2]))
journal = installation.journal()
installation.recover(journal)
installation.write(journal, Phase(sys.argv[3]))
"""


@pytest.mark.parametrize("release", RELEASES)
def test_an_upgrade_is_gone_on_with_by_the_other(release: str, tmp_path: Path) -> None:
    former = (unpack(release, tmp_path) / _FILE).read_bytes()
    made = make_installation(tmp_path / "i", Phase.SWITCHING)
    (made.state / "updater.py").write_bytes(former)
    command = [sys.executable, "-I", "-c", _READ, str(made.state), str(made.root), str(Phase.ROLLING_BACK)]
    subprocess.run(command, check=True)
    journal = journal_of(made)
    assert (journal.phase, made.current()) == (Phase.ROLLING_BACK, "2.0.0")
    made.recover(journal)
    assert made.current() == "1.0.0"
    made.write(journal, Phase.PROBATION)
    subprocess.run(command, check=True)
    assert journal_of(made).boots == journal.boots - 1


@pytest.mark.parametrize("release", RELEASES)
def test_any_launcher_starts_the_node_with_any_updater(release: str, tmp_path: Path) -> None:
    former = (unpack(release, tmp_path) / _FILE).read_bytes()
    made = make_installation(tmp_path / "i", Phase.COMMITTED)
    write_programs(made)
    for updater in (former, (made.state / "updater.py").read_bytes()):
        (made.state / "updater.py").write_bytes(updater)
        said = subprocess.run([made.launcher, "run", "x"], capture_output=True, text=True, check=True)
        assert (said.stdout, said.stderr) == ("2.0.0 run x\n", "")
        command = [sys.executable, "-I", str(made.state / "updater.py"), str(made.root)]
        assert subprocess.run(command, capture_output=True, check=True).stderr == b""
    assert Installation(made.root).current() == "2.0.0"
