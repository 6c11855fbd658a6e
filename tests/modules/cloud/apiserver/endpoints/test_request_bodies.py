"""Bodies of another kind or with fields of another type, as a kube-apiserver 1.32.13 refused them when it was asked the
same; what is no stored object is decoded like one.
"""

import json
from typing import Any

import pytest

from tests.modules.cloud.apiextensions.definition import DEFINITIONS, DEVICES, definition, device
from tests.modules.cloud.apiserver.endpoints.serving import MAPS, PODS, Serving

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
REVIEWS = "/apis/authorization.k8s.io/v1"
SCALE = f"{DEPLOYMENTS}/web/scale"
SELECTOR = {"app": "a"}
TEMPLATE = {"metadata": {"labels": SELECTOR}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
DEPLOYMENT = {
    "kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "web"},
    "spec": {"replicas": 2, "selector": {"matchLabels": SELECTOR}, "template": TEMPLATE},
}  # fmt: skip
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


@pytest.fixture
def api() -> Serving:
    """An API with a Deployment, a ConfigMap, a pod and an account."""
    serving = Serving()
    serving.ask("POST", DEPLOYMENTS, DEPLOYMENT)
    serving.ask("POST", MAPS, {"metadata": {"name": "a"}})
    serving.ask("POST", PODS, {"metadata": {"name": "p"}, "spec": TEMPLATE["spec"]})
    serving.ask("POST", ACCOUNTS, {"metadata": {"name": "sa"}})
    return serving


def told(api: Serving, method: str, path: str, body: Any, media: str = "application/json", **query: str) -> Any:
    """Return the status of an answer, and what it says."""
    reply = api.ask(method, path, body, media, **query)
    return reply.status, json.loads(reply.body).get("message", "")


def unreadable(kind: str, why: str, version: str = "v1") -> tuple[int, str]:
    """Return the refusal of a body that is no object of a kind."""
    return 400, f'{kind} in version "{version}" cannot be handled as a {why}'


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({"spec": {"replicas": "x"}},
         unreadable("Scale", "Scale: json: cannot unmarshal string into Go struct field ScaleSpec.spec.replicas of "
                    "type int32")),
        ({"spec": "x"},
         unreadable("Scale", "Scale: json: cannot unmarshal string into Go struct field Scale.spec of type "
                    "v1.ScaleSpec")),
        ({"kind": "Deployment"},
         unreadable("Deployment", 'Scale: no kind "Deployment" is registered for version "autoscaling/v1"')),
        ({"apiVersion": "autoscaling/v2"},
         unreadable("Scale", 'Scale: no kind "Scale" is registered for version "autoscaling/v2"', "v2")),
        ({"metadata": {"name": "web", "namespace": "other"}},
         (400, "the namespace of the provided object does not match the namespace sent on the request")),
        ({"metadata": {}},
         (400, "the name of the object (web based on URL) was undeterminable: name must be provided")),
    ],
    ids=["number", "spec", "kind", "version", "namespace", "name"],
)  # fmt: skip
def test_a_scale_is_one(api: Serving, body: dict[str, Any], refusal: tuple[int, str]) -> None:
    """A Deployment was scaled to nothing by bodies that name no number."""
    whole = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "web"}, **body}
    assert told(api, "PUT", SCALE, whole) == refusal
    assert json.loads(api.ask("GET", SCALE).body)["spec"] == {"replicas": 2}


def test_a_scale_without_a_number_has_none(api: Serving) -> None:
    """A null is no value, and no value is nought, as in Kubernetes."""
    assert told(api, "PUT", SCALE, {"metadata": {"name": "web"}, "spec": {"replicas": None}}) == (200, "")
    assert json.loads(api.ask("GET", SCALE).body)["spec"] == {"replicas": 0}


def test_a_patch_of_a_scale_is_refused_as_others(api: Serving) -> None:
    code, message = told(api, "PATCH", SCALE, {"spec": {"replicas": "x"}}, MERGE)
    assert (code, "json: cannot unmarshal string into Go struct field ScaleSpec.spec.replicas" in message) == (
        422,
        True,
    )
    assert told(api, "PATCH", SCALE, {"metadata": None}, MERGE)[0] == 400
    assert told(api, "PATCH", SCALE, {"metadata": {"namespace": "other"}}, MERGE)[0] == 400
    assert told(api, "PATCH", SCALE, {"spec": {"replicas": 3}}, MERGE)[0] == 200


