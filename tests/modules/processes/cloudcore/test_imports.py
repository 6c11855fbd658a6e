"""What a running cloudcore does not load."""

import subprocess
import sys

import pytest

FOREIGN = ("edged.cri", "modules.runtimes", "google", "grpc", "modules.edge", "protos")
"""Above all the client of container runtimes, with gRPC and protobuf: fourteen megabytes."""
OF_TLS = ("cryptography",)
"""Its 17 MB are only for certificates."""
OF_CLUSTERS = ("modules.processes.common.pod_commands", "modules.cloud.client.http", "modules.insight.why")
"""The way to containers and to a cluster, and what explains a pod: somebody who looks at a fleet may never ask."""
OF_NO_CLUSTER = (
    "modules.cloud.apiserver.module",
    "modules.cloud.apiserver.scheduling",
    "modules.cloud.controllers.module",
)
"""The embedded API server."""
OF_NODES = ("yaml", "modules.processes.edgecore.config")
"""Each of cloudcore's commands is a process of its own, and a person waits for it."""


@pytest.mark.parametrize(
    ("code", "loaded", "left_out"),
    [
        ("import {0}.embedded_api_server", "modules.cloud.apiserver.scheduler", (*FOREIGN, *OF_TLS)),
        ("import {0}.process", "modules.cloud.edgecontroller.module", (*FOREIGN, *OF_TLS, *OF_NO_CLUSTER)),
        ("import {0}.process, {0}.page_port", "modules.processes.cloudcore.page_port", (*FOREIGN, *OF_CLUSTERS)),
        (
            "import {0}.page_doors",
            "modules.processes.common.pod_commands.client",
            ("protos.cri", "google.protobuf.message"),
        ),
        ("from {0}.cli import command_line; command_line([])", "modules.processes.cloudcore.cli", OF_NODES),
    ],
    ids=[
        "scheduler with the kubelet's predicates",
        "at a cluster",
        "page without shells",
        "commands for containers",
        "command line",
    ],
)
def test_cloudcore_does_not_load(code: str, loaded: str, left_out: tuple[str, ...]) -> None:
    program = f"{code.format('modules.processes.cloudcore')}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    assert loaded in done
    assert [name for name in done for one in left_out if name == one or name.startswith(f"{one}.")] == []
