"""Runs the node agent: assembles the modules, starts them in order, and stops them on a signal.

metamanager starts first, because the other modules query it; edgehub starts last, because nothing on the node waits for
the cloud. The stop is the reverse.
"""

import logging
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import edgehub
from beehive import Hive, Message, ModuleName, Operation, Threads
from beehive.errors import BeehiveError, StopError
from beehive.exposition import CollectorRegistry
from beehive.files.advice import advice
from beehive.metrics import BusMetrics, hive_metrics
from beehive.names import SHUTDOWN_RESOURCE
from edged.cgroups.opening import machine_hierarchies, open_cgroups
from edged.cgroups.resource_config import NodeCapacity
from edged.cgroups.tree import CgroupTree
from edged.cri.client import CriClient
from edged.cri.contract import ContainerRuntime
from edged.devices.transport import GrpcDevicePluginTransport
from edged.eviction.consumption import consumption
from edged.host import Host
from edged.module import Edged
from edged.node.machine import MachineInfo, read_machine
from edged.node.recording import RecordingMachineInfo, recorded_ends, recorded_links
from edged.pods.paths import PodPaths
from edged.server.snapshots import Snapshots
from edged.settings import EdgedSettings
from edged.shutdown.logind import Logind
from edged.stats.provider import CgroupUsage, StatsProvider
from edgehub.counters import LinkCounters
from edgehub.metrics import link_metrics
from edgehub.network.netlink import Netlink
from edgehub.outbox.sqlite import open_outbox
from metamanager.metrics import store_metrics
from metamanager.module import MetaManager
from metamanager.store import Store
from metamanager.store_health import StoreStatistics
from modules.apimachinery.attempts import AttemptError
from modules.apimachinery.node_job_kinds import JobKind
from modules.edge.devicetwin.feed import DeviceFeed
from modules.edge.devicetwin.module import DeviceTwin
from modules.edge.taskmanager.module import TaskManager
from modules.edge.taskmanager.pulls import DEADLINE as PULL_DEADLINE
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.memory import MemoryTrimmer, collect_and_trim, set_up_malloc
from modules.processes.common.process_metrics import process_metrics
from modules.processes.common.service_manager import ServiceManager, Watch
from modules.processes.common.shutdown import Shutdown
from modules.processes.common.start_collector import collect_as_usual
from modules.processes.common.version import KUBELET_VERSION
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.damaged import damaged_metrics
from modules.processes.edgecore.edged_server import serve
from modules.processes.edgecore.liveness import NodeLiveness
from modules.processes.edgecore.logs import print_remark, set_up
from modules.processes.edgecore.loopback import LoopbackWatch
from modules.processes.edgecore.machine_usage import MachineUsage
from modules.processes.edgecore.node_settings import LocalSettingsCommands
from modules.processes.edgecore.node_upgrades import LocalUpgradeCommands
from modules.processes.edgecore.optional_modules import add_optional_modules
from modules.processes.edgecore.owner_routes import DeviceRoutes, MeshRoutes, ReleaseRoutes, chain_route, job_routes
from modules.processes.edgecore.ownership import lock_root_directory
from modules.processes.edgecore.rootless import probing_network
from modules.processes.edgecore.runtime_kinds import other_kinds
from modules.processes.edgecore.settings import (
    certificate_settings,
    edged_settings,
    edgehub_settings,
    meta_settings,
    task_settings,
    twin_settings,
)
from modules.processes.edgecore.top.state_handler import AgentStateHandler
from modules.processes.edgecore.tracing import Tracing

if TYPE_CHECKING:
    from modules.processes.edgecore.cli import LogFormat, LogLevel, Recording

_log = logging.getLogger(__name__)

STOP_DEADLINE = 20.0
"""Seconds within which all modules have to stop."""


def run(
    config: EdgeCoreConfig,
    *,
    log_level: "LogLevel",
    log_format: "LogFormat",
    record: "Recording | None" = None,
    starting: ExitStack,
) -> int:
    """Run the node until SIGTERM or SIGINT and return the exit status, see `ExitCode`.

    Args:
        config: configuration of the node.
        log_level: least severe level that is logged.
        log_format: form of the log's lines.
        record: destination of a recording of all inputs of the modules; None without one.
        starting: is closed when the node has its root directory, see `hold_start`.
    """
    set_up(log_level, log_format, config.node_name)
    set_up_malloc()
    manager = ServiceManager()
    shutdown = Shutdown(at_once=ExitCode.INTERRUPTED)
    hive = Hive(Threads())
    tracing = Tracing(hive, config, *(record or ()))
    shutdown.on(signal.SIGUSR2, lambda: tracing.dump_soon("SIGUSR2"))
    try:
        with ExitStack() as stack:
            snapshots = start(config, hive, tracing, stack, starting)
            _shut_down_on_power_failure(config, hive, shutdown)
            watch = Watch(manager, hive.clock, _liveness(config, hive, snapshots).check)
            watch.begin()
            collect_as_usual()
            _log.info("node %s is running", config.node_name)
            shutdown.wait()
            _log.info("stopping; containers are left running")
            watch.close()
            hive.stop(STOP_DEADLINE)
    except StopError as error:
        _log.error("%s", error)
        return ExitCode.STOP_TIMED_OUT
    except (BeehiveError, AttemptError, OSError) as error:
        print_remark(f"error: cannot start: {_reason(error)}", log_format)
        _log.debug("the start failed", exc_info=True)
        return ExitCode.START_FAILED
    return ExitCode.OK


