"""The demand that no module of a started process has failed."""

from pathlib import Path

import pytest

from beehive.simulation import Simulation
from beehive.supervisor import ModuleDown, Supervisor
from tests.end_to_end.processes import Process, failed_modules


def test_a_failed_module_of_a_process_is_found_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By the line that the supervisor logs. What an earlier process wrote to the file does not count."""
    simulation = Simulation(1)
    supervisor = simulation.start(Supervisor, lambda _name: None, name="supervisor")
    supervisor.ref.tell(ModuleDown("edged", ValueError("why")))
    simulation.run_for(0.0)
    simulation.close()
    (line,) = [record.getMessage() for record in caplog.records]
    log = tmp_path / "log"
    log.write_text(f"{line}\n")
    process = Process("modules.processes.edgecore", ["version"], log)
    assert process.wait() == 0
    assert failed_modules() == []
    process = Process("modules.processes.edgecore", ["version"], log)
    with log.open("a") as output:
        output.write(f"E1126 {line}\nTraceback …\n")
        output.write("Traceback …\nKeyError: 'name'\nOSError: no space left\nKeyError is no end\n")
    assert failed_modules() == [line, "KeyError: 'name'"]
    assert process.wait() == 0
    assert failed_modules() == []
