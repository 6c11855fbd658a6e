"""The names of KubeEdge's message model: operations, resource types, modules, groups and sources.

They are `str` enums because the wire is open: a peer may use an operation or a type that is not listed here, and
such a message must still be routed, stored and forwarded. The values are KubeEdge's, from its message model and module
tables of 2026 (docs/protocol.md, "Resource types", "Operations" and "Modules and sources").
"""

from enum import StrEnum


class Operation(StrEnum):
    """`route.operation`."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    QUERY = "query"
    RESPONSE = "response"
    ERROR = "error"
    PATCH = "patch"
    UPLOAD = "upload"
    KEEPALIVE = "keepalive"
    CONNECT = "connect"
    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    UNSUBSCRIBE = "unsubscribe"
    MESSAGE = "message"
    START = "start"
    STOP = "stop"
    GET_RESULT = "get_result"
    DETAIL_RESULT = "detail_result"
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    CREATE_VOLUME = "createvolume"
    DELETE_VOLUME = "deletevolume"
    CONTROLLER_PUBLISH_VOLUME = "controllerpublishvolume"
    CONTROLLER_UNPUBLISH_VOLUME = "controllerunpublishvolume"
    APPLICATION_RESPONSE = "applicationResponse"
    UNHOLD_UPGRADE = "unhold-upgrade"
    NODE_ACTION_STATUS = "UpdateNodeActionStatus"


class ResourceType(StrEnum):
    """The type token of a resource string."""

    POD = "pod"
    PODLIST = "podlist"
    PODSTATUS = "podstatus"
    PODPATCH = "podpatch"
    CONFIGMAP = "configmap"
    SECRET = "secret"  # noqa: S105 - a resource type, not a password
    NODE = "node"
    NODESTATUS = "nodestatus"
    NODEPATCH = "nodepatch"
    SERVICE = "service"
    SERVICELIST = "servicelist"
    ENDPOINTS = "endpoints"
    ENDPOINTSLIST = "endpointslist"
    ENDPOINTSLICE = "endpointslice"
    PERSISTENT_VOLUME = "persistentvolume"
    PERSISTENT_VOLUME_CLAIM = "persistentvolumeclaim"
    VOLUME_ATTACHMENT = "volumeattachment"
    VOLUME = "volume"
    CSI_DRIVER = "csidriver"
    LEASE = "lease"
    SERVICE_ACCOUNT_TOKEN = "serviceaccounttoken"  # noqa: S105
    SERVICE_ACCOUNT_ACCESS = "serviceaccountaccess"
    CERTIFICATE_SIGNING_REQUEST = "certificatesigningrequest"
    EVENT = "event"
    MEMBERSHIP = "membership"
    TWIN = "twin"
    DEVICE = "device"
    DEVICE_MODEL = "devicemodel"
    DEVICE_MAPPER = "devicemapper"
    DEVICE_TWIN = "devicetwin"
    """Not KubeEdge's, and never on the wire: a device as devicetwin keeps it in the node's store."""
    MQTT_TOPICS = "mqtttopics"
    """Not KubeEdge's, and never on the wire: the cloud's subscriptions at the node's broker."""
    TARGET_URLS = "targeturls"
    """Not KubeEdge's, and never on the wire: the URLs of the cloud's rules that applications may call."""
    NODE_TASK = "nodetask"
    """Not KubeEdge's, and never on the wire: the job that the node's taskmanager carries out."""
    NAMESPACE = "namespace"
    DESTINATION_RULE = "destinationrule"
    """Istio's, as are the next two: KubeEdge's edgemesh-agent reads them."""
    GATEWAY = "gateway"
    VIRTUAL_SERVICE = "virtualservice"
    RULE = "rule"
    RULE_ENDPOINT = "ruleendpoint"
    RULE_STATUS = "rulestatus"
    CONNECTION = "connection"
    SHUTDOWN = "shutdown"
    """Not KubeEdge's, and never on the wire: whether the machine is about to shut down."""
    REGISTRATION = "registration"
    """Not KubeEdge's, and never on the wire: the cloud has confirmed the Node object."""
    DISK = "disk"
    """Not KubeEdge's, and never on the wire: the database found the disk full."""
    CA_CERTIFICATE = "ca.crt"
    STORE = "store"
    """Not KubeEdge's, and never on the wire: the state of the node's own store."""


class ModuleName(StrEnum):
    """Names of modules; each is also the `route.source` of the messages that the module sends."""

    EDGEHUB = "websocket"
    METAMANAGER = "metamanager"
    EDGED = "edged"
    EVENTBUS = "eventbus"
    SERVICEBUS = "servicebus"
    EDGEMESH = "edgemesh"
    DEVICETWIN = "twin"
    DMI = "dmi"
    """Not KubeEdge's, where devicetwin does this: the mappers of the node's devices."""
    EDGESTREAM = "edgestream"
    TASKMANAGER = "taskmanager"
    METASERVER = "metaserver"
    TESTMANAGER = "testManager"
    CLOUDHUB = "cloudhub"
    CLOUDSTREAM = "cloudStream"
    EDGECONTROLLER = "edgecontroller"
    DEVICECONTROLLER = "devicecontroller"
    SYNCCONTROLLER = "synccontroller"
    DYNAMICCONTROLLER = "dynamiccontroller"
    POLICYCONTROLLER = "policycontroller"
    ROUTER = "router"


class Group(StrEnum):
    """Names of groups of modules (`hub`, `meta`, …), and of groups on the wire (`resource`, `user`, …)."""

    HUB = "hub"
    META = "meta"
    EDGED = "edged"
    BUS = "bus"
    TWIN = "twin"
    MESH = "mesh"
    EDGESTREAM = "edgestream"
    TASKMANAGER = "taskmanager"
    METASERVER = "metaserver"
    RESOURCE = "resource"
    FUNC = "func"
    USER = "user"
    CLOUDHUB = "cloudhub"
    CLOUDSTREAM = "cloudStream"
    EDGECONTROLLER = "edgecontroller"
    DEVICECONTROLLER = "devicecontroller"
    DYNAMICCONTROLLER = "dynamiccontroller"
    ROUTER = "router"


class Source(StrEnum):
    """`route.source` values that name no module of ours but are compared literally (docs/protocol.md, "Modules and
    sources").
    """

    EDGEHUB = "edgehub"
    BUS = "bus"
    META = "meta"
    ROUTER_EVENTBUS = "router_eventbus"
    ROUTER_SERVICEBUS = "router_servicebus"
    ROUTER_REST = "router_rest"
    EDGE_MANAGER = "edgemgr"
    CSI_DRIVER = "csidriver"
    NODE_UPGRADE_JOB_CONTROLLER = "nodeupgradejobcontroller"


CLOUD_CONNECTED = "cloud_connected"
"""Content of the `node/connection` event when the link to the cloud is up."""

CLOUD_DISCONNECTED = "cloud_disconnected"
"""Content of the `node/connection` event when it is down."""

CONNECTION_RESOURCE = "node/connection"
"""Resource of the connection event inside the edge (docs/protocol.md, "Connection events on the edge")."""

DISK_RESOURCE = "node/disk"
"""Resource of metamanager's event that its database found the disk full, so that edged checks the disk immediately."""
REGISTRATION_RESOURCE = "node/registration"
"""Resource of edged's event that the cloud has confirmed the Node object, once for each connection."""
SHUTDOWN_RESOURCE = "node/shutdown"
"""Resource of the event whether the machine is about to shut down; its content is `true` or `false`."""

OK = "OK"
"""Content of an acknowledgement."""
