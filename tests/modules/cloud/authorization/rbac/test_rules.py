"""Laws of rules and of the index, against all requests of a small world and a plain reading of the objects."""

from itertools import product
from random import Random
from typing import Any, Final

import pytest

from modules.apimachinery.kinds import JsonObject
from modules.cloud.authentication.users import User
from modules.cloud.authorization.rbac.index import RbacIndex
from modules.cloud.authorization.rbac.rules import AccessRequest, PolicyRule, uncovered

_VERBS: Final = ("get", "list")
_GROUPS: Final = ("", "apps")
_RESOURCES: Final = ("pods", "pods/log", "jobs", "jobs/log")
_NAMES: Final = ("", "x", "y")
_PATHS: Final = ("/a", "/a/b", "/b")
_REQUESTS: Final = [
    *(
        AccessRequest(verb=verb, group=group, resource=resource.partition("/")[0],
                      subresource=resource.partition("/")[2], name=name, namespace="ns")
        for verb, group, resource, name in product(_VERBS, _GROUPS, _RESOURCES, _NAMES)
    ),
    *(AccessRequest(verb=verb, path=path) for verb, path in product(_VERBS, _PATHS)),
]  # fmt: skip


def _some(random: Random, *of: str, least: int = 1) -> frozenset[str]:
    return frozenset(random.sample(of, random.randint(least, min(2, len(of)))))


def _rule(random: Random) -> PolicyRule:
    verbs = _some(random, *_VERBS, "*")
    if random.random() < 0.25:
        return PolicyRule(verbs, paths=_some(random, *_PATHS, "/a/*", "*"))
    resources = _some(random, *_RESOURCES, "*", "*/log")
    return PolicyRule(verbs, _some(random, *_GROUPS, "*"), resources, _some(random, "x", "y", least=0))


def _allowed(rules: list[PolicyRule]) -> set[AccessRequest]:
    return {request for request in _REQUESTS if any(rule.allows(request) for rule in rules)}


@pytest.mark.parametrize("seed", range(8))
def test_granting_covered_rights_grants_nothing_new(seed: int) -> None:
    """Also when the comparison is too long: then the rule counts as one that is not held."""
    random = Random(seed)  # noqa: S311 - reproducible
    for _ in range(250):
        wanted, held = [_rule(random)], [_rule(random) for _ in range(random.randint(0, 3))]
        assert wanted[0].number_of_parts() == len(list(wanted[0].parts()))
        is_new = bool(_allowed(wanted) - _allowed(held))
        for most in (1000, 1):
            assert uncovered(wanted, held, most) or not is_new, (wanted, held)
        assert any(each.covers(wanted[0]) for each in held) <= (not is_new)
        assert not uncovered(wanted, [*held, *wanted], 1000), "who holds a rule may grant it"


def test_a_comparison_takes_no_longer_than_it_may() -> None:
    """A rule of ten parts is compared with each of twenty that are held."""
    wanted = PolicyRule(frozenset(map(str, range(10))), frozenset(("",)), frozenset(("pods",)))
    held = [PolicyRule(frozenset(("x",)), frozenset(("",)), frozenset((str(each),))) for each in range(20)]
    assert [len(uncovered([wanted], held, most)) for most in (199, 200)] == [1, 10]


def _json(random: Random, kind: str, name: str, namespace: str, **fields: Any) -> JsonObject:
    return {"kind": kind, "metadata": {"name": name, **({"namespace": namespace} if namespace else {})}, **fields}


def _world(random: Random) -> list[JsonObject]:
    found = []
    for space, name in product(("", "a", "b"), ("r", "s")):
        if random.random() < 0.7:
            rules = [_rule(random).in_json()]
            found.append(_json(random, "Role" if space else "ClusterRole", name, space, rules=rules))
        subjects: list[JsonObject] = [
            {"kind": "User", "name": "ann"}, {"kind": "Group", "name": "team"}, {"kind": "User", "name": "team"},
            {"kind": "ServiceAccount", "name": "robot", "namespace": random.choice(("a", "b"))},
            *([{"kind": "ServiceAccount", "name": "robot"}] if space else []),
        ]  # fmt: skip
        kind = random.choice(("Role", "ClusterRole")) if space else "ClusterRole"
        role = {"kind": kind, "name": random.choice(("r", "s"))}
        chosen = random.sample(subjects, random.randint(0, 2))
        kind = "RoleBinding" if space else "ClusterRoleBinding"
        found.append(_json(random, kind, f"bind-{name}", space, subjects=chosen, roleRef=role))
    return found


def _is_subject(subject: JsonObject, user: User, space: str) -> bool:
    match subject["kind"]:
        case "User":
            return bool(user.name == subject["name"])
        case "Group":
            return subject["name"] in user.groups
    return user.name == f"system:serviceaccount:{subject.get('namespace') or space}:{subject['name']}"


def _reads_as_allowed(world: list[JsonObject], user: User, request: AccessRequest) -> bool:
    """Decide as the documentation of Kubernetes' RBAC reads, object by object."""
    roles = {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each
        for each in world if "rules" in each
    }  # fmt: skip
    for binding in (each for each in world if "roleRef" in each):
        space, of = binding["metadata"].get("namespace", ""), binding["roleRef"]
        role = roles.get((of["kind"], space if of["kind"] == "Role" else "", of["name"]))
        if role is None or space not in ("", request.namespace):
            continue
        is_bound = any(_is_subject(each, user, space) for each in binding["subjects"])
        if is_bound and any(_reads(rule, request) for rule in role["rules"]):
            return True
    return False


def _reads(rule: JsonObject, request: AccessRequest) -> bool:
    if not {request.verb, "*"} & {*rule["verbs"]}:
        return False
    if request.path:
        paths = rule.get("nonResourceURLs", ())
        return any(
            path in ("*", request.path) or (path[-1] == "*" and request.path.startswith(path[:-1])) for path in paths
        )
    resources = {request.combined, "*", *([f"*/{request.subresource}"] if request.subresource else [])}
    names = rule.get("resourceNames")
    is_in_group = bool({request.group, "*"} & {*rule.get("apiGroups", ())})
    return is_in_group and bool(resources & {*rule.get("resources", ())}) and (not names or request.name in names)


@pytest.mark.parametrize("seed", range(6))
def test_a_request_is_allowed_as_the_objects_read(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - reproducible
    users = (User("ann"), User("team"), User("bob", groups=("team",)))
    robots = tuple(User(f"system:serviceaccount:{space}:robot") for space in ("a", "b"))
    for _ in range(15):
        world, index = _world(random), RbacIndex()
        index.load(world)
        for user in (*users, *robots):
            for request in random.sample(_REQUESTS, 20):
                for space in ("", "a", "b") if request.resource else ("",):
                    asked = AccessRequest(
                        verb=request.verb, group=request.group, resource=request.resource,
                        subresource=request.subresource, name=request.name, namespace=space, path=request.path,
                    )  # fmt: skip
                    found = index.allowed(user, asked)
                    assert (found is not None) is _reads_as_allowed(world, user, asked), (world, user, asked)
