"""An ordinary user's node whose file leaves out the directories that are root's by default."""

from pathlib import Path

import pytest

from modules.processes.edgecore.config import loads
from modules.processes.edgecore.config.own_directories import with_own_directories

KEYS = ["modules.edged.tailoredKubeletConfig.podLogsDir", "modules.deviceTwin.dmiSockPath"]


def test_they_are_below_the_root_directory_and_a_warning_says_so() -> None:
    loaded = with_own_directories(
        loads("modules: {edged: {rootDirectory: /home/p/n}}"), lambda path: path.is_relative_to("/home/p")
    )
    assert [each.path for each in loaded.warnings] == KEYS
    assert "/var/log/pods is not this user's, so it is /home/p/n/logs/pods" in loaded.warnings[0].text
    modules = loaded.config.modules
    assert modules.edged.tailored_kubelet_config.pod_logs_dir == Path("/home/p/n/logs/pods")
    assert modules.device_twin.dmi_socket == Path("/home/p/n/dmi.sock")


@pytest.mark.parametrize(
    ("text", "mine", "keys"),
    [
        ("modules: {edged: {rootDirectory: /home/p/n}}", "/", []),
        ("modules: {edged: {rootDirectory: /var/lib/n}}", "/home/p", []),
        ("modules: {edged: {rootDirectory: /home/p/n}, deviceTwin: {enable: false}}", "/home/p", KEYS[:1]),
        ("modules: {edged: {rootDirectory: /home/p/n, enable: false}}", "/home/p", KEYS[1:]),
        (
            "modules: {edged: {rootDirectory: /home/p/n, tailoredKubeletConfig: {podLogsDir: /srv/l}}, "
            "deviceTwin: {dmiSockPath: /srv/d}}",
            "/home/p",
            [],
        ),
    ],
    ids=["root", "a node of somebody else", "no mappers", "no pods", "others are named"],
)
def test_otherwise_they_stay(text: str, mine: str, keys: list[str]) -> None:
    loaded = loads(text)
    found = with_own_directories(loaded, lambda path: path.is_relative_to(mine))
    assert [each.path for each in found.warnings] == keys
    assert (found is loaded) == (not keys)


def test_whether_a_directory_may_be_made_is_asked_of_the_nearest_that_is_there(tmp_path: Path) -> None:
    text = f"modules: {{edged: {{rootDirectory: {tmp_path}/a/b}}, deviceTwin: {{dmiSockPath: {tmp_path}/d}}}}"
    assert all("dmiSockPath" not in each.path for each in with_own_directories(loads(text)).warnings)
