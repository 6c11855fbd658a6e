"""What an edgecore does not load before a user needs it, by the runtime that its configuration chooses.

A module takes half a millisecond of a start and twenty kilobytes for ever; some take a hundred times as much. What a
whole running node loads, `tests/bench/test_footprint.py` checks.
"""

import subprocess
import sys
from collections.abc import Iterable
from pkgutil import iter_modules
from typing import Final

import pytest

import modules.edge

START: Final = """
import sys
from modules.processes.edgecore.__main__ import leave_out
from protos.postponed import hash_without_openssl
leave_out()
from modules.processes.edgecore import cli
hash_without_openssl()
from modules.processes.edgecore import process
cli._chosen(['run', '--root', '/x'])
"""
LOADED: Final = "print(*(name for name, module in sys.modules.items() if getattr(module, '__spec__', None)))"
"""Without what stands in for a module that is loaded later."""
LATER: Final = (
    "_bz2", "_hashlib", "_lzma", "argcomplete", "ast", "asyncio", "beehive.http.client", "beehive.http.server",
    "beehive.http.spdy", "beehive.simulation", "beehive.trace.contents", "beehive.trace.frames", "beehive.trace.reader",
    "beehive.trace.stream_recorder", "beehive.trace.writer", "calendar", "cryptography", "dataclasses", "difflib",
    "dis", "email", "glob", "google.protobuf.descriptor_database", "google.protobuf.text_encoding",
    "google.protobuf.text_format", "grpc", "gzip", "h11", "hmac", "html", "http", "inspect", "jeepney", "jinja2",
    "modules.apimachinery.kinds", "modules.apimachinery.validation.pod_spec", "modules.cloud",
    "modules.edge.eventbus.module", "modules.kubectl.cli", "modules.lab", "modules.processes.cloudcore",
    "modules.processes.edgecore.backup", "modules.processes.edgecore.doctor", "modules.processes.edgecore.local",
    "modules.processes.edgecore.other_commands", "modules.processes.edgecore.store_commands",
    "modules.processes.edgecore.trace", "modules.processes.edgecore.trace_commands", "modules.runtimes.docker",
    "modules.runtimes.oci.metrics", "msgpack", "multiprocessing", "paho", "pickle", "prometheus_client", "protos.csi",
    "protos.deviceplugin", "psutil", "rich", "secrets", "sqlalchemy", "ssl", "tempfile", "textual", "textwrap",
    "tokenize", "tomllib", "typing_extensions", "websockets",
)  # fmt: skip
"""Loaded by commands, or with the first request, probe, volume, device or module that needs them."""
STARTED: Final = ("devicetwin", "eventbus", "taskmanager")
"""Packages of `modules/edge` that every node loads in part; the check of a configuration needs eventbus's."""
OF_THE_OTHERS: Final = {
    "": ("modules.runtimes",),
    "modules.runtimes.process.driver": ("modules.runtimes.oci",),
    "modules.runtimes.oci.driver": (
        "modules.runtimes.process.driver",
        "modules.runtimes.process.shim_manager",
        "modules.runtimes.oci.images.worker.unpacker", "modules.runtimes.streaming.connection",
    ),
    "modules.runtimes.oci.network.loopback_firewall": (
        "modules.runtimes.cri_server", "modules.runtimes.oci.network.pod_network", "modules.runtimes.oci.spec",
    ),
}  # fmt: skip
"""By the module of the runtime that a configuration chooses, or of the rule beside a runtime outside edgecore."""


@pytest.mark.parametrize("runtime", OF_THE_OTHERS)
def test_a_start_loads_only_what_runs(runtime: str) -> None:
    loaded = _loaded_with(runtime)
    assert "edged.module" in loaded
    switched_off = [f"modules.edge.{name}" for name in _packages(modules.edge.__path__) if name not in STARTED]
    unwanted = (*LATER, *switched_off, *OF_THE_OTHERS[runtime])
    assert [name for name in loaded for one in unwanted if name == one or name.startswith(f"{one}.")] == []


def test_a_runtime_outside_edgecore_loads_grpc_without_asyncio() -> None:
    loaded = _loaded_with("edged.cri.channel")
    assert "grpc" in loaded
    assert [name for name in loaded if name.partition(".")[0] in ("asyncio", "inspect") or name == "grpc.aio"] == []


def test_a_link_with_tls_loads_ssl_when_it_is_dialled() -> None:
    code = f"{START}import edgehub.transport\nfrom edgehub.tls import client_context\nprint('_ssl' in sys.modules)\n"
    code += "print(client_context().minimum_version.name, '_ssl' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.split() == ["False", "TLSv1_2", "True"]


def _loaded_with(module: str) -> list[str]:
    """Return the names of the modules that a start and another module load; "": a start alone."""
    code = f"{START}{module and f'import {module}'}\n{LOADED}"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()


def _packages(path: Iterable[str]) -> list[str]:
    return [module.name for module in iter_modules(path) if module.ispkg]
