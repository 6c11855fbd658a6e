"""A simulated node."""

import contextlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import edgehub
from beehive.errors import BeehiveError, NotStartedError
from beehive.hive import Hive
from beehive.names import ModuleName
from edged.cri.contract import ContainerRuntime
from edged.host import Host
from edged.module import Edged
from edged.server.snapshots import Snapshots
from edged.settings import EdgedSettings
from edged.volumes import MemoryMounts
from edgehub.outbox.store import OpenOutbox
from edgehub.settings import EdgeHubSettings
from metamanager.module import MetaManager, MetaSettings
from metamanager.store import Store
from modules.apimachinery.attempts import AttemptError
from modules.apimachinery.types import Node as NodeObject
from modules.edge.devicetwin.module import DeviceTwin, TwinSettings
from modules.edge.metaserver.watch_agent import ClientWatches, WatchAgent
from modules.lab.simulate.broker import BrokerSession, SimulatedBroker
from modules.lab.simulate.checked_hive import CheckedHive
from modules.lab.simulate.configured import REPORT_EVENTS
from modules.lab.simulate.device import SimulatedDevice
from modules.lab.simulate.device_watch import DeviceWatch
from modules.lab.simulate.disk import DATABASE, Disk, SimulatedStore, copy_after_kill
from modules.lab.simulate.ended_watch import EndedWatch
from modules.lab.simulate.machine import Machine, SimulatedMachineInfo
from modules.lab.simulate.mapper import SimulatedMapper
from modules.lab.simulate.network import CloudEndpoint, NetworkLine, NodeLink
from modules.lab.simulate.outbox import OutboxDisk, SimulatedOutbox, UploadWatch
from modules.lab.simulate.plan import WorkloadStep
from modules.lab.simulate.publication_watch import TOPIC, PublicationWatch
from modules.lab.simulate.recording import ProcessRecorder
from modules.lab.simulate.row_watch import RowWatch
from modules.lab.simulate.service_documents import follow_messages
from modules.lab.simulate.static_files import StaticFiles
from modules.lab.simulate.status_watch import StatusWatch
from modules.lab.simulate.streams import EdgeStreams, StreamSite
from modules.lab.simulate.wire_watch import WireWatch
from modules.lab.simulate.world import Process, World

_RESTART_AFTER = 2.0
"""Seconds after which the init system restarts the agent (systemd's `RestartSec`)."""
_STOP_SECONDS = 20.0
IMAGE = "docker.io/library/app:1"
OTHER_IMAGE = "docker.io/library/app:2"


