"""A runtime's server that cannot be started."""

from pathlib import Path
from random import Random

import pytest

from beehive.simulation import Simulation
from modules.runtimes.cri_server import runtime_server
from modules.runtimes.cri_server.runtime_server import CriServer
from modules.runtimes.engine.engine import Engine
from tests.modules.runtimes.engine.test_engine import Machine, MemorySettings
from tests.support.failing import Failing, PlannedError, census


@pytest.mark.parametrize("step", ["CriMethods", "listen_for_cri"])
def test_a_server_that_cannot_be_started_lets_go_of_its_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """edgecore tries again, in this process or in the next."""
    clock, settings = Simulation(0).clock, MemorySettings(Machine(Random(0)))  # noqa: S311
    server = CriServer(tmp_path / "state", tmp_path / "cri.sock", clock, settings)
    before = census()
    monkeypatch.setattr(runtime_server, "CriMethods", lambda _engine: None)
    monkeypatch.setattr(runtime_server, step, Failing(0).call(lambda _: None))
    with pytest.raises(PlannedError):
        server.start()
    assert not census().more_than(before)
    Engine(tmp_path / "state", clock, settings).close()
