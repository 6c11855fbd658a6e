"""The embedded API server in the process of cloudcore."""

from typing import TYPE_CHECKING

from beehive.hive import Hive
from beehive.turns import Turns
from modules.cloud import api_messages
from modules.cloud.apiserver.admission.chain import PLUGINS, PLUGINS_WITH_TOKENS
from modules.cloud.apiserver.admission.namespace_room import room_of_namespaces
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.completeness import Completeness
from modules.cloud.apiserver.embedded_kube_api import EmbeddedKubeApi
from modules.cloud.apiserver.kubernetes_service import KubernetesService
from modules.cloud.apiserver.manifest_directory import ManifestDirectory
from modules.cloud.apiserver.module import ApiServer
from modules.cloud.apiserver.pod_scheduler import Scheduling
from modules.cloud.apiserver.reconcilers import ControlPlane
from modules.cloud.apiserver.service_addresses import service_ranges
from modules.cloud.apiserver.tokens.issuer import TokenIssuer
from modules.cloud.apiserver.tokens.verification import RefusesTokens
from modules.cloud.authorization.rbac.index import RbacIndex
from modules.cloud.controllers.application_definitions import ADMISSIONS as APPLICATION_ADMISSIONS
from modules.cloud.controllers.application_definitions import definitions as application_definitions
from modules.cloud.controllers.module import Controllers
from modules.cloud.controllers.work_meter import WorkMeter
from modules.cloud.coordination.known_cloudcores import KnownCloudcores
from modules.cloud.devicecontroller.admission import ADMISSIONS
from modules.cloud.devicecontroller.definitions import definitions as device_definitions
from modules.cloud.devices import DEVICE_STATUS
from modules.cloud.edgecontroller.cluster.remote_cluster import RemoteCluster
from modules.cloud.fleet_counts import FleetCounts
from modules.cloud.router.admission import ADMISSIONS as RULE_ADMISSIONS
from modules.cloud.router.definitions import definitions as rule_definitions
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.database.room import Room
from modules.cloud.storage.object_storage import Storage
from modules.cloud.taskmanager.definitions import definitions as job_definitions
from modules.processes.cloudcore.config import CloudCoreConfig
from modules.processes.cloudcore.counters import Counters

if TYPE_CHECKING:
    from modules.cloud.cloudhub.certificates.authority import Authority


class EmbeddedApiServer:
    """The module apiserver of a hive, added before the modules that are its clients, and the controllers.

    Args:
        hive: of cloudcore.
        config: settings.
        known: the live cloudcores that share the database.
        counters: of its requests and its transactions, and of refused requests of nodes.
        turn: held during transactions, by all users of the database.
        room: on the database's disk, for all of them.
        authority: signs certificate requests of clients, and is the one of pods with tokens for the API server; None:
            there is none.
        service: where pods reach the API server; None: nowhere.
        refuses: tokens of a node's pods.

    Raises:
        DatabaseError: the database cannot be used.
    """

    def __init__(
        self,
        hive: Hive,
        config: CloudCoreConfig,
        known: KnownCloudcores,
        counters: Counters,
        *,
        turn: Turns,
        room: Room,
        authority: "Authority | None",
        service: KubernetesService | None,
        refuses: RefusesTokens,
    ) -> None:
        clock = hive.clock
        has_tokens = config.secure_port is not None and config.tokens.mounted
        pem = authority.pem if authority is not None and has_tokens else ""
        meter = counters.meter(api_messages.MODULE, clock)
        self.database = Database(config.database_url, known.own, turn=turn, meter=meter, room=room)
        """Has the objects."""
        ranges = service_ranges(config.service_cluster_ip_range, config.service_node_port_range)
        cluster = Cluster(
            clock,
            Scheduling(config.default_node, is_enabled=config.scheduler == "embedded"),
            Storage(clock, int(clock.now()) if self.database.is_new else 1),
            admissions={**ADMISSIONS, **APPLICATION_ADMISSIONS, **RULE_ADMISSIONS},
            service_ranges=ranges,
            plugins=PLUGINS_WITH_TOKENS if pem else PLUGINS,
            tokens=TokenIssuer(self.database, config.tokens, refuses),
            room=room_of_namespaces(config.node_limit),
            takes_validations=config.store_unevaluated_validations,
        )
        manifests = ManifestDirectory(config.manifests_dir, cluster) if config.manifests_dir else None
        completeness = Completeness(self.database, manifests, cluster.storage)
        api = EmbeddedKubeApi(hive, clock)
        self.cluster = RemoteCluster(
            api.connect,
            knows_all=lambda: completeness.knows_all,
            known_since=lambda: completeness.known_since,
            is_embedded=True,
            counters=counters.api,
        )
        """It, as its clients in this process reach it."""
        self.subscriptions = api.subscriptions
        """To its changes."""
        self.rbac = RbacIndex()
        """The roles and bindings."""
        counters.fleet = FleetCounts(clock, DEVICE_STATUS)
        definitions = [*device_definitions(), *rule_definitions(), *application_definitions(), *job_definitions()]
        parts = cluster, self.database, manifests, counters.refusals, api.subscriptions
        has_controllers = config.controllers == "embedded"
        control_plane = ControlPlane((config.lease.namespace,), definitions, pem, service, collects=has_controllers)
        hive.add(
            ApiServer,
            *parts,
            failures=counters.reconcilers,
            index=self.rbac,
            fleet=counters.fleet,
            control_plane=control_plane,
            is_alone=lambda: known.is_alone,
        )
        if has_controllers:
            counters.work = WorkMeter(clock)
            hive.add(
                Controllers,
                api.subscriptions,
                known,
                counters.work,
                may_be_several=self.database.shared,
                sign=authority.sign_client if authority is not None else None,
            )
