"""The node agent as a process: puts the modules together, starts them in order, and ends them on a signal.

Straight-line start and stop in reverse. metamanager comes first, because the others ask it; edgehub comes last, because
nothing on the node waits for the cloud.
"""

import logging
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest

import edgehub
from beehive import BeehiveError, Hive, Message, ModuleName, Operation, Threads
from beehive.errors import StopError
from beehive.metrics import BusMetrics, HiveCollector
from beehive.names import SHUTDOWN_RESOURCE
from edged.cgroups.limits import Node
from edged.cgroups.opening import machine_hierarchies, open_cgroups
from edged.cgroups.tree import Tree
from edged.cri import CriClient
from edged.devices.serving import GrpcDeviceWorld
from edged.errors import EdgedError
from edged.eviction.consumption import consumption
from edged.module import Edged
from edged.node.machine import Figures, read_machine
from edged.node.recording import RecordingFigures
from edged.pods.paths import PodPaths
from edged.server.snapshots import Snapshots
from edged.settings import EdgedSettings
from edged.shutdown.logind import Logind
from edged.stats.cgroups import CgroupUsage
from edged.stats.provider import StatsProvider
from edgehub.metrics import LinkCollector
from edgehub.network.netlink import Netlink
from edgehub.outbox.sqlite import open_outbox
from metamanager.figures import StoreFigures
from metamanager.metrics import StoreCollector
from metamanager.module import MetaManager
from metamanager.store import Store
from modules.edgecore.config import EdgeCoreConfig
from modules.edgecore.damaged import DamagedCollector
from modules.edgecore.exit_codes import ExitCode
from modules.edgecore.logs import set_up
from modules.edgecore.memory import GiveBack, set_up_malloc
from modules.edgecore.ownership import take
from modules.edgecore.serving import serve
from modules.edgecore.settings import certificate_settings, edged_settings, edgehub_settings, meta_settings
from modules.edgecore.shutdown import Shutdown
from modules.edgecore.tracing import Tracing
from modules.edgecore.version import KUBELET_VERSION

if TYPE_CHECKING:
    from modules.edgecore.cli import LogLevel, Recording

_log = logging.getLogger(__name__)

STOP_DEADLINE = 20.0
"""Seconds that all modules together get to end."""


def run(config: EdgeCoreConfig, *, log_level: "LogLevel", record: "Recording | None" = None) -> int:
    """Run the node until SIGTERM or SIGINT; the exit status, see `ExitCode`.

    `record` says where everything which comes into the modules is recorded to.
    """
    set_up(log_level)
    set_up_malloc()
    shutdown = Shutdown(at_once=ExitCode.INTERRUPTED)
    tracing = Tracing(config, *(record or ()))
    shutdown.on(signal.SIGUSR2, lambda: tracing.dump_soon("SIGUSR2"))
    try:
        with ExitStack() as stack:
            hive = start(config, stack, tracing)
            _heed_power_failure(config, hive, shutdown)
            _log.info("node %s is running", config.node_name)
            shutdown.wait()
            _log.info("stopping; containers are left running")
            hive.stop(STOP_DEADLINE)
    except StopError as error:
        _log.error("%s", error)
        return ExitCode.STOP_TIMED_OUT
    except (BeehiveError, EdgedError, OSError) as error:
        print(f"edgecore: cannot start: {error}", file=sys.stderr)  # noqa: T201 - the last word of the process
        _log.debug("the start failed", exc_info=True)
        return ExitCode.START_FAILED
    return ExitCode.OK


def start(config: EdgeCoreConfig, stack: ExitStack, tracing: Tracing) -> Hive:
    """Start everything; what is not a module is ended by the stack.

    What may be taken by somebody else comes first: the root directory, then the local server's port.

    Raises:
        BeehiveError: a module did not start.
        EdgedError: the root directory or the port is taken, or the embedded runtime did not start.
    """
    if config.modules.edged.enable:
        take(config.modules.edged.root_directory, stack)
    runtime = Threads()
    stack.callback(GiveBack(runtime.clock).close)
    hive = Hive(runtime)
    registry = CollectorRegistry()
    hive.taps.append(BusMetrics(registry))
    tracing.attach(hive, stack)
    registry.register(HiveCollector(hive))
    registry.register(DamagedCollector(config))
    snapshots = Snapshots()
    _add_modules(hive, config, snapshots, registry, tracing, stack)
    serve(config, hive, snapshots, lambda: generate_latest(registry), stack)
    if config.uses_embedded_runtime:
        _start_embedded_runtime(config, runtime, stack)
    hive.start()
    return hive


