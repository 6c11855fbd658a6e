"""`run --record-limit`: a recording ends at its size with one line in the log, and the node goes on."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from beehive.trace import Note
from beehive.trace.reader import read
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.cli import main
from modules.processes.edgecore.config.writing import render
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import is_ready, pod
from tests.end_to_end.processes import Process, wait_until
from tests.end_to_end.runtimes import EmbeddedUnderTest

LIMIT = 4 << 20
ENDS = "the recording ends here"


class LimitedMachine(Machine):
    """A machine whose edgecore is recorded within a limit."""

    def start_edge(self) -> None:
        """Starts it."""
        self.edge.file.write_text(render(self.edge._config(self.cloud.address)))
        record = ["--record", str(self.directory / "run.trace"), "--record-limit", "4Mi"]
        arguments = ["run", "--config", str(self.edge.file), *record]
        self.edge._process = Process("modules.processes.edgecore", arguments, self.directory / "edgecore.log")


@pytest.fixture
def machine() -> Iterator[LimitedMachine]:
    with closing(LimitedMachine(EmbeddedUnderTest())) as machine:
        machine.cloud.start()
        machine.start_edge()
        yield machine


def test_a_recording_ends_at_its_limit_and_the_node_goes_on(machine: LimitedMachine) -> None:
    """A pod of 200 kB is recorded though it is in every list; a pod that changes again and again is not."""
    first = pod("big") | {"metadata": {"name": "big", "namespace": "default", "annotations": {"a": "x" * 200_000}}}
    machine.cloud.apply(first)
    machine.cloud.pods.wait("big", is_ready)
    assert ENDS not in machine.edge.process.text()
    for letter in "bcdefghijklmnopqrstuvwxyz":
        machine.cloud.apply({**first, "metadata": {**first["metadata"], "annotations": {"a": letter * 200_000}}})
    wait_until(lambda: ENDS in machine.edge.process.text(), "the limit is reached")
    machine.cloud.apply(pod("later"))
    machine.cloud.pods.wait("later", is_ready)
    trace = machine.directory / "run.trace"
    assert trace.stat().st_size <= LIMIT + 1000
    assert machine.edge.process.text().count(ENDS) == 1
    with read(trace) as reader:
        *_, last = reader
        assert reader.damage == ""
    assert isinstance(last, Note)
    assert str(LIMIT) in last.text


@pytest.mark.parametrize("size", ["0", "1", "1000k", "-5Mi", "much", ""])
def test_an_invalid_limit_is_refused(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "--record", "x", f"--record-limit={size}"])
    assert ended.value.code == ExitCode.USAGE
    assert "such as 64Mi" in capsys.readouterr().err
