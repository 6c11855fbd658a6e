"""Admission of Rules at the embedded API server: a Rule keeps its age, so it must keep the URL that goes by it."""

from typing import Final

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.unvalidated import as_object
from modules.apimachinery.validation.causes import Cause, invalid
from modules.cloud.apiextensions.admission import CustomAdmission, Find
from modules.cloud.rules import RULE

_CLAIM: Final = ("target_url", "node_name")
_WHY: Final = "the oldest Rule has a URL, so it cannot be changed: delete the Rule, and create it with another"


def rule_causes(new: JsonObject, live: JsonObject | None, _find: Find) -> list[Cause]:
    """Return the rules that a requested Rule breaks: an old Rule could be given a URL that a younger one has."""
    if live is None:
        return []
    asked, had = (as_object(as_object(each.get("spec")).get("sourceResource")) for each in (new, live))
    changed = [name for name in _CLAIM if asked.get(name) != had.get(name)]
    if not changed or not asked.get("target_url"):
        return []
    return [invalid(f"spec.sourceResource.{changed[0]}", asked.get(changed[0]), _WHY)]


ADMISSIONS: Final[dict[str, CustomAdmission]] = {RULE.key_name: rule_causes}
"""The admission of Rules, for the embedded API server."""
