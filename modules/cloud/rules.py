"""The custom resources of rules (KubeEdge's `rules.kubeedge.io`)."""

from typing import Final

from modules.apimachinery.kinds import Kind

RULES_API_VERSION: Final = "rules.kubeedge.io/v1"
RULE: Final = Kind("Rule", RULES_API_VERSION, "rules", counts_generations=True, is_custom=True)
RULE_ENDPOINT: Final = Kind(
    "RuleEndpoint", RULES_API_VERSION, "ruleendpoints", short_names=("re",), counts_generations=True, is_custom=True
)
