"""What happens in one simulated run, as plain data: so that it can be printed, made smaller, and run again."""

from enum import StrEnum

import msgspec


class FaultKind(StrEnum):
    """What goes wrong."""

    CUT = "link cut"
    """The connection breaks, what is under way is lost, and dialling fails for a while."""
    HALF_OPEN = "link half open"
    """Nothing arrives either way; each end finds out by itself."""
    DEAF = "nothing reaches the cloud"
    MUTE = "nothing reaches the node"
    DELAY = "slow link"
    DUPLICATE = "frames from the cloud come twice"
    REORDER = "answers of the cloud are overtaken"
    """Answers and objects are written by two loops of a real cloudcore: between those two there is no order."""
    LATE_ANSWERS = "the cloud answers late"
    """Its API server is slow: perhaps so slow that nobody waits any more."""
    NO_ANSWERS = "the cloud does not answer"
    """A real cloudcore only logs a request that it could not carry out."""
    ROAM = "the node gets another address"
    """Its connection is gone at once, and the next is made; the cloud finds out about the old one later."""
    CLOUD_RESTART = "cloud restarts with its objects"
    CLOUD_AMNESIA = "cloud restarts without its objects"
    """They are made anew from their manifests, with other uids."""
    KILL = "process killed"
    """Between any two steps; the store is what was on the disk at that moment."""
    RESTART = "process stopped and started"
    REBOOT = "machine rebooted"
    DISK_FULL = "disk full"
    STORE_LOCKED = "store locked"
    STORE_LOST = "store lost"
    """The process is killed, and the database is gone when it is started again."""
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
    IMAGES_MISSING = "images are gone and cannot be pulled"
    CLOCK_JUMP = "the wall clock jumps"


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """One fault."""

    at: float
    """Virtual seconds after the beginning."""
    kind: FaultKind
    node: int = 0
    seconds: float = 0.0
    """How long it lasts."""
    amount: float = 0.0
    """How much of it: latency in seconds, a share of calls, steps to go on before the kill, seconds of a jump."""

    def __str__(self) -> str:
        text = f"{self.at:8.3f} node-{self.node} {self.kind.value}"
        text += f" for {self.seconds:.3f} s" if self.seconds else ""
        return text + (f" ({self.amount:g})" if self.amount else "")


class Shape(StrEnum):
    """What an object of the workload is."""

    PLAIN = "runs for ever"
    CRASHES = "ends with an error after a while, again and again"
    COMPLETES = "ends well after a while"
    FAILS_ONCE = "ends with an error and is not started again"
    INIT = "two init containers before it"
    TWO = "two containers"
    MOUNTS = "mounts a configmap and a secret"
    CONFIGMAP = "configmap"
    SECRET = "secret"  # noqa: S105 - the kind of object
    STATIC = "static pod"
    """A file on the node, of a pod that takes its time to end; the same file again is a pod of the same uid."""


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change of what is wanted."""

    at: float
    name: str
    shape: Shape
    node: int = 0
    revision: int = 1
    """Of its content; 0 deletes it. A deleted one that is wanted again is another object of the same name."""

    def __str__(self) -> str:
        what = f"revision {self.revision}" if self.revision else "deleted"
        return f"{self.at:8.3f} node-{self.node} {self.name} ({self.shape.value}): {what}"


class Writer(StrEnum):
    """Who beside the node and its people writes into the cloud's objects."""

    LABEL = "somebody labels the pod"
    ANNOTATION = "somebody annotates the pod"
    NOT_READY = "the node controller marks the pod as not ready"
    NODE_LOST = "the node controller says why the pod is not ready"
    ADDRESS = "somebody writes another address into the pod's status"
    GATE = "a controller sets a condition of its own"
    NODE_LABEL = "somebody labels the node"
    NODE_UNKNOWN = "the node controller has not heard of the node"
    NODE_DELETED = "somebody deletes the node"


class Write(msgspec.Struct, frozen=True):
    """One change of a pod, or of a Node object, that is not its owner's."""

    at: float
    name: str
    writer: Writer
    number: int = 0
    """Makes what is written another thing each time."""

    def __str__(self) -> str:
        return f"{self.at:8.3f} cloud  {self.name}: {self.writer.value} ({self.number})"


class Plan(msgspec.Struct, frozen=True):
    """One run."""

    seed: int
    """Of everything that the plan does not say: who is next, latencies, jitter."""
    nodes: int
    seconds: float
    """Until the last fault has ended and the workload has come to rest; then the nodes have to converge."""
    steps: tuple[Step, ...]
    faults: tuple[Fault, ...]
    uploads: float = 0.0
    """Seconds from one upload of a node to its next (what devices say); 0: there are none."""
    writes: tuple[Write, ...] = ()
    first_version: int = 0
    """Of the cloud's first object; 0: seconds since 1970, which no run brings to another number of digits."""
    hostile: float = 0.0
    """Seconds from one message of a hostile node, which is there beside them, to its next; 0: there is none."""