@pytest.mark.parametrize(
    ("path", "body", "refusal"),
    [
        (f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"name": 5}},
         unreadable("Binding", "Binding: json: cannot unmarshal number into Go struct field "
                    "ObjectReference.target.name of type string")),
        (f"{PODS}/p/eviction", {"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": "x"}},
         unreadable("Eviction", "Eviction: json: cannot unmarshal string into Go struct field "
                    "DeleteOptions.deleteOptions.gracePeriodSeconds of type int64")),
        (f"{PODS}/p/eviction", {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}},
         unreadable("Pod", "Eviction: converting (v1.Pod) to (policy.Eviction): unknown conversion")),
        (f"{PODS}/p/eviction", {"metadata": {"name": "p", "namespace": "other"}},
         (400, "the namespace of the provided object does not match the namespace sent on the request")),
        (f"{ACCOUNTS}/sa/token", {"spec": {"audiences": "q"}},
         unreadable("TokenRequest", "TokenRequest: json: cannot unmarshal string into Go struct field "
                    "TokenRequestSpec.spec.audiences of type []string")),
        (f"{ACCOUNTS}/sa/token", {"metadata": {"name": "other"}},
         (422, 'TokenRequest.authentication.k8s.io "sa" is invalid: metadata.name: Invalid value: "other": must match '
               "the service account name if specified")),
        (f"{ACCOUNTS}/none/token", {"spec": {"expirationSeconds": 1}}, (404, 'serviceaccounts "none" not found')),
        (f"{REVIEWS}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": {"verb": 5}}},
         unreadable("SelfSubjectAccessReview", "SelfSubjectAccessReview: json: cannot unmarshal number into Go struct "
                    "field ResourceAttributes.spec.resourceAttributes.verb of type string")),
        ("/apis/authentication.k8s.io/v1/selfsubjectreviews", {"kind": "Nope"},
         unreadable("Nope", 'SelfSubjectReview: no kind "Nope" is registered for version "authentication.k8s.io/v1"')),
    ],
    ids=["binding", "eviction", "pod", "namespace", "token", "account", "no account", "review", "other review"],
)  # fmt: skip
def test_what_is_created_beside_objects_is_decoded(
    api: Serving, path: str, body: dict[str, Any], refusal: tuple[int, str]
) -> None:
    assert told(api, "POST", path, body) == refusal


def test_an_eviction_may_be_of_an_older_version(api: Serving) -> None:
    """As kubectl before 1.22 sends it; Kubernetes takes it, too."""
    body = {"kind": "Eviction", "apiVersion": "policy/v1beta1", "metadata": {"name": "p"}}
    assert told(api, "POST", f"{PODS}/p/eviction", body)[0] == 201


def test_an_empty_review_asks_for_nothing(api: Serving) -> None:
    code, message = told(api, "POST", f"{REVIEWS}/selfsubjectaccessreviews", {})
    why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
    assert (code, message.endswith(f'spec.resourceAttributes: Invalid value: "null": {why}')) == (422, True)


@pytest.mark.parametrize(
    "body", [{"kind": "Pod", "apiVersion": "v1"}, {"gracePeriodSeconds": "x"}, {"dryRun": "All"}, {"preconditions": 5}]
)
def test_options_of_a_deletion_are_some(api: Serving, body: dict[str, Any]) -> None:
    """kube-apiserver calls them its own failure (500)."""
    assert told(api, "DELETE", f"{MAPS}/a", body)[0] == 400
    assert api.ask("GET", f"{MAPS}/a").status == 200


def test_no_object_has_an_empty_uid(api: Serving) -> None:
    """The precondition was none, and the object gone."""
    why = "the UID in the precondition () does not match the UID in record"
    code, message = told(api, "DELETE", f"{MAPS}/a", {"preconditions": {"uid": ""}})
    assert (code, why in message) == (409, True)
    assert told(api, "DELETE", f"{MAPS}/a", {"preconditions": {"uid": None, "resourceVersion": None}})[0] == 200