def _add_modules(
    hive: Hive,
    config: EdgeCoreConfig,
    snapshots: Snapshots,
    registry: CollectorRegistry,
    tracing: Tracing,
    stack: ExitStack,
) -> None:
    modules = config.modules
    if modules.meta_manager.enable:
        settings_of_meta, figures = meta_settings(config), StoreFigures()
        hive.add(MetaManager, settings_of_meta, _store_opener(config, hive, snapshots, tracing, stack), figures)
        registry.register(StoreCollector(figures, settings_of_meta.data_source))
    if modules.edged.enable:
        settings = edged_settings(config)
        cgroups = _open_cgroups(settings)
        snapshots.stats = _stats(settings, snapshots, hive, own_cgroups=cgroups is not None)
        hive.add(
            Edged,
            settings,
            lambda: tracing.runtime(
                CriClient(settings.runtime_endpoint, settings.image_endpoint, request_timeout=settings.request_timeout)
            ),
            snapshots,
            KUBELET_VERSION,
            RecordingFigures(Figures(consumption(snapshots.stats)), hive.clock, tracing.add),
            cgroups=cgroups,
            devices=GrpcDeviceWorld(),
            shutdown=lambda: Logind(sum(group.seconds for group in settings.shutdown)),
        )
    if modules.edge_hub.enable:
        outbox = config.outbox_path
        counters = edgehub.install(
            hive,
            edgehub_settings(config),
            certificates=certificate_settings(config),
            wrap=tracing.links,
            open_outbox=tracing.outbox(lambda: open_outbox(outbox, hive.clock.now())),
            watch_network=Netlink,
        )
        registry.register(LinkCollector(counters))


def _store_opener(
    config: EdgeCoreConfig, hive: Hive, snapshots: Snapshots, tracing: Tracing, stack: ExitStack
) -> Callable[[str], Store]:
    """Opens metamanager's store. The metaserver listens to it where it is switched on, and is imported only there."""
    if not config.modules.meta_manager.meta_server.enable:
        return tracing.open_store
    from modules.edgecore.metaserving import serve_api  # noqa: PLC0415

    return serve_api(config, hive, snapshots, tracing.open_store, stack)


def _heed_power_failure(config: EdgeCoreConfig, hive: Hive, shutdown: Shutdown) -> None:
    """SIGPWR says that the machine is about to shut down, where there is no logind to say it."""
    if not config.modules.edged.enable or not edged_settings(config).shutdown:
        return

    def tell() -> None:
        where = {"source": "SIGPWR", "resource": SHUTDOWN_RESOURCE, "operation": Operation.UPDATE}
        hive.send(ModuleName.EDGED, Message.new(hive.clock, **where, content=True))

    shutdown.on(signal.SIGPWR, tell)


def _open_cgroups(settings: EdgedSettings) -> Tree | None:
    """Before edged is there, because the machine is asked; None: pods get none here."""
    settings.root.mkdir(mode=0o750, parents=True, exist_ok=True)
    machine = read_machine(settings.root, settings.node_ip)
    return open_cgroups(settings.cgroups, Node(machine.cpus, machine.memory))


def _stats(settings: EdgedSettings, snapshots: Snapshots, hive: Hive, *, own_cgroups: bool) -> StatsProvider:
    """What the node and its pods use; where pods have no cgroups, only the runtime says it of them."""
    return StatsProvider(
        settings.node_name,
        PodPaths(settings.root, settings.pod_logs),
        hive.clock,
        lambda: snapshots.pods,
        cgroups=settings.cgroups,
        hierarchies=CgroupUsage(machine_hierarchies()) if own_cgroups else None,
    )


def _start_embedded_runtime(config: EdgeCoreConfig, runtime: Threads, stack: ExitStack) -> None:
    """Imported only here: a node on containerd does not carry it."""
    from edged.embedded import EmbeddedRuntime  # noqa: PLC0415

    embedded = EmbeddedRuntime(config.embedded_runtime_root, config.embedded_runtime_socket, runtime.clock)
    embedded.start()
    stack.callback(embedded.stop)
