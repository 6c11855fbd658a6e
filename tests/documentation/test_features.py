"""The features that Kubernetes 1.30 to 1.32 switch on, by their gates: each is held by a test, or named as left out.

Source: `kubernetes/kubernetes`, pkg/features/kube_features.go and staging/src/k8s.io/apiserver/pkg/features at 1.32; of
them those that a client, a pod or an operator can see.
"""

import re
from typing import Final

import pytest

from tests.documentation.blocks import REPOSITORY

_API: Final = "tests/modules/cloud/apiserver"
_CONTROLLERS: Final = "tests/modules/cloud/controllers"
_RULES: Final = "tests/modules/apimachinery/validation/test_rules.py::test_each_rule_is_reported_at_its_field"
_SPREAD: Final = "test_which_nodes_and_pods_a_topology_spread_constraint_counts"

HELD: Final = {
    "AggregatedDiscoveryEndpoint": f"{_API}/endpoints/test_other_clients.py::test_aggregated_discovery",
    "AppArmor": "tests/edged/admission/test_admit.py::test_a_profile_is_refused_where_the_kernel_has_no_apparmor",
    "AuthorizeNodeWithSelectors": "tests/modules/cloud/authorization/test_attacks.py"
    "::test_a_dry_run_and_a_selector_show_a_node_nothing_of_others",
    "CRDValidationRatcheting": "tests/modules/cloud/apiextensions/test_custom_resources.py"
    "::test_an_object_changes_after_its_definition_became_stricter",
    "CronJobsScheduledAnnotation": f"{_CONTROLLERS}/test_cron_job.py"
    "::test_a_job_has_its_scheduled_time_in_the_zone_of_its_cron_job",
    "CustomResourceFieldSelectors": "tests/modules/cloud/apiextensions/test_custom_resources.py"
    "::test_custom_objects_are_selected_by_the_fields_of_their_definition",
    "DevicePluginCDIDevices": "tests/edged/pods/test_configs.py"
    "::test_settings_for_devices_come_first_and_the_pods_own_win",
    "ElasticIndexedJob": f"{_API}/updates/test_update_rules.py::test_an_update",
    "ImageMaximumGCAge": "tests/edged/gc/test_images.py::test_old_ones_go_although_there_is_room",
    "JobBackoffLimitPerIndex": f"{_CONTROLLERS}/test_job.py::test_each_index_has_its_own_limit_of_failures",
    "JobManagedBy": f"{_CONTROLLERS}/test_job.py::test_a_job_that_another_controller_manages_is_left_to_it",
    "JobPodFailurePolicy": f"{_CONTROLLERS}/test_job.py::test_an_exit_code_fails_the_whole_job",
    "JobPodReplacementPolicy": f"{_CONTROLLERS}/test_job.py"
    "::test_a_pod_of_a_deleted_node_is_replaced_where_only_failed_ones_are_and_its_end_is_a_disruption",
    "JobSuccessPolicy": f"{_CONTROLLERS}/test_job.py::test_a_job_succeeds_by_its_policy",
    "KubeletCgroupDriverFromCRI": "tests/cri_contract/test_runtime_info.py::test_runtime_config",
    "LoadBalancerIPMode": "tests/modules/edge/edgemesh/test_tables.py"
    "::test_the_address_of_a_load_balancer_that_packets_must_pass_is_left_alone",
    "MatchLabelKeysInPodAffinity": f"{_API}/test_scheduler.py"
    "::test_a_rule_is_about_pods_with_the_same_or_another_value_of_a_label",
    "MatchLabelKeysInPodTopologySpread": f"{_API}/test_scheduler.py::{_SPREAD}",
    "MinDomainsInPodTopologySpread": f"{_API}/test_scheduler.py"
    "::test_a_topology_spread_constraint_bounds_the_difference_between_zones",
    "NodeInclusionPolicyInPodTopologySpread": f"{_API}/test_scheduler.py::{_SPREAD}",
    "PDBUnhealthyPodEvictionPolicy": f"{_API}/test_disruption_budgets.py::test_a_pod_that_is_not_ready",
    "PodDisruptionConditions": "tests/edged/pods/test_patch.py"
    "::test_the_nodes_own_disruption_takes_the_place_of_anothers",
    "PodHostIPs": "tests/edged/pods/test_patch.py::test_addresses_of_a_node_are_replaced",
    "PodIndexLabel": f"{_CONTROLLERS}/test_stateful_set.py::test_a_pod_gets_the_labels_of_its_identity_back",
    "PodLifecycleSleepAction": "tests/edged/lifecycle/test_hooked_pods.py"
    "::test_a_container_has_started_only_when_its_hook_is_through",
    "PodReadyToStartContainersCondition": "tests/edged/pods/test_status.py::test_conditions_of_a_new_pod",
    "PodSchedulingReadiness": f"{_API}/test_cluster.py::test_a_pod_with_gates_waits_until_they_are_removed",
    "PortForwardWebsockets": "tests/modules/runtimes/streaming/test_port_streams.py"
    "::test_a_broken_port_forward_is_reported",
    "RecursiveReadOnlyMounts": "tests/cri_contract/test_mounts.py::test_recursively_read_only",
    "RelaxedEnvironmentVariableValidation": _RULES,
    "RetryGenerateName": f"{_API}/test_api_calls.py::test_a_generated_name_that_is_taken_is_tried_again",
    "ServiceAccountTokenJTI": f"{_API}/tokens/test_verification.py::test_a_token_is_its_accounts_user",
    "ServiceAccountTokenNodeBinding": f"{_API}/tokens/test_issuer.py::test_a_token_is_bound_to_a_secret_or_a_node",
    "ServiceAccountTokenPodNodeInfo": f"{_API}/tokens/test_issuer.py::test_a_token_of_a_pod_has_kubernetes_claims",
    "ServiceTrafficDistribution": f"{_CONTROLLERS}/test_service.py::test_an_endpoint_has_all_fields_that_proxies_read",
    "SidecarContainers": "tests/edged/lifecycle/test_ending_pods.py"
    "::test_sidecars_are_stopped_after_the_others_in_reverse_order",
    "SizeMemoryBackedVolumes": "tests/edged/volumes/test_memory.py"
    "::test_memory_is_mounted_once_with_its_size_and_gone_with_the_pod",
    "StatefulSetAutoDeletePVC": f"{_CONTROLLERS}/test_stateful_set.py"
    "::test_claims_have_the_owners_with_which_they_are_to_go",
    "StatefulSetStartOrdinal": f"{_CONTROLLERS}/test_stateful_set.py"
    "::test_a_partition_counts_from_the_first_ordinal_and_the_rollout_ends_with_the_last_ready_pod",
    "TranslateStreamCloseWebsocketRequests": "tests/modules/runtimes/streaming/test_server.py"
    "::test_versions_of_web_socket",
    "WatchList": f"{_API}/endpoints/test_service.py"
    "::test_a_watch_of_no_version_begins_with_the_present_objects_and_says_so",
}
"""A test for each gate that is held."""