@pytest.mark.parametrize(
    ("body", "query", "refusal"),
    [
        ({}, {}, (400, "the object provided is unrecognized (must be of type Device): Object 'Kind' is missing in "
                       "'{\"metadata\":{\"name\":\"d\"}}' ({\"metadata\":{\"name\":\"d\"}})")),
        ({}, {"fieldValidation": "Ignore"},
         unreadable("Device", "Device: Object 'Kind' is missing in '{\"metadata\":{\"name\":\"d\"}}'")),
        ({"kind": "Device"}, {}, (400, "the API version in the data () does not match the expected API version "
                                       "(devices.example.io/v1)")),
        ({"kind": "Pod", "apiVersion": "v1"}, {},
         (400, "the API version in the data (v1) does not match the expected API version "
               "(devices.example.io/v1)")),
        ({"kind": "Other", "apiVersion": "devices.example.io/v1"}, {},
         (422, 'Other.devices.example.io "d" is invalid: kind: Invalid value: "Other": must be Device')),
    ],
    ids=["no kind", "not validated", "no version", "another version", "another kind"],
)  # fmt: skip
def test_a_custom_object_names_its_kind(
    api: Serving, body: dict[str, Any], query: dict[str, str], refusal: tuple[int, str]
) -> None:
    """Only objects of built-in kinds may leave it out."""
    api.ask("POST", DEFINITIONS, definition())
    assert told(api, "POST", DEVICES, {"metadata": {"name": "d"}, **body}, **query) == refusal
    assert api.ask("POST", DEVICES, device("d")).status == 201


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"apiVersion": 5}, "json: cannot unmarshal number into Go struct field "
                            "ManagedFieldsEntry.metadata.managedFields.apiVersion of type string"),
        ({"time": "2026"}, 'parsing time "2026" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "-"'),
    ],
)  # fmt: skip
def test_managers_are_decoded(api: Serving, entry: dict[str, Any], why: str) -> None:
    body = {"metadata": {"name": "b", "managedFields": [entry]}}
    assert told(api, "POST", MAPS, body) == unreadable("ConfigMap", f"ConfigMap: {why}")
    assert told(api, "PATCH", f"{MAPS}/a", {"metadata": {"managedFields": "x"}}, MERGE)[0] == 422


def test_an_apply_with_a_uid_makes_no_object_again(api: Serving) -> None:
    """A client that has read the object before somebody deleted it."""
    body = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "gone", "uid": "u"}}
    assert told(api, "PATCH", f"{MAPS}/gone", body, APPLY, fieldManager="m") == (
        409, 'Operation cannot be fulfilled on configmaps "gone": uid mismatch: the provided object specified uid u, '
             "and no existing object was found",
    )  # fmt: skip
    body["metadata"] = {"name": "a", "uid": "u"}
    assert told(api, "PATCH", f"{MAPS}/a", body, APPLY, fieldManager="m") == (
        422, 'ConfigMap "a" is invalid: metadata.uid: Invalid value: "u": field is immutable',
    )  # fmt: skip


def test_a_patch_with_another_name_is_refused_for_that_first(api: Serving) -> None:
    path = f"{DEPLOYMENTS}/web"
    given = {"namespace": "other", "name": "q", "uid": "u"}
    of_namespace = "the namespace of the provided object does not match the namespace sent on the request"
    assert told(api, "PATCH", path, {"metadata": given}, MERGE) == (400, of_namespace)
    del given["namespace"]
    of_name = "the name of the object (q) does not match the name on the URL (web)"
    assert told(api, "PATCH", path, {"metadata": given}, MERGE) == (400, of_name)
    del given["name"]
    of_uid = 'Deployment.apps "web" is invalid: metadata.uid: Invalid value: "u": field is immutable'
    assert told(api, "PATCH", path, {"metadata": given}, MERGE) == (422, of_uid)


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/json;as=Table;v=v1;g=meta.k8s.io;q=0.3,application/json;q=0.7", "ConfigMapList"),
        ("application/json;q=0.3,application/json;as=Table;v=v1;g=meta.k8s.io;q=0.7", "Table"),
        ("application/json;as=Table;v=v1;g=meta.k8s.io;q=0.5,application/json", "ConfigMapList"),
        ("application/*;as=Table;v=v1;g=meta.k8s.io,application/json", "ConfigMapList"),
        ("application/*;q=0.9,application/json;as=Table;v=v1;g=meta.k8s.io;q=0.9", "Table"),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "Table"),
        ("application/json;as=Table;v=v2;g=meta.k8s.io,application/json", "ConfigMapList"),
        ("application/json;as=Table;v=v1;g=example.org,application/json", "ConfigMapList"),
        ("application/yaml;q=0.1,application/json;q=0.9", "ConfigMapList"),
    ],
)
def test_the_form_with_the_greatest_weight_is_answered(api: Serving, accept: str, kind: str) -> None:
    assert json.loads(api.ask("GET", MAPS, accept=accept).body)["kind"] == kind


