"""Derives the modules' settings from the configuration file."""

from pathlib import Path

from beehive.node_namespaces import delegated_controllers
from edged.eviction_api.thresholds import EvictionSettings, parse_thresholds
from edged.settings import EdgedSettings, PullLimits
from edged.settings.cgroups import CgroupDriver, CgroupSettings, Reservation
from edged.settings.gc import ContainerPolicy, GcSettings, ImagePolicy, LogPolicy
from edged.shutdown.plan import groups
from edgehub.certificates.settings import CertificateSettings
from edgehub.settings import EdgeHubSettings
from metamanager.module import MetaSettings
from modules.edge.devicetwin.changes import Rules
from modules.edge.devicetwin.module import TwinSettings
from modules.edge.taskmanager.module import TaskManagerSettings
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.kubelet import TailoredKubeletConfig
from modules.processes.edgecore.rootless import is_rootless


def edged_settings(config: EdgeCoreConfig) -> EdgedSettings:
    """Return edged's settings."""
    edged = config.modules.edged
    kubelet = edged.tailored_kubelet_config
    return EdgedSettings(
        node_name=config.node_name,
        root=edged.root_directory,
        pod_logs=kubelet.pod_logs_dir,
        runtime_endpoint=config.runtime_endpoint,
        image_endpoint=config.image_endpoint,
        request_timeout=kubelet.runtime_request_timeout,
        register_node=kubelet.register_node,
        register_schedulable=edged.register_schedulable,
        node_ip=edged.node_ip,
        node_labels=edged.node_labels,
        node_taints=kubelet.register_with_taints,
        max_pods=kubelet.max_pods,
        event_rate=kubelet.event_record_qps,
        event_burst=kubelet.event_burst,
        pulls=_pull_limits(kubelet),
        node_status_max_images=kubelet.node_status_max_images,
        workers=edged.workers,
        relist_period=edged.pleg_relist_period,
        relist_period_with_events=edged.pleg_relist_period_with_events,
        resync_period=kubelet.sync_frequency,
        has_service_proxy=_has_mesh(config),
        has_stream_tunnel=config.modules.edge_stream.enable,
        status_period=kubelet.node_status_update_frequency,
        node_report_period=kubelet.node_status_report_frequency,
        lease_duration=kubelet.node_lease_duration_seconds,
        crash_loop_limit=kubelet.crash_loop_back_off.max_container_restart_period,
        gc=_gc_settings(config),
        eviction=_eviction_settings(kubelet),
        shutdown=groups(
            int(kubelet.shutdown_grace_period),
            int(kubelet.shutdown_grace_period_critical_pods),
            kubelet.shutdown_grace_period_by_pod_priority,
        ),
        static_pods=Path(kubelet.static_pod_path) if kubelet.static_pod_path else None,
        cgroups=_cgroup_settings(config),
        cpu_quota=kubelet.cpu_cfs_quota,
        cpu_quota_period=kubelet.cpu_cfs_quota_period,
        seccomp_default=kubelet.seccomp_default,
        allowed_unsafe_sysctls=kubelet.allowed_unsafe_sysctls,
        cluster_dns=kubelet.cluster_dns or _own_name_server(config),
        cluster_domain=kubelet.cluster_domain,
        resolv_conf=kubelet.resolv_conf,
        server_port=kubelet.read_only_port,
    )


def _has_mesh(config: EdgeCoreConfig) -> bool:
    return config.modules.edge_mesh.enable and config.modules.meta_manager.enable


def _own_name_server(config: EdgeCoreConfig) -> tuple[str, ...]:
    """Return the address of edgemesh's name server, whether or not it runs yet; empty without one."""
    mesh = config.modules.edge_mesh
    return (mesh.dns_address,) if _has_mesh(config) and mesh.dns else ()


def _pull_limits(kubelet: TailoredKubeletConfig) -> PullLimits:
    return PullLimits(
        parallel=1 if kubelet.serialize_image_pulls else kubelet.max_parallel_image_pulls,
        rate=kubelet.registry_pull_qps,
        burst=kubelet.registry_burst,
    )


def _eviction_settings(kubelet: TailoredKubeletConfig) -> EvictionSettings:
    return EvictionSettings(
        thresholds=parse_thresholds(
            kubelet.eviction_hard,
            kubelet.eviction_soft,
            kubelet.eviction_soft_grace_period,
            kubelet.eviction_minimum_reclaim,
        ),
        longest_grace=kubelet.eviction_max_pod_grace_period,
        transition=kubelet.eviction_pressure_transition_period,
    )


