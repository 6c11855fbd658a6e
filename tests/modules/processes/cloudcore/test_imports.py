"""What a running cloudcore does not load."""

import subprocess
import sys

FOREIGN = ("edged.cri", "modules.runtimes", "google", "grpc", "modules.edge", "protos")
"""Above all the client of container runtimes, with gRPC and protobuf: fourteen megabytes."""


def test_cloudcore_loads_no_client_of_container_runtimes() -> None:
    """The scheduler uses the kubelet's predicates, which are beside code that knows runtimes."""
    code = "import sys, modules.processes.cloudcore.process as _; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "modules.cloud.apiserver.scheduler" in loaded
    assert [name for name in loaded for one in FOREIGN if name == one or name.startswith(f"{one}.")] == []


def test_cloudcores_command_line_loads_no_configuration_of_edgecore() -> None:
    """Nor YAML: each of its commands is a process of its own, and a person waits for it."""
    code = "import sys; from modules.processes.cloudcore.cli import command_line; command_line([]); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert {"yaml", "modules.processes.edgecore.config"} & set(loaded) == set()
