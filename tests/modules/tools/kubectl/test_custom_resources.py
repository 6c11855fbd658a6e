"""The real kubectl applies a CustomResourceDefinition, and works with its objects at once; skipped without one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.modules.cloud.apiextensions.definition import definition, device
from tests.modules.tools.kubectl.cloud import Cloud
from tests.modules.tools.kubectl.test_against_kubectl import on_a_port

pytestmark = [
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on this machine"),
    pytest.mark.timeout(300),  # a process of kubectl for each command
]


def test_kubectl_works_with_custom_resources(cloud: Cloud, tmp_path: Path) -> None:
    """apply, get, explain, describe and delete work right after the definition is applied."""
    for name, obj in (("crd", definition(shortNames=["dev"])), ("pump", device(rate=7)), ("wrong", device(rate=0))):
        (tmp_path / f"{name}.json").write_text(json.dumps(obj))
    with on_a_port(cloud) as port:

        def kubectl(*words: str) -> tuple[int, str]:
            command = ["kubectl", f"--server=http://127.0.0.1:{port}", f"--cache-dir={tmp_path / 'cache'}", *words]
            environment = {**os.environ, "KUBECONFIG": "/dev/null", "HOME": str(tmp_path)}
            done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)
            return done.returncode, done.stdout + done.stderr

        assert kubectl("apply", "-f", str(tmp_path / "crd.json"))[0] == 0
        assert kubectl("wait", "--for=condition=Established", "crd/devices.devices.example.io", "--timeout=60s")[0] == 0
        assert "created" in kubectl("apply", "-f", str(tmp_path / "pump.json"))[1]
        assert "unchanged" in kubectl("apply", "-f", str(tmp_path / "pump.json"))[1]
        status, told = kubectl("apply", "-f", str(tmp_path / "wrong.json"))
        assert status == 1
        assert "greater than or equal to 1" in told
        assert kubectl("get", "dev", "--no-headers")[1].split() == ["pump", "modbus"]
        assert "How it is spoken to." in kubectl("explain", "device.spec.protocol")[1]
        assert "modbus" in kubectl("describe", "device", "pump")[1].lower()
        server_side = kubectl("apply", "--server-side", "--force-conflicts", "-f", str(tmp_path / "pump.json"))
        assert server_side[0] == 0, server_side
        assert "deleted" in kubectl("delete", "device", "pump")[1]
        assert kubectl("delete", "crd", "devices.devices.example.io")[0] == 0