def _liveness(config: EdgeCoreConfig, hive: Hive, snapshots: Snapshots) -> NodeLiveness:
    edged = config.modules.edged
    sync_period = edged.tailored_kubelet_config.sync_frequency if edged.enable else 0.0
    return NodeLiveness(hive, snapshots, config.node_name, sync_period)


def _reason(error: Exception) -> str:
    """Return why the node did not start, in a line."""
    if not isinstance(error, OSError):
        return str(error)
    return f"{error.filename}: {advice(error)}" if error.filename else advice(error)


def start(config: EdgeCoreConfig, hive: Hive, tracing: Tracing, stack: ExitStack, starting: ExitStack) -> Snapshots:
    """Start everything; the stack ends all parts that are no modules. Return the snapshots that the modules make for
    the server.

    It takes the root directory first, which another process may hold, and starts the runtime inside before the modules.

    Raises:
        BeehiveError: a module did not start.
        EdgedError: the root directory or the port is taken, or the runtime inside edgecore did not start.
    """
    if config.modules.edged.enable:
        lock_root_directory(config.modules.edged.root_directory, stack)
        for left in other_kinds(config):
            _log.warning("%s: %s", left, left.remedy())
    starting.close()
    stack.callback(MemoryTrimmer(hive.clock, trim=collect_and_trim).close)
    registry = CollectorRegistry()
    hive.taps.append(BusMetrics(registry))
    tracing.attach(stack)
    registry.register(partial(hive_metrics, hive))
    registry.register(partial(process_metrics, "edgecore"))
    registry.register(partial(damaged_metrics, config))
    snapshots = Snapshots(tracing.without_secrets)
    state = AgentStateHandler(config.node_name, config.modules.edge_hub.websocket.server, hive, snapshots)
    feed = DeviceFeed() if config.modules.device_twin.enable and config.modules.meta_manager.enable else None
    local = _start_runtime(config, hive, stack)
    state.counters = _add_modules(hive, config, snapshots, registry, tracing, stack, feed, local=local)
    owners = [
        state.route,
        chain_route(snapshots),
        *DeviceRoutes(hive, feed).routes,
        *MeshRoutes(hive, config).routes,
        *job_routes(hive),
        *ReleaseRoutes(hive, config.node_name).routes,
    ]
    serve(config, hive, snapshots, lambda: registry.text().encode(), stack, owners)
    hive.start()
    return snapshots


def _start_runtime(config: EdgeCoreConfig, hive: Hive, stack: ExitStack) -> Mapping[str, Callable[..., Any]]:
    """Start the runtime inside edgecore, if it is configured; return its calls for this process. Raises EdgedError."""
    if not config.runs_container_runtime:
        if config.modules.edged.enable and os.geteuid() == 0:
            watch = LoopbackWatch(hive.clock)
            watch.start()
            stack.callback(watch.close)
        return {}
    # imported only here: a node with containerd does not load it
    from modules.processes.edgecore.container_runtime import start_container_runtime  # noqa: PLC0415

    return start_container_runtime(config, hive.clock, stack).local_calls


def _add_modules(
    hive: Hive,
    config: EdgeCoreConfig,
    snapshots: Snapshots,
    registry: CollectorRegistry,
    tracing: Tracing,
    stack: ExitStack,
    feed: DeviceFeed | None,
    *,
    local: Mapping[str, Callable[..., Any]],
) -> LinkCounters | None:
    """Add the modules; return the link's counters, None without a link. `local` has the calls to a runtime inside."""
    modules = config.modules
    if modules.meta_manager.enable:
        store_settings, statistics = meta_settings(config), StoreStatistics()
        hive.add(MetaManager, store_settings, _store_opener(config, hive, snapshots, tracing, stack), statistics)
        registry.register(partial(store_metrics, statistics, store_settings.data_source))
    if feed is not None:
        hive.add(DeviceTwin, twin_settings(config), feed)
    add_optional_modules(hive, config, registry)
    links = None
    if modules.edge_mesh.enable and modules.meta_manager.enable:
        # imported only here, as `optional_modules` does
        from modules.processes.edgecore.edge_mesh import add_edge_mesh  # noqa: PLC0415

        links = add_edge_mesh(hive, config, registry, snapshots)
    if modules.edged.enable:
        _add_edged(hive, config, snapshots, tracing, local, links)
    if not modules.edge_hub.enable:
        return None
    if modules.meta_manager.enable:
        settings, opener = task_settings(config), _runtime_opener(config, local)
        upgrades = LocalUpgradeCommands() if JobKind.NODE_UPGRADE in settings.allowed else None
        updates = LocalSettingsCommands() if JobKind.CONFIG_UPDATE in settings.allowed else None
        hive.add(TaskManager, settings, MachineUsage(config), opener, upgrades, updates)
    return _install_hub(hive, config, registry, tracing)