@pytest.mark.parametrize("form", ["as=Table", "as=Table;v=v2;g=meta.k8s.io", "as=Table;v=v1;g=example.org", "v=v1"])
def test_a_form_of_another_version_is_not_acceptable(api: Serving, form: str) -> None:
    assert api.ask("GET", MAPS, accept=f"application/json;{form}").status == 406


def test_discovery_has_no_tables_and_answers_the_next_form(api: Serving) -> None:
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    assert [api.ask("GET", "/api", accept=accept).status for accept in (f"{table},application/json", table)] == [
        200,
        406,
    ]


@pytest.mark.parametrize(
    ("method", "path", "body", "kind", "faults"),
    [
        ("PUT", SCALE, '{"metadata": {"name": "web"}, "spec": {"replicas": 1, "x": 1}, "y": 2}', "Scale",
         ['unknown field "spec.x"', 'unknown field "y"']),
        ("PUT", SCALE, '{"metadata": {"name": "web"}, "spec": {"replicas": 1, "replicas": 2}}', "Scale",
         ['duplicate field "spec.replicas"']),
        ("POST", f"{PODS}/p/eviction", '{"metadata": {"name": "p"}, "x": 1, "deleteOptions": {"y": 1}}', "Eviction",
         ['unknown field "x"', 'unknown field "deleteOptions.y"']),
        ("POST", f"{PODS}/p/binding", '{"metadata": {"name": "p"}, "target": {"name": "n", "y": 1}}', "Binding",
         ['unknown field "target.y"']),
        ("POST", f"{ACCOUNTS}/sa/token", '{"spec": {"audiences": ["a"], "z": 1}}', "TokenRequest",
         ['unknown field "spec.z"']),
    ],
)  # fmt: skip
@pytest.mark.parametrize("validation", ["Strict", "Warn", "Ignore", ""])
def test_fields_that_the_body_of_a_subresource_does_not_have(
    api: Serving, method: str, path: str, body: str, kind: str, faults: list[str], validation: str
) -> None:
    reply = api.ask(method, path, body.encode(), fieldValidation=validation)
    told = [text for name, text in reply.headers if name == "Warning"]
    if validation == "Strict":
        why = f'{kind} in version "v1" cannot be handled as a {kind}: strict decoding error: {", ".join(faults)}'
        assert (reply.status, json.loads(reply.body)["message"], told) == (400, why, [])
    else:
        escaped = [fault.replace('"', '\\"') for fault in faults]
        assert told == ([] if validation == "Ignore" else [f'299 - "{fault}"' for fault in escaped])


def test_fields_of_a_patched_scale(api: Serving) -> None:
    status, said = told(api, "PATCH", SCALE, {"spec": {"replicas": 1, "x": 1}}, MERGE, fieldValidation="Strict")
    assert (status, said.endswith('strict decoding error: unknown field "spec.x"')) == (422, True)


def test_directives_are_fields_of_patches_alone(api: Serving) -> None:
    """An overlay of kustomize that is created by itself is refused, and stores no directive."""
    overlay = {"metadata": {"name": "x"}, "$patch": "delete"}
    status, said = told(api, "POST", MAPS, overlay, fieldValidation="Strict")
    assert (status, said.endswith('strict decoding error: unknown field "$patch"')) == (400, True)
    api.ask("POST", MAPS, {"metadata": {"name": "x"}, "data": {"a": "b"}})
    patch, media = {"data": {"$patch": "replace", "c": "d"}}, "application/strategic-merge-patch+json"
    reply = api.ask("PATCH", f"{MAPS}/x", patch, media, fieldValidation="Strict")
    assert (reply.status, reply.headers, json.loads(reply.body)["data"]) == (200, (), {"c": "d"})


