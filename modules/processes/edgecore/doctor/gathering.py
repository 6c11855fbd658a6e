"""Gathers all facts concurrently, within a deadline."""

import os
from pathlib import Path
from typing import Final

from beehive import Clock
from modules.processes.common.at_once import Parts, at_once
from modules.processes.edgecore.config.dangers import is_unisolated_root
from modules.processes.edgecore.config.loading import LoadResult
from modules.processes.edgecore.damaged import damaged_paths
from modules.processes.edgecore.doctor import databases, machine, mesh, network, node, oci, pod_network, rootless
from modules.processes.edgecore.doctor.facts import Configured, Facts
from modules.processes.edgecore.rootless import is_rootless
from modules.processes.edgecore.runtime_kinds import other_kinds
from modules.processes.edgecore.settings import edged_settings
from modules.processes.edgecore.uninstall.lost import signal_lost

SECONDS: Final = 6.0
"""Time limit: two servers, each with a step of at most three seconds beyond the first."""


def facts(loaded: LoadResult, options: str, clock: Clock) -> Facts:
    """Return all facts of a node; `options` lead any command to it."""
    config = loaded.config
    parts: Parts = {
        "running": lambda: node.running(config),
        "directories": lambda: machine.directories(config),
        "ports": lambda: machine.ports(config),
        "runtime": lambda: node.runtime(config),
        "kernel": machine.kernel,
        "identity": lambda: network.identity(config, clock),
        "cloud": lambda: network.cloud(config, clock),
        "database": lambda: databases.database(config, clock),
        "outbox": lambda: databases.outbox(config, clock),
        "damaged": lambda: damaged_paths(config),
        "other_kinds": lambda: other_kinds(config),
        "lost": lambda: signal_lost(config),
        "others": lambda: machine.other_agents(loaded.source),
    }
    if config.uses_oci_runtime:
        parts["oci"] = oci.needs
    if config.uses_process_runtime and not loaded.has_file:
        parts["isolation"] = rootless.isolation
    if is_rootless(config):
        parts["rootless"] = rootless.needs
    if config.uses_docker_runtime:
        docker_address = config.modules.edged.docker_address
        parts["docker"] = lambda: node.docker_needs(Path(docker_address.removeprefix("unix://")), clock)
    if config.uses_oci_runtime or config.uses_docker_runtime:
        parts["pod_network"] = lambda: pod_network.needs(config)
    if config.modules.edge_mesh.enable:
        parts["mesh"] = lambda: mesh.needs(config)
    twin = config.modules.device_twin
    if twin.enable and twin.enable_mappers and config.modules.meta_manager.enable:
        parts["mappers"] = lambda: machine.mapper_socket(twin.dmi_socket)
        parts["unserved"] = lambda: databases.unserved(config)
    if config.runs_mqtt_broker:
        parts["broker"] = machine.broker
    return Facts(now=clock.now(), configured=_configured(loaded, options), **at_once(parts, SECONDS, clock, "doctor"))


def _configured(loaded: LoadResult, options: str) -> Configured:
    config, cgroups = loaded.config, edged_settings(loaded.config).cgroups
    return Configured(
        source=loaded.source,
        options=options,
        node=config.node_name,
        runs_container_runtime=config.runs_container_runtime,
        isolated=not config.uses_process_runtime,
        rootless=is_rootless(config),
        cgroup_driver=str(cgroups.driver),
        own_cgroups=cgroups.per_qos,
        warnings=tuple((each.check, each.render(loaded.source)) for each in loaded.warnings),
        unisolated_root=is_unisolated_root(config, os.geteuid(), has_file=loaded.has_file)
        and not config.modules.edged.allow_unisolated_root,
        without_effect=len(loaded.without_effect),
    )
