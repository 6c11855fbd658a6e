"""The parts that the sync loop calls, in groups. All of them are in the layers below it."""

from msgspec import Struct

from edged.admission.admitter import PodAdmitter
from edged.housekeeping import Housekeeping
from edged.node.reporter import NodeReporter
from edged.node_recheck import NodeRecheck
from edged.orphans import Orphans
from edged.pleg.watch import RuntimeWatch
from edged.pod_killer import PodKiller
from edged.pod_store import PodStore
from edged.pod_workers.job_source import JobSource
from edged.pod_workers.requeue import RequeuePolicy
from edged.pod_workers.workers import PodWorkers
from edged.pods.manager import PodManager
from edged.server.snapshots import Snapshots
from edged.static_pods.manager import StaticPodManager
from edged.status.generator import StatusGenerator
from edged.status.manager import StatusManager


class PodSources(Struct, frozen=True):
    """The parts that pods come from, beside the messages of the cloud."""

    store: PodStore
    static_pods: StaticPodManager


class PodParts(Struct, frozen=True):
    """The pods of this node, and the parts that start and stop their containers."""

    manager: PodManager
    orphans: Orphans
    admitter: PodAdmitter
    recheck: NodeRecheck
    workers: PodWorkers
    jobs: JobSource
    requeue: RequeuePolicy
    killer: PodKiller


class StatusParts(Struct, frozen=True):
    """The parts that compute statuses and send them to the cloud."""

    generator: StatusGenerator
    manager: StatusManager


class NodeParts(Struct, frozen=True):
    """The parts that concern the node as a whole."""

    reporter: NodeReporter
    runtime_watch: RuntimeWatch
    housekeeping: Housekeeping
    snapshots: Snapshots
    owner: str
    """Mark of the sandboxes that this agent makes."""
