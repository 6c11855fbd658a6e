"""A recorded node with rules of all kinds, a device, Services, pods, a log read by the tunnel, and a restart."""

from pathlib import Path
from typing import Final
from unittest import mock

import pytest

from beehive import ModuleName, Source
from beehive.trace import CriCall, StoreCommit
from edged.cri.contract import SERVER_ACTOR
from edged.node.recording import MACHINE_NOTES
from edgehub import dispatch
from edgehub.dispatch import Decision, Step
from modules.lab.replay.outputs import MODULES, NODE
from modules.lab.replay.recorded import Recorded, load_runs
from modules.lab.replay.run import replay
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.cli import main
from tests.replay.fixtures import RULES, path_of

NAMES: Final = {ModuleName.DEVICETWIN: "devicetwin", ModuleName.EDGEHUB: "edgehub"}


@pytest.fixture(scope="module")
def runs() -> list[Recorded]:
    return list(load_runs(path_of(RULES)))


def test_the_recording_has_rules_a_device_events_and_streams(runs: list[Recorded]) -> None:
    """So that a renewed recording still has them."""
    assert len(runs) == 2
    bus, service = ModuleName.EVENTBUS, ModuleName.SERVICEBUS
    hub, twin = ModuleName.EDGEHUB, ModuleName.DEVICETWIN
    sent = [{(one.sender.split("/")[0], one.module) for one in run.delivered()} for run in runs]
    assert {(hub, bus), (bus, hub), (hub, service), (service, hub), (twin, bus), (bus, twin)} <= sent[0]
    assert {(hub, bus), (hub, service), (service, hub), (twin, bus), (bus, twin)} <= sent[1]
    for run in runs:
        assert any(isinstance(one, CriCall) and one.sender == SERVER_ACTOR for one in run.records)
    rows = [change.key for one in runs[0].records if isinstance(one, StoreCommit) for change in one.changes]
    assert any(key.startswith("default/event/runs.") for key in rows)
    for run in runs:
        assert {(hub, ModuleName.METASERVER), (ModuleName.METAMANAGER, ModuleName.EDGEMESH)} <= {
            (one.sender.split("/")[0], one.module) for one in run.delivered() if one.way == "broadcast"
        }
        assert any(note.text == MACHINE_NOTES.services for note in run.notes(MACHINE_NOTES.kind))
        assert any(b'"message":"words' in one.message.content.replace(b"\\", b"") for one in run.delivered())


@pytest.mark.parametrize("module", [NODE, *MODULES])
def test_it_happens_again(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Both runs. If this fails on purpose: `python -m tests.replay.fixtures` records it again."""
    chosen = ["--module", NAMES.get(ModuleName(module), module)] if module else []
    status = main(["replay", str(path_of(RULES)), *chosen, "--check"])
    assert (capsys.readouterr().out, status) == ("", ExitCode.OK)


@pytest.mark.parametrize("module", [NODE, ModuleName.EDGEHUB])
def test_a_message_of_a_rule_that_goes_elsewhere_is_found(runs: list[Recorded], module: str, tmp_path: Path) -> None:
    wrong = {Source.ROUTER_EVENTBUS.value: Decision(Step.SEND, ModuleName.SERVICEBUS)}
    with mock.patch.dict(dispatch._BY_USER_SOURCE, wrong):
        texts = [one.render() for one in replay(runs[0], tmp_path, module).differences]
    assert any("recorded, but not done now:\n- send publish capt/b to eventbus" in text for text in texts), texts
    assert any("done now, but not recorded:\n+ send publish capt/b to servicebus" in text for text in texts), texts