@pytest.mark.parametrize("validation", ["Strict", "Warn"])
def test_a_patch_of_nothing_is_not_judged(api: Serving, validation: str) -> None:
    """There is no such object: nothing else is said."""
    reply = api.ask("PATCH", f"{MAPS}/none", {"zz": 1}, MERGE, fieldValidation=validation)
    assert (reply.status, [each for each in reply.headers if each[0] == "Warning"]) == (404, [])


_KEY: str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with"


@pytest.mark.parametrize(
    ("selector", "refusal"),
    [
        ({"labelSelector": {"rawSelector": "a b c"}}, ""),
        ({"labelSelector": {"requirements": [{"key": "a", "operator": "Nope"}]}}, ""),
        ({"fieldSelector": {"requirements": [{"key": "a", "operator": "X"}]}}, ""),
        ({"labelSelector": {}},
         "labelSelector.requirements: Required value: when spec.resourceAttributes.labelSelector is specified, "
         "requirements or rawSelector is required"),
        ({"fieldSelector": {"rawSelector": "x", "requirements": [{"key": "a", "operator": "In", "values": ["b"]}]}},
         'fieldSelector.rawSelector: Invalid value: "x": may not specified at the same time as requirements'),
        ({"labelSelector": {"requirements": [{"key": "a", "operator": "In"}]}},
         "labelSelector.requirements[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"),
        ({"labelSelector": {"requirements": [{"key": "A B", "operator": "Exists"}]}},
         f'labelSelector.requirements[0].key: Invalid value: "A B": {_KEY}'),
        ({"fieldSelector": {"requirements": [{"key": "", "operator": "X"}]}},
         "fieldSelector.requirements[0].key: Required value: must be specified"),
    ],
)  # fmt: skip
def test_the_selectors_of_an_access_review(api: Serving, selector: dict[str, Any], refusal: str) -> None:
    """One that cannot be parsed is no selector of anything."""
    attributes = {"verb": "list", "resource": "pods", **selector}
    status, said = told(
        api, "POST", f"{REVIEWS}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": attributes}}
    )
    about = 'SelfSubjectAccessReview.authorization.k8s.io "" is invalid: spec.resourceAttributes.'
    assert (status, said.startswith(about + refusal) if refusal else said == "") == (422 if refusal else 201, True)


@pytest.mark.parametrize(
    ("plural", "body", "faults"),
    [
        ("selfsubjectaccessreviews", '{"x": 1, "spec": {"resourceAttributes": {"verb": "get", "zz": 1}}}',
         ['unknown field "x"', 'unknown field "spec.resourceAttributes.zz"']),
        ("subjectaccessreviews", '{"spec": {"user": "a", "resourceAttributes": {"verb": "get", "verb": "list"}}}',
         ['duplicate field "spec.resourceAttributes.verb"']),
    ],
)  # fmt: skip
def test_a_strict_review_has_only_fields_of_its_kind(api: Serving, plural: str, body: str, faults: list[str]) -> None:
    assert api.ask("POST", f"{REVIEWS}/{plural}", body.encode()).status == 201
    status, said = told(api, "POST", f"{REVIEWS}/{plural}", body.encode(), fieldValidation="Strict")
    assert (status, said.endswith(f"strict decoding error: {', '.join(faults)}")) == (400, True)


@pytest.mark.parametrize(
    ("place", "warned"), [("/spec/none", ["x"]), ("/spec/none/x", [])], ids=["it fits", "it does not fit"]
)
def test_nothing_is_said_of_the_fields_of_a_json_patch_that_does_not_fit(
    api: Serving, place: str, warned: list[str]
) -> None:
    patch = [{"op": "add", "path": place, "value": 1}]
    reply = api.ask("PATCH", f"{DEPLOYMENTS}/web", patch, "application/json-patch+json")
    assert len([each for each in reply.headers if each[0] == "Warning"]) == len(warned)


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "POST"])
def test_an_object_of_a_namespace_is_not_found_outside_of_one(api: Serving, method: str) -> None:
    assert told(api, method, "/api/v1/pods/p", {}, MERGE if method == "PATCH" else "application/json") == (
        404, "the server could not find the requested resource",
    )  # fmt: skip
