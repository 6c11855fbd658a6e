"""What the assembly makes of the configuration, and how the process logs."""

import json
import logging
import re
from pathlib import Path

import msgspec
import pytest

from beehive.log_lines import LogFormat
from edged.pods.model import PodRef, PodUid
from edged.settings import EdgedSettings
from edgehub.settings import EdgeHubSettings
from modules.apimachinery.types import Taint
from modules.processes.edgecore import cli
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.loading import loads
from modules.processes.edgecore.config.writing import render
from modules.processes.edgecore.logs import print_remark_as_json, set_up
from modules.processes.edgecore.settings import edged_settings, edgehub_settings


def test_an_embedded_node_keeps_everything_below_its_root(tmp_path: Path) -> None:
    settings = edged_settings(EdgeCoreConfig.below(tmp_path))
    assert settings.root.is_relative_to(tmp_path)
    assert settings.pod_logs.is_relative_to(tmp_path)
    assert settings.runtime_endpoint.startswith(f"unix://{tmp_path}")


def test_the_defaults_of_the_file_and_of_edged_are_the_same() -> None:
    """But for what the file must say: names, places, addresses."""
    theirs = msgspec.structs.asdict(edged_settings(EdgeCoreConfig.default()))
    required = {field.name for field in msgspec.structs.fields(EdgedSettings) if field.required}
    ours = msgspec.structs.asdict(EdgedSettings(node_name="", root=Path(), pod_logs=Path(), runtime_endpoint=""))
    differing = {name for name in ours.keys() - required if ours[name] != theirs[name]}
    assert differing <= {"image_endpoint", "static_pods", "node_labels", "cluster_dns", "node_ip", "resolv_conf"}


def test_registration_options_are_in_the_file() -> None:
    """As KubeEdge's file has it."""
    text = """
kind: EdgeCore
modules:
  edged:
    nodeLabels: {disk: ssd}
    registerSchedulable: false
    tailoredKubeletConfig:
      registerNode: false
      registerWithTaints:
      - {key: example.com/edge, value: far, effect: NoSchedule}
      - {key: maintenance, effect: NoExecute}
"""
    loaded = loads(text)
    settings = edged_settings(loaded.config)
    assert settings.node_labels == {"disk": "ssd"}
    assert (settings.register_node, settings.register_schedulable) == (False, False)
    assert settings.node_taints == (
        Taint(key="example.com/edge", value="far", effect="NoSchedule"),
        Taint(key="maintenance", effect="NoExecute"),
    )
    assert not any("registerWithTaints" in str(each) for each in loaded.warnings)
    assert edged_settings(loads(render(loaded.config)).config).node_taints == settings.node_taints


def test_the_link_of_a_default_node_has_a_url_and_its_name() -> None:
    config = EdgeCoreConfig.default()
    settings = edgehub_settings(config)
    assert isinstance(settings, EdgeHubSettings)
    assert settings.node == config.node_name
    assert re.match(r"wss?://", settings.url)


def test_a_line_may_be_a_json_object_and_so_may_a_remark(capsys: pytest.CaptureFixture[str]) -> None:
    set_up("info", "json", "edge-1")
    logging.getLogger("edged.sync_loop").info("pod %s is gone", PodRef(PodUid("u1"), "default", "web"))
    print_remark_as_json("warning: edgecore.yaml: x: it has no effect")
    print_remark_as_json("configuration /etc/x.yaml")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["level"], line["msg"]) for line in lines] == [
        ("info", "pod default/web is gone"),
        ("warning", "edgecore.yaml: x: it has no effect"),
        ("info", "configuration /etc/x.yaml"),
    ]
    assert {key: lines[0][key] for key in ("logger", "node", "pod", "uid")} == {
        "logger": "edged.sync_loop",
        "node": "edge-1",
        "pod": "default/web",
        "uid": "u1",
    }
    assert {form.value for form in LogFormat} == {form.value for form in cli.LogFormat}


def test_a_line_has_time_in_utc_level_place_and_text(capsys: pytest.CaptureFixture[str]) -> None:
    set_up("info")
    logging.getLogger("edged.sync_loop").info("pod %s is gone", "web")
    logging.getLogger("edged.sync_loop").debug("not said")
    logging.getLogger("sqlalchemy.engine").info("not said either")
    line = capsys.readouterr().err
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO    MainThread edged\.sync_loop: pod web is gone\n", line
    )
