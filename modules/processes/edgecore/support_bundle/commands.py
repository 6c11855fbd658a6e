"""The command `edgecore support-bundle`."""

import argparse
import shlex
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from beehive import RealClock
from beehive.trace.redact import Redactor
from modules.processes.common.support_bundle.bundle import SupportPart, common_parts, make_bundle
from modules.processes.edgecore.config import ConfigError
from modules.processes.edgecore.location import NodeLocation, node_location
from modules.processes.edgecore.reporting import reporting_errors
from modules.processes.edgecore.support_bundle import node

_UNIT: Final = "edgecore.service"


@reporting_errors
def support_bundle(chosen: argparse.Namespace) -> None:
    """Write the bundle; with a configuration that cannot be used, what does not need one."""
    location, redactor = node_location(chosen), Redactor(hides_values=True)
    with closing(RealClock()) as clock, TemporaryDirectory(prefix="edgecore-support-") as scratch:
        try:
            name, parts, directories = _of_node(location, chosen, redactor, Path(scratch))
        except ConfigError as error:
            problems = "".join(f"{each.render(error.source)}\n" for each in error.problems)
            parts = [SupportPart("problems.txt", "why the configuration cannot be used", lambda: problems)]
            name, directories = "", [Path("/")]
        parts += common_parts("edgecore", chosen, _UNIT, directories)
        parts += node.upgrade_parts(location.file)
        make_bundle("edgecore", name, chosen.output, parts, redactor, clock)


def _of_node(
    location: NodeLocation, chosen: argparse.Namespace, redactor: Redactor, scratch: Path
) -> tuple[str, list[SupportPart], list[Path]]:
    """Return name, parts and directories of the node, whose secrets the redactor learns. Raises ConfigError."""
    loaded = location.load()
    config = loaded.config
    node.learn_secrets(config, redactor)
    parts = node.parts(loaded, shlex.join(location.options), redactor)
    if not chosen.no_trace:
        parts.append(node.trace_part(config, redactor, scratch))
    edged = config.modules.edged
    directories = [edged.root_directory, edged.tailored_kubelet_config.pod_logs_dir, Path("/")]
    return config.node_name, parts, directories