def _add_edged(
    hive: Hive,
    config: EdgeCoreConfig,
    snapshots: Snapshots,
    tracing: Tracing,
    local: Mapping[str, Callable[..., Any]],
    links: Callable[[str, bool], Mapping[str, str]] | None,
) -> None:
    settings = edged_settings(config)
    cgroups = _open_cgroups(settings)
    snapshots.stats = _stats(settings, snapshots, hive, own_cgroups=cgroups is not None)
    hive.add(
        Edged,
        settings,
        lambda: tracing.runtime(
            CriClient(
                settings.runtime_endpoint,
                settings.image_endpoint,
                request_timeout=settings.request_timeout,
                local=local,
            )
        ),
        snapshots,
        KUBELET_VERSION,
        Host(
            network=probing_network(config, hive.clock),
            machine_info=RecordingMachineInfo(MachineInfo(consumption(snapshots.stats)), tracing.sink),
            cgroups=cgroups,
            devices=GrpcDevicePluginTransport(hive.clock),
            service_links=None if links is None else recorded_links(links, tracing.sink),
            noticed_end=recorded_ends(tracing.sink),
            shutdown=lambda: Logind(sum(group.seconds for group in settings.shutdown)),
        ),
    )


def _runtime_opener(
    config: EdgeCoreConfig, local: Mapping[str, Callable[..., Any]]
) -> Callable[[], ContainerRuntime] | None:
    """Return what connects taskmanager to the container runtime; None for a node that runs no containers."""
    if not config.modules.edged.enable:
        return None
    settings = edged_settings(config)
    return lambda: CriClient(
        settings.runtime_endpoint,
        settings.image_endpoint,
        request_timeout=settings.request_timeout,
        pull_timeout=PULL_DEADLINE,
        local=local,
    )


def _install_hub(hive: Hive, config: EdgeCoreConfig, registry: CollectorRegistry, tracing: Tracing) -> LinkCounters:
    outbox = config.outbox_path
    counters = edgehub.install(
        hive,
        edgehub_settings(config),
        certificates=certificate_settings(config),
        wrap=tracing.links,
        open_outbox=tracing.outbox(lambda: open_outbox(outbox, hive.clock.now())),
        watch_network=Netlink,
    )
    registry.register(partial(link_metrics, counters))
    return counters


def _store_opener(
    config: EdgeCoreConfig, hive: Hive, snapshots: Snapshots, tracing: Tracing, stack: ExitStack
) -> Callable[[str], Store]:
    """Return the function that opens metamanager's store. The metaserver, which follows the store, is imported only if
    it is enabled.
    """
    if not config.modules.meta_manager.meta_server.enable:
        return tracing.open_store
    from modules.processes.edgecore.metaserver import serve_api  # noqa: PLC0415

    return serve_api(config, hive, snapshots, tracing.open_store, stack)


def _shut_down_on_power_failure(config: EdgeCoreConfig, hive: Hive, shutdown: Shutdown) -> None:
    """Let SIGPWR announce the machine's shutdown, for machines without logind."""
    if not config.modules.edged.enable or not edged_settings(config).shutdown:
        return

    def announce() -> None:
        where = {"source": "SIGPWR", "resource": SHUTDOWN_RESOURCE, "operation": Operation.UPDATE}
        hive.send(ModuleName.EDGED, Message.new(hive.clock, **where, content=True), waits=False)

    shutdown.on(signal.SIGPWR, announce)


def _open_cgroups(settings: EdgedSettings) -> CgroupTree | None:
    """Open the pods' cgroups, before edged exists because this reads the machine. None if pods get none."""
    settings.root.mkdir(mode=0o750, parents=True, exist_ok=True)
    machine = read_machine(settings.root, settings.node_ip)
    return open_cgroups(settings.cgroups, NodeCapacity(machine.cpus, machine.memory))


def _stats(settings: EdgedSettings, snapshots: Snapshots, hive: Hive, *, own_cgroups: bool) -> StatsProvider:
    """Return the provider of usage statistics. Without cgroups of their own, pods' usage comes from the runtime."""
    return StatsProvider(
        settings.node_name,
        PodPaths(settings.root, settings.pod_logs),
        hive.clock,
        lambda: snapshots.pods,
        cgroups=settings.cgroups,
        hierarchies=CgroupUsage(machine_hierarchies()) if own_cgroups else None,
        local_volumes=lambda: snapshots.reports.local_volumes() if snapshots.reports is not None else {},
    )
