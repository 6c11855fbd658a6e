"""The index of references: who refers to what, counted, and nothing left behind."""

import random
from collections import Counter

from modules.apimachinery.kinds import ObjectKey
from modules.apimachinery.reference_index import ReferenceIndex

_SETTINGS = ObjectKey("ConfigMap", "default", "settings")
_KEY = ObjectKey("Secret", "default", "key")


def _pod(name: str) -> ObjectKey:
    return ObjectKey("Pod", "default", name)


def test_a_node_refers_to_an_object_as_long_as_one_of_its_pods_does() -> None:
    """Two pods of a node name a configmap: the node refers to it until the second is gone."""
    index = ReferenceIndex()
    index.put(_pod("a"), "n1", [_SETTINGS, _KEY])
    index.put(_pod("b"), "n1", [_SETTINGS])
    index.remove(_pod("a"))
    assert index.refers("n1", _SETTINGS)
    assert not index.refers("n1", _KEY)
    index.remove(_pod("b"))
    assert not index.refers("n1", _SETTINGS)


def test_the_nodes_of_an_object_have_pods_that_name_it() -> None:
    """Each node once, and none that has no such pod."""
    index = ReferenceIndex()
    for name, node in (("a", "n1"), ("b", "n1"), ("c", "n2")):
        index.put(_pod(name), node, [_SETTINGS])
    index.put(_pod("d"), "n3", [_KEY])
    assert sorted(index.nodes_of(_SETTINGS)) == ["n1", "n2"]
    assert index.nodes_of(ObjectKey("Secret", "other", "key")) == []


def test_a_changed_pod_refers_to_its_present_names() -> None:
    """Its earlier references end, also when it is bound to a node only later."""
    index = ReferenceIndex()
    index.put(_pod("a"), "", [_SETTINGS])
    assert index.of(_pod("a")) == ()
    assert index.nodes_of(_SETTINGS) == []
    index.put(_pod("a"), "n1", [_SETTINGS])
    index.put(_pod("a"), "n1", [_KEY])
    assert index.of(_pod("a")) == (_KEY,)
    assert not index.refers("n1", _SETTINGS)


def test_equal_keys_of_many_pods_are_one_object() -> None:
    """Each pod's message is decoded again, with keys of its own; the index keeps the first."""
    index = ReferenceIndex()
    for number in range(3):
        index.put(_pod(str(number)), "n1", [ObjectKey("ConfigMap", "default", "settings")])
    first, *others = (index.of(_pod(str(number)))[0] for number in range(3))
    assert all(other is first for other in others)


def test_the_index_is_what_counting_all_pods_gives() -> None:
    """After any sequence of changes, the counts are those of the remaining pods."""
    source = random.Random(7)  # noqa: S311 - reproducible on purpose
    index, pods = ReferenceIndex(), dict[ObjectKey, tuple[str, list[ObjectKey]]]()
    keys = [ObjectKey("Secret", "default", str(number)) for number in range(5)]
    for _ in range(500):
        pod = _pod(str(source.randrange(20)))
        if source.random() < 0.3:
            index.remove(pod)
            pods.pop(pod, None)
        else:
            pods[pod] = source.choice(["", "n1", "n2"]), source.sample(keys, source.randrange(4))
            index.put(pod, *pods[pod])
        counted = Counter((node, key) for node, names in pods.values() if node for key in names)
        for node in ("n1", "n2"):
            assert [index.refers(node, key) for key in keys] == [counted[node, key] > 0 for key in keys]
        assert index._keys.keys() == {key for _, key in counted}, "what nobody refers to takes no room"
