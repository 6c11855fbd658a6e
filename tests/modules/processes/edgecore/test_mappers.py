"""`modules.deviceTwin` of the configuration file, as far as mappers go."""

from pathlib import Path

import pytest

from modules.processes.edgecore.config import ConfigError, EdgeCoreConfig, loads
from modules.processes.edgecore.optional_modules import dmi_settings
from modules.processes.edgecore.settings import twin_settings

_TEXT = "modules: {{deviceTwin: {{{rest}}}}}"


@pytest.mark.parametrize(
    ("rest", "path"),
    [
        ("enable: true", "/etc/kubeedge/dmi.sock"),
        ("dmiSockPath: /etc/kubeedge/", "/etc/kubeedge/dmi.sock"),
        ("dmiSockPath: /run/mine/other.sock", "/run/mine/dmi.sock"),
    ],
)
def test_the_socket_is_always_called_dmi_sock(rest: str, path: str) -> None:
    """KubeEdge's rule for a directory, and for a path that ends in .sock."""
    assert dmi_settings(loads(_TEXT.format(rest=rest)).config).socket == Path(path)


def test_a_node_below_a_directory_has_its_socket_there(tmp_path: Path) -> None:
    assert dmi_settings(EdgeCoreConfig.below(tmp_path)).socket == tmp_path / "dmi.sock"


def test_limits_and_group_are_taken() -> None:
    rest = "mapperReportQPS: 7, mapperReportBurst: 9, dmiSockGroup: dialout, likeKubeEdge: true"
    settings = dmi_settings(loads(_TEXT.format(rest=rest)).config)
    assert (settings.report_rate, settings.report_burst, settings.group) == (7, 9, "dialout")
    assert settings.like_kubeedge


def test_without_mappers_devicetwin_tells_nobody_of_objects() -> None:
    assert twin_settings(loads(_TEXT.format(rest="enable: true")).config).mappers
    assert not twin_settings(loads(_TEXT.format(rest="enableMappers: false")).config).mappers


@pytest.mark.parametrize("rest", ["dmiSockGroup: 'a b'", "dmiSockPath: kubeedge", "mapperReportQPS: 0"])
def test_what_cannot_be_is_refused(rest: str) -> None:
    with pytest.raises(ConfigError, match="deviceTwin"):
        loads(_TEXT.format(rest=rest))
