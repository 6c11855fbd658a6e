"""The plan of a simulated run as plain data, which can be printed, shrunk, and run again."""

from enum import StrEnum

import msgspec


class FaultKind(StrEnum):
    """Kind of a fault."""

    CUT = "link cut"
    """The connection breaks, frames under way are lost, and dialling fails for a while."""
    HALF_OPEN = "link half open"
    """Nothing arrives in either direction; each end has to notice."""
    DEAF = "nothing reaches the cloud"
    MUTE = "nothing reaches the node"
    DELAY = "slow link"
    DUPLICATE = "frames from the cloud come twice"
    REORDER = "answers of the cloud are overtaken"
    """A real cloudcore writes answers and objects by two loops, without an order between the two."""
    LATE_ANSWERS = "the cloud answers late"
    """The API server is slow, sometimes slower than the node waits."""
    NO_ANSWERS = "the cloud does not answer"
    """A real cloudcore only logs a request that fails."""
    ROAM = "the node gets another address"
    """The connection breaks immediately and the next is made; the cloud notices the end of the old one later."""
    CLOUD_RESTART = "cloud restarts with its objects"
    CLOUD_AMNESIA = "cloud restarts without its objects"
    """The objects are applied again and have other uids."""
    KILL = "process killed"
    """Between any two steps; the store has the disk's contents at that moment."""
    KILL_AT_CALL = "process killed at a call"
    """At the first one of the kind `Fault.call` about the pod `Fault.pod`, after its effect."""
    REBOOT_AT_CALL = "machine rebooted at a call"
    """`amount` is by how many seconds the wall clock jumps meanwhile: a board without a battery."""
    RESTART = "process stopped and started"
    REBOOT = "machine rebooted"
    POWER_OFF = "machine without power"
    """`amount` is by how many seconds its wall clock is wrong when it starts: a board without a battery."""
    DISK_FULL = "disk full"
    STORE_LOCKED = "store locked"
    STORE_LOST = "store lost"
    """The process is killed and restarted without its database."""
    SLOW_DISK = "slow fsync"
    CRI_FAILS = "runtime refuses calls"
    CRI_LOSES_ANSWERS = "calls take effect but time out"
    CRI_SLOW = "slow runtime"
    RELIST_FAILS = "the runtime cannot be listed"
    EVENTS_LOST = "events of the runtime are lost"
    EVENTS_LATE = "events of the runtime come late, some after younger ones"
    EVENTS_TWICE = "events of the runtime come twice"
    EVENTS_CUT = "the runtime's stream of events breaks"
    CONTAINER_DIES = "a container dies"
    SANDBOX_DIES = "a sandbox dies"
    MEMORY_LOW = "the machine is low on memory"
    PROBES_UNREADY = "readiness probes fail"
    PROBES_DEAD = "liveness probes fail"
    IMAGES_MISSING = "images are gone and cannot be pulled"
    CLOCK_JUMP = "the wall clock jumps"
    BROKER_AWAY = "the MQTT broker is away"
    """Devices cannot publish to the node, nor the node to them; earlier messages of devices stay with the broker."""
    DATABASE_FAILS = "cloudcore's database refuses transactions"
    DATABASE_FULL = "the disk of cloudcore's database is full"
    """`amount` is the share of the writes and commits for which there is no room. A reserve has room for some."""
    DATABASE_LOSES_ANSWERS = "cloudcore's database commits, and the connection breaks"
    API_AWAY = "the API server refuses connections"
    API_UNREACHABLE = "the API server does not answer"
    API_SLOW = "slow API server"
    API_CUT = "connections to the API server break before a request"
    API_LOSES_ANSWERS = "the API server carries out writes, and the connections break"
    API_BUSY = "the API server answers 429"
    API_FAILS = "the API server answers 500, 502, 503 or 504"
    """It has carried out half of the writes that it answers so."""
    WATCH_CUT = "watches break within an event"
    WATCH_SILENT = "watches become silent"
    """Their connections stay open, and nothing more comes, also after the fault."""
    API_COMPACTS = "the API server forgets old versions"
    """Watches of them, and continue tokens, are answered with 410."""
    API_RESTART = "the API server restarts with its objects"
    API_RESTORED = "the API server restarts with older objects and versions"
    STATE_LOST = "cloudcore restarts without its state of nodes"
    STATE_OLDER = "cloudcore restarts with a copy of its state of nodes"
    """The copy is of the fault's beginning; cloudcore restarts at its end."""
    TAKEN_OVER = "the node goes to another cloudcore, which shares the state"
    """It goes back at the end, when the other one is killed. `amount` seconds pass until the one that the node has
    left notices it.
    """
    STATE_DAMAGED = "cloudcore restarts with a damaged row in its state of nodes"
    LOCKED_OUT = "an administrator locks the node out"
    """And in the end allows it again; with an `amount`, instead, the node joins anew with another key."""
    STATE_FILE_DAMAGED = "cloudcore restarts with a damaged file of its state of nodes"
    """It is refused; then the administrator deletes the file."""


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """One fault."""

    at: float
    """Virtual seconds after the beginning."""
    kind: FaultKind
    node: int = 0
    seconds: float = 0.0
    """Duration."""
    amount: float = 0.0
    """Latency in seconds, share of calls, steps until the kill, or seconds of a clock's jump, depending on the kind."""
    call: str = ""
    """Kind of a call of the container runtime (`Trap.call`)."""
    pod: str = ""
    """Name of the call's pod."""

    def __str__(self) -> str:
        text = f"{self.at:8.3f} node-{self.node} {self.kind.value}"
        text += f" {self.call} of {self.pod}" if self.call else ""
        text += f" for {self.seconds:.3f} s" if self.seconds else ""
        return text + (f" ({self.amount:g})" if self.amount else "")


