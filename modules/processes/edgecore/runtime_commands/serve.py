"""`edgecore runtime`: serves CRI by a runtime inside edgecore, without a node around it."""

import argparse
from contextlib import ExitStack

from beehive import RealClock
from edged.errors import EdgedError
from modules.apimachinery.printing.terminal import print_lines
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.shutdown import Shutdown
from modules.processes.edgecore.container_runtime import start_container_runtime
from modules.processes.edgecore.location import node_location
from modules.processes.edgecore.logs import set_up
from modules.processes.edgecore.ownership import lock_root_directory
from modules.processes.edgecore.reporting import reporting_errors
from modules.processes.edgecore.rootless import enter_namespaces
from modules.processes.edgecore.runtime_kinds import RuntimeKind, configured_kind, of_kind


@reporting_errors
def serve(chosen: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT; containers go on, and the next start finds them again."""
    config = node_location(chosen).load().config
    kind = RuntimeKind(chosen.kind) if chosen.kind else configured_kind(config)
    if kind is None:
        hint = f"choose one: --kind {'|'.join(RuntimeKind)}"
        raise EdgedError("serve a container runtime", "the configured one is not inside edgecore", hint)
    enter_namespaces(of_kind(config, kind))
    set_up("info")
    shutdown = Shutdown(at_once=ExitCode.INTERRUPTED)
    with ExitStack() as stack:
        lock_root_directory(config.modules.edged.root_directory, stack)
        clock = RealClock()
        stack.callback(clock.close)
        server = start_container_runtime(of_kind(config, kind), clock, stack, chosen.socket)
        print_lines([f"serving CRI of {kind} at {server.endpoint}"])
        shutdown.wait()
