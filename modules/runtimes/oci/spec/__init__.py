"""Translates CRI to the OCI runtime specification: a container's config.json, and the checks before it runs.

Nothing runs here. `Machine` has the features of this machine; `check_sandbox` and `check_container` refuse requests
that would fail; `container_spec` translates a container whose root file system is mounted.
"""

from modules.runtimes.oci.spec.checks import check_container, check_sandbox
from modules.runtimes.oci.spec.container import container_spec
from modules.runtimes.oci.spec.declared_volumes import declared_volumes
from modules.runtimes.oci.spec.machine import CgroupLayout, Machine
from modules.runtimes.oci.spec.model import (
    ImageDefaults,
    ImageVolume,
    Json,
    LinuxUser,
    NamespacePaths,
    OciSpec,
    SandboxFiles,
)
from modules.runtimes.oci.spec.process import exec_process
from modules.runtimes.oci.spec.resources import check_resources, updated_resources
from modules.runtimes.oci.spec.selinux import selinux_labels
from modules.runtimes.oci.spec.stop_signals import stop_signal
from modules.runtimes.oci.spec.sysctls import sysctl_parts

__all__ = [
    "CgroupLayout",
    "ImageDefaults",
    "ImageVolume",
    "Json",
    "LinuxUser",
    "Machine",
    "NamespacePaths",
    "OciSpec",
    "SandboxFiles",
    "check_container",
    "check_resources",
    "check_sandbox",
    "container_spec",
    "declared_volumes",
    "exec_process",
    "selinux_labels",
    "stop_signal",
    "sysctl_parts",
    "updated_resources",
]