class Shape(StrEnum):
    """Kind of workload object."""

    PLAIN = "runs for ever"
    CRASHES = "ends with an error after a while, again and again"
    COMPLETES = "ends well after a while"
    FAILS_ONCE = "ends with an error and is not started again"
    INIT = "two init containers before it"
    TWO = "two containers"
    MOUNTS = "mounts a configmap and a secret"
    PROBED = "has a readiness and a liveness probe"
    CONFIGMAP = "configmap"
    SECRET = "secret"  # noqa: S105 - the kind of object
    STATIC = "static pod"
    """A file on the node, of a pod that takes a while to terminate; the same file again gives a pod of the same uid."""


class WorkloadStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change of the workload."""

    at: float
    name: str
    shape: Shape
    node: int = 0
    revision: int = 1
    """Revision of its content; 0 deletes it. A deleted object that comes again is another object of the same name."""

    def __str__(self) -> str:
        what = f"revision {self.revision}" if self.revision else "deleted"
        return f"{self.at:8.3f} node-{self.node} {self.name} ({self.shape.value}): {what}"


class RolloutStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change of a workload that cloudcore's controllers make pods of."""

    at: float
    kind: str
    """Deployment, StatefulSet, DaemonSet, Job or CronJob; there is one of each."""
    revision: int = 1
    """Revision of its template; 0 deletes it."""
    replicas: int = 2
    """Of a Job the completions, of a CronJob 0 while it is suspended."""
    surge: int = 0
    unavailable: int = 1

    def __str__(self) -> str:
        what = f"revision {self.revision}, {self.replicas} replicas" if self.revision else "deleted"
        return f"{self.at:8.3f} cloud  {self.kind}: {what}"


class Writer(StrEnum):
    """Another writer of the cloud's objects, beside the node and the user."""

    LABEL = "somebody labels the pod"
    ANNOTATION = "somebody annotates the pod"
    NOT_READY = "the node controller marks the pod as not ready"
    NODE_LOST = "the node controller says why the pod is not ready"
    ADDRESS = "somebody writes another address into the pod's status"
    GATE = "a controller sets a condition of its own"
    NODE_LABEL = "somebody labels the node"
    NODE_GROUP = "somebody moves the node to a node group, or with 0 out of all"
    NODE_UNKNOWN = "the node controller has not heard of the node"
    NODE_DELETED = "somebody deletes the node"


