"""The statuses that a Job may have, and which may follow one another."""

import json
from pathlib import Path
from typing import Any

import pytest

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.strategic_merge import merge_json
from modules.apimachinery.validation.causes import Causes
from modules.apimachinery.validation.job_statuses import job_status

_ANSWERS: dict[str, Any] = json.loads(Path(__file__).with_name("job_statuses.json").read_text())
"""The specs of Jobs, and for each of their lives the merge patches of its status with what kube-apiserver 1.32.13
refused them with; "" for one that it took.
"""
_DEFAULTS: JsonObject = {"completions": 1, "parallelism": 1}


def told(causes: Causes) -> str:
    """Return the causes as a refusal says them."""
    texts = [*dict.fromkeys(map(str, causes))]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""


@pytest.mark.parametrize(
    ("spec", "life"),
    [(_ANSWERS["specs"][spec], life) for spec, life in _ANSWERS["lives"]],
    ids=range(len(_ANSWERS["lives"])),
)
def test_a_jobs_status_is_judged_as_in_kubernetes(spec: JsonObject, life: list[tuple[JsonObject, str]]) -> None:
    job: JsonObject = {"spec": {**_DEFAULTS, **spec}, "status": {}}
    for patch, refusal in life:
        found = Causes()
        changed = {**job, "status": merge_json(job["status"], patch)}
        job_status(changed, job, found)
        assert told(found) == refusal
        job = job if found else changed


def test_a_job_that_goes_on_starts_anew() -> None:
    """kube-apiserver 1.32.13 took it, too."""
    suspended = {"conditions": [{"type": "Suspended", "status": "True"}], "startTime": "2026-01-01T00:00:00Z"}
    resumed = {"conditions": [{"type": "Suspended", "status": "False"}], "startTime": "2026-01-02T00:00:00Z"}
    found = Causes()
    job_status({"spec": _DEFAULTS, "status": resumed}, {"spec": _DEFAULTS, "status": suspended}, found)
    assert told(found) == ""


def test_a_counter_that_is_removed_has_decreased() -> None:
    found = Causes()
    job_status({"spec": _DEFAULTS, "status": {}}, {"spec": _DEFAULTS, "status": {"failed": 1}}, found)
    assert told(found) == "status.failed: Invalid value: 0: cannot decrease the failed counter"
