"""The commands `edgecore config default|minimal|check`.

A profile is no setting: the file that `edgecore config default --profile saver` prints has all its values.
"""

import argparse
import sys
from typing import Final

from msgspec.structs import replace

from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.config.errors import ConfigError
from modules.processes.edgecore.config.loading import LoadResult
from modules.processes.edgecore.config.model import EdgeCoreConfig
from modules.processes.edgecore.config.writing import MINIMAL_KEYS, render
from modules.processes.edgecore.location import located


def saver(config: EdgeCoreConfig) -> EdgeCoreConfig:
    """Return a configuration with the settings for metered links: 4 MB a day at most.

    The cloud ends a session 30 s after the last keepalive; with 25 s no keepalive may be lost, but TCP repeats lost
    ones. A lease of 160 s is renewed every 50 s, so the cloud has to wait longer for a silent node than its default of
    40 s: kube-controller-manager --node-monitor-grace-period=160s. Events stay on the node.
    """
    modules = config.modules
    kubelet = replace(
        modules.edged.tailored_kubelet_config,
        node_lease_duration_seconds=160,
        node_status_report_frequency=6 * 3600.0,
    )
    hub = replace(modules.edge_hub, heartbeat=25, compression=True)
    edged = replace(modules.edged, tailored_kubelet_config=kubelet, report_event=False)
    return replace(config, modules=replace(modules, edge_hub=hub, edged=edged))


PROFILES: Final = {"saver": saver}


def default(chosen: argparse.Namespace) -> int:
    """Print every key with its default, or with the value of a profile."""
    config = EdgeCoreConfig.default()
    sys.stdout.write(render(PROFILES[chosen.profile](config) if chosen.profile else config))
    return ExitCode.OK


def minimal(_chosen: argparse.Namespace) -> int:
    """Print the few keys that users set."""
    sys.stdout.write(render(EdgeCoreConfig.default(), MINIMAL_KEYS))
    return ExitCode.OK


def check(chosen: argparse.Namespace) -> int:
    """Print all remarks about a file; exit status CONFIGURATION if it cannot be used."""
    try:
        location = located(chosen.file or chosen.config, chosen.root)
        loaded = location.load()
    except ConfigError as error:
        sys.stdout.write("\n".join(_errors(error)) + "\n")
        return ExitCode.CONFIGURATION
    sys.stdout.write("\n".join(_summary(loaded)) + "\n")
    return ExitCode.OK


def _errors(error: ConfigError) -> list[str]:
    lines = [f"error: {problem.render(error.source)}" for problem in error.problems]
    return lines + [f"warning: {warning.render(error.source)}" for warning in error.warnings]


def _summary(loaded: LoadResult) -> list[str]:
    lines = [f"warning: {warning.render(loaded.source)}" for warning in loaded.warnings]
    lines += [f"note: {remark.render(loaded.source)}" for remark in loaded.without_effect]
    warnings, unused = len(loaded.warnings), len(loaded.without_effect)
    return [*lines, f"{loaded.source}: usable (warnings: {warnings}, keys set without effect: {unused})"]
