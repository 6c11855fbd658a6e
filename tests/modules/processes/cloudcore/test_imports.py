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


def test_a_page_without_shells_loads_neither_the_way_to_containers_nor_that_to_a_cluster() -> None:
    """Nor what explains a pod: somebody who looks at a fleet may never ask."""
    code = (
        "import sys, modules.processes.cloudcore.process as _, modules.processes.cloudcore.page_port as _;"
        "print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    more = ("modules.processes.common.pod_commands", "modules.cloud.client.http", "modules.insight.why")
    assert [name for name in loaded for one in (*FOREIGN, *more) if name == one or name.startswith(f"{one}.")] == []


def test_commands_for_containers_load_no_protobuf() -> None:
    code = "import sys, modules.processes.cloudcore.page_doors as _; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "modules.processes.common.pod_commands.client" in loaded
    assert [name for name in loaded if name.startswith("protos.cri") or name == "google.protobuf.message"] == []


def test_cloudcores_command_line_loads_no_configuration_of_edgecore() -> None:
    """Nor YAML: each of its commands is a process of its own, and a person waits for it."""
    code = "import sys; from modules.processes.cloudcore.cli import command_line; command_line([]); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert {"yaml", "modules.processes.edgecore.config"} & set(loaded) == set()