LEFT_OUT: Final = frozenset(
    {
        "AdmissionWebhookMatchConditions",
        "AnonymousAuthConfigurableEndpoints",
        "APIServerTracing",
        "ComponentSLIs",
        "ContainerCheckpoint",
        "CustomResourceValidationExpressions",
        "HPAContainerMetrics",
        "KubeletTracing",
        "LegacyServiceAccountTokenCleanUp",
        "NodeSwap",
        "PersistentVolumeLastPhaseTransitionTime",
        "RecoverVolumeExpansionFailure",
        "StructuredAuthenticationConfiguration",
        "StructuredAuthorizationConfiguration",
        "ValidatingAdmissionPolicy",
    }
)


def test_the_page_names_what_is_left_out_and_counts_what_is_held() -> None:
    page = (REPOSITORY / "docs" / "conformance.md").read_text()
    section = page.split("\n## Features of 1.30 to 1.32\n")[1].split("\n## ")[0]
    assert set(re.findall(r"`([A-Z]\w+)`", section)) == LEFT_OUT
    assert f"{len(HELD)} features are held" in " ".join(section.split())


@pytest.mark.parametrize("feature", HELD)
def test_a_feature_is_held_by_a_test(feature: str) -> None:
    path, _, name = HELD[feature].partition("::")
    assert f"\ndef {name}(" in (REPOSITORY / path).read_text()