class Write(msgspec.Struct, frozen=True):
    """One change of a pod or a Node object by another writer."""

    at: float
    name: str
    writer: Writer
    number: int = 0
    """Makes each write different."""

    def __str__(self) -> str:
        return f"{self.at:8.3f} cloud  {self.name}: {self.writer.value} ({self.number})"


class DeviceAction(StrEnum):
    """An event of a device, in the cloud or at the node."""

    DESIRED = "desired value in the cloud"
    DELETED = "deleted in the cloud"
    REPORTED = "reports another temperature"
    ONLINE = "reports that it is online"
    OFFLINE = "reports that it is offline"
    MODEL = "the model of all devices forbids (0) or allows (1) desired values"


class DeviceStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event of a device."""

    at: float
    name: str
    action: DeviceAction
    node: int = 0
    value: int = 0
    """The desired value; of a model, whether it allows one."""

    def __str__(self) -> str:
        value = f" {self.value}" if self.action in (DeviceAction.DESIRED, DeviceAction.MODEL) else ""
        return f"{self.at:8.3f} node-{self.node} {self.name}: {self.action.value}{value}"


class ServiceStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change of a Service that nodes follow."""

    at: float
    on: tuple[int, ...]
    """Numbers of the nodes with an endpoint; one of them may not exist."""
    is_ranged: bool = False
    """Whether it keeps to node groups."""
    name: str = "shop"
    without: tuple[str, ...] = ()
    """The kinds of its objects that are deleted, until the next step makes them again."""

    def __str__(self) -> str:
        if self.without:
            return f"{self.at:8.3f} Service {self.name} loses its {', '.join(self.without)}"
        where = ", ".join(f"node-{number}" for number in self.on) or "no node"
        return (
            f"{self.at:8.3f} Service {self.name} has endpoints on {where}"
            + " and keeps to node groups" * self.is_ranged
        )


class Plan(msgspec.Struct, frozen=True):
    """One run."""

    seed: int
    """Decides everything that is not in the plan: order, latencies, jitter."""
    nodes: int
    seconds: float
    """Duration of faults and changes; then the nodes have to converge."""
    steps: tuple[WorkloadStep, ...]
    faults: tuple[Fault, ...]
    uploads: float = 0.0
    """Seconds between two uploads of a node, as of devices, or 0."""
    publications: tuple[float, ...] = ()
    """Times when an application of each node with devices publishes a message for the cloud."""
    writes: tuple[Write, ...] = ()
    first_version: int = 0
    """Version of the cloud's first object; 0 for the seconds since 1970, whose number of digits no run changes."""
    cluster: bool = False
    """Whether cloudcore works with the API server of a cluster, a process of its own."""
    paired: bool = False
    """Whether there may be two cloudcores, each with an embedded API server, with one database."""
    watchers: bool = False
    """Whether there are clients that watch objects as client-go does, over HTTP."""
    keeps_state: bool = False
    """Whether cloudcore keeps its state of nodes in that cluster, and has no database."""
    hostile: float = 0.0
    """Seconds between two messages of a hostile node; 0 for no such node."""
    streams: bool = False
    """Whether there are stream tunnels, and users who follow logs of the nodes."""
    compares_sizes: bool = False
    """Whether in the end all nodes restart, and what they kept in memory is compared with what they keep then."""
    devices: tuple[DeviceStep, ...] = ()
    """Events of devices; without any, no module of devices runs."""
    rollouts: tuple[RolloutStep, ...] = ()
    """Changes of workloads with controllers; without any, the controllers do not run."""
    services: tuple[ServiceStep, ...] = ()
    """Changes of Services that nodes follow; without any, none follows Services."""
