"""Alerts and dashboards: they name metrics that exist, and promtool, where it is installed, tries the alerts."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from modules.lab.site.metrics import metric_advice
from modules.processes.common.process_metrics import process_metrics

_ROOT: Final = Path(__file__).parents[2]
_PROMETHEUS: Final = _ROOT / "deploy" / "prometheus"
_DASHBOARDS: Final = sorted((_ROOT / "deploy" / "grafana").glob("*.json"))
_NAME: Final = re.compile(r"\b((?:cloudcore|edgecore|edgehub|metamanager|beehive|process)_[a-z_]+)\b")
_PROMTOOL: Final = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(_PROMTOOL is None, reason="promtool is not installed (.ci/install-tools)")


def expressions() -> Iterator[tuple[str, str]]:
    """Yield the expressions of alerts and dashboards, each with where it is."""
    for group in yaml.safe_load((_PROMETHEUS / "alerts.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    for path in _DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                yield f"{path.name}: {panel['title']}", target["expr"]


def test_the_reference_has_every_metric() -> None:
    documented = {*metric_advice("edgecore"), *metric_advice("cloudcore")}
    for where, expression in expressions():
        found = set(_NAME.findall(expression))
        assert found or "up{" in expression, where
        for name in found:
            assert re.sub("_(bucket|count|sum)$", "", name) in documented, f"{where}: {name}"


def test_dashboards_can_be_imported() -> None:
    assert len(_DASHBOARDS) == 2
    uids = set()
    for path in _DASHBOARDS:
        board: dict[str, Any] = json.loads(path.read_text())
        uids.add(board["uid"])
        numbers = [panel["id"] for panel in board["panels"]]
        assert len(set(numbers)) == len(numbers)
        for panel in board["panels"]:
            place = panel["gridPos"]
            assert place["x"] + place["w"] <= 24
            assert panel["description"].endswith(".")
            assert panel["datasource"]["uid"] == "${datasource}"
    assert len(uids) == 2


def test_every_alert_has_a_remedy() -> None:
    for group in yaml.safe_load((_PROMETHEUS / "alerts.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            assert rule["labels"]["severity"] in ("critical", "warning", "info")
            assert set(rule["annotations"]) == {"summary", "description"}
            assert rule["for"]


def test_the_page_counts_the_alerts() -> None:
    groups = yaml.safe_load((_PROMETHEUS / "alerts.yaml").read_text())["groups"]
    number = sum(len(group["rules"]) for group in groups)
    assert f"| {number} alerts, each" in (_ROOT / "docs" / "prometheus.md").read_text()


@needs_promtool
def test_promtool_accepts_the_alerts_and_they_fire_as_their_tests_say() -> None:
    for words in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts.test.yaml"]):
        done = subprocess.run([str(_PROMTOOL), *words], cwd=_PROMETHEUS, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_process_reports_its_usage() -> None:
    text = "".join(family.text() for family in process_metrics("edgecore"))
    found = dict(re.findall(r"^([a-z_]+)(?:\{[^}]*\})? ([0-9.e+]+)$", text, re.MULTILINE))
    assert float(found["process_resident_memory_bytes"]) > 1e6
    assert float(found["process_open_fds"]) < float(found["process_max_fds"])
    assert float(found["process_start_time_seconds"]) > 1e9
    assert found["edgecore_build_info"] == "1.0"


def test_figures_that_the_kernel_lacks_are_left_out(tmp_path: Path) -> None:
    text = "".join(family.text() for family in process_metrics("cloudcore", tmp_path))
    assert "process_cpu_seconds_total" in text
    assert "process_open_fds" not in text