def _cgroup_settings(config: EdgeCoreConfig) -> CgroupSettings:
    """Return the cgroups' settings; containers that are processes have none of their own, an ordinary user's only below
    what is delegated to the node.
    """
    kubelet, rootless = config.modules.edged.tailored_kubelet_config, is_rootless(config)
    has_groups = not config.uses_process_runtime and (not rootless or bool(delegated_controllers()))
    return CgroupSettings(
        per_qos=kubelet.cgroups_per_qos and has_groups,
        driver=CgroupDriver.CGROUPFS if rootless else kubelet.cgroup_driver,
        root=kubelet.cgroup_root or "/",
        pids=kubelet.pod_pids_limit,
        enforce=kubelet.enforce_node_allocatable,
        kube_reserved=Reservation(kubelet.kube_reserved, kubelet.kube_reserved_cgroup),
        system_reserved=Reservation(kubelet.system_reserved, kubelet.system_reserved_cgroup),
    )


def _gc_settings(config: EdgeCoreConfig) -> GcSettings:
    """Return the garbage collection's settings; images of the runtime of processes take no room."""
    edged = config.modules.edged
    kubelet = edged.tailored_kubelet_config
    images = ImagePolicy(
        high=kubelet.image_gc_high_threshold_percent,
        low=kubelet.image_gc_low_threshold_percent,
        minimum_age=kubelet.image_minimum_gc_age,
        maximum_age=kubelet.image_maximum_gc_age,
    )
    return GcSettings(
        containers=ContainerPolicy(
            minimum_age=edged.minimum_gc_age,
            per_pod=edged.max_per_pod_container_count,
            total=edged.max_container_count,
        ),
        images=None if config.uses_process_runtime else images,
        logs=LogPolicy(
            size=kubelet.container_log_max_size,
            files=kubelet.container_log_max_files,
            period=kubelet.container_log_monitor_interval,
        ),
    )


def meta_settings(config: EdgeCoreConfig) -> MetaSettings:
    """Return metamanager's settings."""
    return MetaSettings(
        data_source=str(config.database_url),
        remote_query_timeout=config.modules.meta_manager.remote_query_timeout,
        report_events=config.modules.edged.report_event,
        node=config.node_name,
    )


def twin_settings(config: EdgeCoreConfig) -> TwinSettings:
    """Return devicetwin's settings."""
    twin = config.modules.device_twin
    rules = Rules(like_kubeedge=twin.like_kube_edge)
    return TwinSettings(
        config.node_name, mqtt=config.modules.event_bus.enable, mappers=twin.enable_mappers, rules=rules
    )


def task_settings(config: EdgeCoreConfig) -> TaskManagerSettings:
    """Return taskmanager's settings."""
    tasks = config.modules.task_manager
    return TaskManagerSettings(config.node_name, tasks.allowed_jobs if tasks.enable else (), tasks.allowed_keys)


def edgehub_settings(config: EdgeCoreConfig) -> EdgeHubSettings:
    """Return edgehub's settings."""
    hub = config.modules.edge_hub
    socket = hub.websocket
    return EdgeHubSettings(
        url=config.websocket_urls[0],
        other_urls=config.websocket_urls[1:],
        node=config.node_name,
        project=hub.project_id,
        heartbeat=hub.heartbeat,
        handshake_timeout=socket.handshake_timeout,
        read_deadline=socket.read_deadline,
        write_deadline=socket.write_deadline,
        max_frame_bytes=hub.max_frame_bytes,
        compression=hub.compression,
        message_qps=hub.message_qps,
        message_burst=hub.message_burst,
    )


def certificate_settings(config: EdgeCoreConfig) -> CertificateSettings | None:
    """Return the settings of the node's certificate; None for a link without TLS."""
    if not config.websocket_url.startswith("wss:"):
        return None
    hub = config.modules.edge_hub
    return CertificateSettings(
        node=config.node_name,
        server=hub.http_server,
        authority=str(hub.tls_ca_file),
        certificate=str(hub.tls_cert_file),
        key=str(hub.tls_private_key_file),
        token=str(hub.token),
        rotate=hub.rotate_certificates,
    )
