"""What a kind of runtime does not do of the contract, and why. Each of these tests must fail on it.

By kind, the names of tests (with their parameters) and the reasons.
"""

from __future__ import annotations

from typing import Final

from modules.runtimes.oci.rootless.delegation import undelegated


def _because(reason: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


_USER_NAMESPACES: Final = (
    "test_user_namespace_of_the_machine test_user_namespace_of_the_pod test_shared_processes_in_a_user_namespace "
    "test_a_volume_in_a_user_namespace test_volumes_of_the_image_in_a_user_namespace test_sysctls_in_a_user_namespace"
)
_CONTAINERD: Final = {
    **_because(
        "containerd 1.6 knows CRI before recursive read-only mounts",
        "test_recursively_read_only test_recursively_read_only_refused[host-to-container] "
        "test_recursively_read_only_refused[bidirectional] test_recursively_read_only_refused[writable]",
    ),
    **_because(
        "containerd 1.6 has no image volumes",
        "test_image_volume test_image_volume_in_the_status test_image_volume_of_a_part",
    ),
    **_because(
        "containerd 1.6 has no metrics, no streamed listings, no RuntimeConfig and no events",
        "test_descriptors test_values test_an_interface_with_a_name_of_any_bytes test_a_pod_without_containers "
        "test_streamed_pods test_streamed_containers test_streamed_stats test_streamed_images test_runtime_config "
        "test_events",
    ),
    **_because(
        "containerd 1.6 does not know the policy, nor tells the user in the status",
        "test_supplemental_groups_policy[merge] test_supplemental_groups_policy[strict]",
    ),
    **_because(
        "containerd 1.6 leaves user namespaces out without a word",
        "test_wrong_user_namespaces[two-mappings] test_wrong_user_namespaces[root-not-mapped] "
        "test_wrong_user_namespaces[container] test_wrong_user_namespaces[target]",
    ),
    **_because("containerd 1.6 answers NotFound", "test_pods_twice[StopPodSandbox] test_stop_unknown_container"),
    **_because("containerd 1.6 has no user namespaces", _USER_NAMESPACES),
    **_because(
        "containerd 1.6 speaks WebSocket v4, which cannot end the input",
        "test_exec_with_input_that_ends[websocket] test_attach_ends_with_the_clients_input[websocket]",
    ),
    "test_wrong_limits_before_the_start": "containerd finds them at the start",
    "test_ids_across_calls": "containerd 1.6 has no image_id in containers",
}
_PROCESSES: Final = {
    **_because(
        "images are names: nothing is pulled, read or refused",
        "test_pull_and_remove[tag] test_pull_and_remove[nothing] test_pull_and_remove[digest] "
        "test_a_pull_with_a_deadline test_a_missing_image test_status_by_every_reference test_three_images "
        "test_three_tags test_removal_by_one_tag test_one_image_of_two_registries test_gone_after_removal "
        "test_removals_at_once test_ids_across_registries test_image_volume test_image_volume_in_the_status "
        "test_image_volume_of_a_part test_user[user-uid-1002-] test_user[user-username-None-www-data] "
        "test_user[user-uid-group-1003-] test_user[user-username-group-None-www-data]",
    ),
    **_because("no OCI runtime is told anything", "test_verbose_specification test_verbose_pod_network"),
    "test_verbose_image": "images are names: they have no configuration",
    **_because(
        "images are names: they bring no command, no users and no groups",
        "test_an_image_of_32_bits test_container_attributes test_container_port test_host_port "
        "test_port_forward_of_the_machine "
        "test_network_of_several test_logs_of_several test_commands_in_several test_port_forward "
        "test_no_new_privileges[allowed] test_no_new_privileges[denied] "
        "test_supplemental_groups_policy[merge] test_supplemental_groups_policy[strict]",
    ),
    **_because(
        "containers share the machine's namespaces",
        "test_container_pid test_target_pid test_host_ipc[pod] test_host_network test_hostname test_dns "
        "test_safe_sysctls test_unsafe_sysctls test_wrong_user_namespaces[two-mappings] "
        "test_wrong_user_namespaces[root-not-mapped] test_wrong_user_namespaces[container] "
        "test_wrong_user_namespaces[target]",
    ),
    **_because("containers share the machine's users", _USER_NAMESPACES),
    **_because(
        "containers have all rights of their user",
        "test_add_all_capabilities test_drop_all_capabilities test_drop_capability test_capabilities_of_exec "
        "test_default_filter test_missing_filter test_masked_paths test_privileged_in_a_plain_pod",
    ),
    **_because(
        "there are no control groups",
        "test_out_of_memory test_limits_change_in_place test_limits_change_before_the_start "
        "test_descriptors test_values test_a_pod_without_containers",
    ),
    **_because(
        "mounts are in a namespace that only receives, and not recursively read-only",
        "test_propagation[private] test_propagation[bidirectional] test_recursively_read_only",
    ),
}
_DOCKER: Final = {
    **_because("Docker maps users for all containers of a daemon, or for none", _USER_NAMESPACES),
    **_because(
        "dockershim has no metrics of CRI",
        "test_descriptors test_values test_an_interface_with_a_name_of_any_bytes test_a_pod_without_containers",
    ),
    **_because(
        "Docker mounts no images",
        "test_image_volume test_image_volume_in_the_status test_image_volume_of_a_part "
        "test_image_volume_of_a_missing_part",
    ),
    "test_verbose_specification": "Docker's API does not tell the config.json",
    "test_supplemental_groups_policy[strict]": "Docker adds the groups of the image",
    "test_recursively_read_only": "Docker Engine 20.10 knows API 1.41, they came with 1.44",
    "test_an_image_in_use": "Docker keeps an image while a container has it",
}
_RUNC: Final = _because("user namespaces need crun: runc 1.1 joins none, and has no id-mapped mounts", _USER_NAMESPACES)
_GAP: Final = undelegated()
_UNLIMITED: Final = "" if _GAP is None else f"limits are not enforced: {_GAP.reason}"
_ROOTLESS: Final = {
    **_because("all pods have users of their own, the same ones, and hostUsers: false is refused", _USER_NAMESPACES),
    **_because("hostPID and hostIPC are refused", "test_host_pid test_host_ipc[host]"),
    **_because(
        "pods are in a network that the machine does not see; its ports lead to them",
        "test_container_port test_network_of_several test_a_pod_reaches_the_machine",
    ),
    **_because(
        "the test mounts in the machine's mount namespace, which takes root",
        "test_recursively_read_only test_not_recursively_read_only test_propagation[private] "
        "test_propagation[host-to-container] test_propagation[bidirectional] "
        "test_recursively_read_only_refused[host-to-container] test_recursively_read_only_refused[bidirectional] "
        "test_recursively_read_only_refused[writable]",
    ),
    "test_verbose_pod_network": "the file of the namespace is in the node's mount namespace",
    **({"test_values": "without control groups there are no metrics of them"} if _UNLIMITED else {}),
}
EXCEPTIONS: Final[dict[str, dict[str, str]]] = {
    "oci": {},
    "oci-rootless": _ROOTLESS,
    "runc": _RUNC,
    "docker": _DOCKER,
    "containerd": _CONTAINERD,
    "processes": _PROCESSES,
}

UNSAFE: Final[dict[str, dict[str, str]]] = {
    "oci-rootless": _because(f"{_UNLIMITED}, and the machine's memory would be eaten", "test_out_of_memory")
    if _UNLIMITED
    else {},
    "processes": {
        **_because(
            "the file would be made on the machine",
            "test_root_file_system[writable] test_root_file_system[readonly] test_readonly_paths test_local_filter "
            "test_volumes_of_the_image test_a_mount_in_place_of_a_volume_of_the_image",
        ),
        **_because(
            "the bridge would be the machine's",
            "test_privileged[privileged] test_privileged[plain] test_add_capability "
            "test_an_interface_with_a_name_of_any_bytes",
        ),
        **_because(
            "the hostname would be the machine's",
            "test_no_filter_and_capability test_filter_and_capability test_filter_and_privileged",
        ),
        "test_a_pod_reaches_the_machine": "the gateway is the machine's own, which is somebody else",
    },
}
"""The same for tests that would change the machine itself, as nothing isolates the container: they are not run."""