class ObservedEdged(Edged):
    """edged, made known to the simulation.

    Args:
        seen: called with the module when it is made.
    """

    def __init__(self, seen: Callable[[Edged], None], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        seen(self)


class SimulatedNode:
    """One node: a machine, a line, a directory, and the agent's process, which is restarted when it ends, as by an init
    system.

    Args:
        world: the world of the run.
        number: number of the node.
        root: a directory of its own, on a real file system.
        cloud: the cloud's end of its line.
        statuses: receives the statuses that edged finds.
        record: whether everything is recorded.
    """

    def __init__(
        self,
        world: World,
        number: int,
        root: Path,
        cloud: CloudEndpoint,
        statuses: StatusWatch,
        *,
        record: bool = False,
    ) -> None:
        self._record = record
        self.recorders: list[ProcessRecorder] = []
        """One for each process."""
        self.world = world
        self.number = number
        self.name = f"node-{number}"
        self.root = root
        self.cloud = cloud
        self.disk = Disk()
        self.machine = Machine(world, self.name, [IMAGE, OTHER_IMAGE])
        self.rows = RowWatch(world, self.name)
        self.behind: dict[str, int] = {}
        """Versions of its pods and others by uid when the process started, if the disk had refused changes before."""
        self.ended = EndedWatch(world, self.name)
        self.wire = WireWatch(world, self.name, self.ended, self.machine.containers)
        self.machine.watch.ended = self.ended
        self.statuses = statuses
        self.snapshots = Snapshots()
        self.uploads = UploadWatch(world, self.name)
        self.outbox = OutboxDisk(self.disk)
        self.line = NetworkLine(world, self.name, self.wire)
        self.publications = PublicationWatch(world, self.name)
        self.line.arrived = self._arrived
        self.starts = 0
        self.process: Process | None = None
        self.hive: Hive | None = None
        self._edged: Edged | None = None
        self.kills = 0
        self.off = 0
        """Above 0 while the machine has no power."""
        self._stores: list[SimulatedStore | SimulatedOutbox] = []
        root.mkdir(parents=True)
        self.follows_services = False
        """Whether it follows Services and their endpoints, as with edgemesh."""
        self.stream_site: StreamSite | None = None
        """Has the tunnels' servers; None: there is no edgestream."""
        self.streams: EdgeStreams | None = None
        """Of the process."""
        self.broker = SimulatedBroker(world)
        self.devices: dict[str, SimulatedDevice] = {}
        """By the name of the Device; see `with_devices`."""
        self._device_watch: DeviceWatch | None = None
        self.manifests = StaticFiles(root / "manifests", self.name)
        self.state = root / "state-0"
        self.state.mkdir(mode=0o700)

    @property
    def is_connected(self) -> bool:
        """Whether its process runs and is connected to the cloud."""
        return self.process is not None and self.line.connection is not None

    @property
    def pods_root(self) -> Path:
        """Directory of the pods' volumes."""
        return self.root / "edged"

    def with_devices(self, names: Iterable[str]) -> None:
        """Give the node devices, before its first start; without any, no module of devices runs on it."""
        watch = self._device_watch = DeviceWatch(self.world, self.name, self.broker)
        self.devices = {name: SimulatedDevice(self.world, self.broker, watch, name) for name in names}

    def forget_reports(self) -> None:
        """Note that only the devices still have their reported values."""
        for device in self.devices.values():
            device.forget()

    def known_node(self) -> NodeObject | None:
        """Return edged's Node object; or None."""
        if self.hive is None or self._edged is None:
            return None
        with contextlib.suppress(NotStartedError):
            return self._edged.node_state.known
        return None

    def start(self) -> None:
        """Start the agent's process, unless it runs or the machine has no power."""
        if self.process is not None or self.off:
            return
        self.starts += 1
        self.behind, self.disk.refuses = self.rows.versions() if self.disk.refuses else {}, False
        process = self.process = Process(self.world, self.name, self.machine.wall, self.starts)
        self.world.log_line(self.name, f"life {self.starts} begins")
        self.line.leaves = False
        self.snapshots = self._make_snapshots()
        hive = self.hive = CheckedHive(process)
        self._add_modules(hive, process)
        process.run(lambda: self._main(hive))

    def doom(self, steps: int) -> None:
        """Kill the process after a number of further steps."""
        if self.process is not None:
            self.process.doom(max(1, steps), self.kill)

    def kill(self, *, power: bool = False) -> None:
        """Kill the process now and restart it on the disk's contents. With `power` unflushed writes are lost."""
        self._end()
        self.kills += 1
        self.world.log_line(self.name, "killed")
        new = self.root / f"state-{self.starts}"
        copy_after_kill(self.state, new, self.disk.flushed if power else None)
        self.outbox.copy(self.state, new, power=power)
        self.state = new
        self.wire.check(new)
        if self._device_watch is not None:
            self._device_watch.check(new / DATABASE)
        self._start_later()

    def lose_store(self) -> None:
        """Kill the process and delete its database."""
        if self.process is not None:
            self.kill()
        for file in self.state.glob(f"{DATABASE}*"):
            file.unlink()
        self.wire.forget()
        self.rows.lost()
        if self._device_watch is not None:
            self._device_watch.lost()
        self.forget_reports()
        self.world.log_line(self.name, "the store is lost")

    def upload(self) -> None:
        """Send an upload to the cloud that only the outbox keeps."""
        process, hive = self.process, self.hive
        if process is not None and hive is not None:
            process.run(partial(hive.send, ModuleName.EDGEHUB, self.uploads.next(process)))

    def publish(self) -> None:
        """Let an application publish a message for the cloud at the node's broker."""
        self.broker.publish(TOPIC, self.publications.next())

    def change_file(self, step: WorkloadStep) -> None:
        """Change the file of a static pod, as the node's administrator does."""
        gone = self.manifests.change(step)
        if gone:
            self.machine.watch.reborn.add(gone)

    def restart(self) -> None:
        """Stop the process in good order and restart it."""
        process, hive = self.process, self.hive
        if process is None or hive is None:
            return

        def stop() -> None:
            self.line.leaves = True
            with contextlib.suppress(BeehiveError):
                hive.stop(_STOP_SECONDS)
            if self.process is process:
                self._end()
                self.world.log_line(self.name, "stopped")
                self._start_later()

        process.run(stop)

    def jump_clock(self, seconds: float) -> None:
        """Move the machine's wall clock."""
        self.machine.wall.offset += seconds
        if self.process is not None and self.recorders:
            self.recorders[-1].clock_jumped(seconds)

    def reboot(self) -> None:
        """Kill the process by a loss of power and end everything that runs on the machine."""
        if self.process is not None:
            self.kill(power=True)
        self.machine.reboot()

    def close(self) -> None:
        """Close files at the end of the run."""
        for store in self._stores:
            store.close()

    def _arrived(self, frame: bytes) -> None:
        self.uploads.arrived(frame)
        self.publications.arrived(frame)

    def _see(self, edged: Edged) -> None:
        self._edged = edged

    def _main(self, hive: Hive) -> None:
        process = self.process
        try:
            hive.start()
            for message in follow_messages(hive.clock) if self.follows_services else ():
                hive.send(ModuleName.METASERVER, message)
        except (BeehiveError, AttemptError, OSError) as error:
            without_directory = str(error).replace(f"{self.root}/", "")
            self.world.log_line(self.name, f"cannot start: {without_directory}")
            if self.process is process:
                self._end()
                self._start_later()

    def _end(self) -> None:
        process, self.process, self.hive = self.process, None, None
        if process is not None:
            process.kill()
            self.broker.end_session()
        for connection in (self.line.connection, self.line.tunnel):
            if connection is not None:
                connection.close_from_node()

    def _start_later(self) -> None:
        self.world.at(self.world.now() + _RESTART_AFTER, self.start)

    def _add_modules(self, hive: Hive, process: Process) -> None:
        recorder = self._recorder(hive) if self._record else None
        if recorder is not None:
            self.recorders.append(recorder)
        host = Host(machine_info=SimulatedMachineInfo(self.machine.evictions), mounts=MemoryMounts())
        settings = MetaSettings(str(self.state / DATABASE), report_events=REPORT_EVENTS, node=self.name)
        hive.add(MetaManager, settings, partial(self._open_store, process, recorder))
        hive.add(
            ObservedEdged,
            self._see,
            self._edged_settings(),
            partial(self._connect, process, recorder),
            self.snapshots,
            "v1.32.0",
            host if recorder is None else recorder.host(host),
        )
        if self.devices and self._device_watch is not None:
            hive.add(DeviceTwin, TwinSettings(self.name, mqtt=True, mappers=True))
            hive.add(SimulatedMapper, self._device_watch)
            hive.add(BrokerSession, self.broker, self.publications)
        if self.follows_services:
            hive.add(WatchAgent, self.name, ClientWatches())
        if self.stream_site is not None:
            self.streams = EdgeStreams(self.stream_site, process, hive, self.line)
        hub = EdgeHubSettings(url="ws://cloud.simulated/e632/node/events", node=self.name)

        def make_link() -> NodeLink:
            return NodeLink(process, self.line, self.cloud)

        open_outbox: OpenOutbox = partial(self._open_outbox, process)
        if recorder is None:
            edgehub.install(hive, hub, make_link=make_link, open_outbox=open_outbox)
        else:
            links, outbox = recorder.links(make_link), recorder.outbox(open_outbox)
            edgehub.install(hive, hub, make_link=links, open_outbox=outbox)

    def _make_snapshots(self) -> Snapshots:
        """Make edged's snapshots so that each status in them is noted."""
        snapshots = Snapshots()

        def listen() -> None:
            self.statuses.found(snapshots.pods)
            self.machine.probes.found(snapshots.pods)
            self.machine.evictions.found(snapshots.pods)

        snapshots.subscribe(listen)
        return snapshots

    def _recorder(self, hive: Hive) -> ProcessRecorder:
        from modules.lab.simulate.configured import configuration_of  # noqa: PLC0415 - most runs are not recorded

        return ProcessRecorder(
            hive, self.name, self.world.seed, configuration_of(self._edged_settings(), mqtt=bool(self.devices))
        )

    def _open_store(self, process: Process, recorder: ProcessRecorder | None, source: str) -> Store:
        store = SimulatedStore(Path(source), process, self.disk, self.rows, self._device_watch)
        self._stores.append(store)
        return store if recorder is None else recorder.store(store)

    def _open_outbox(self, process: Process) -> SimulatedOutbox:
        outbox = SimulatedOutbox(self.state, process, self.outbox, (self.uploads, self.publications))
        self._stores.append(outbox)
        return outbox

    def _connect(self, process: Process, recorder: ProcessRecorder | None) -> ContainerRuntime:
        client = self.machine.client(process)
        return client if recorder is None else recorder.runtime(client)

    def _edged_settings(self) -> EdgedSettings:
        return EdgedSettings(
            node_name=self.name,
            root=self.pods_root,
            pod_logs=self.root / "logs",
            runtime_endpoint="unix:///simulated",
            node_ip="192.0.2.2",
            server_port=0,
            resolv_conf=self.root / "resolv.conf",
            static_pods=self.manifests.directory,
        )
