"""The keys that sign tokens: made once, replaced after 90 days, and forgotten when no token of them can be valid."""

import pytest

from modules.cloud.apiserver.tokens.issuer import KeysInMemory
from modules.cloud.apiserver.tokens.signing_keys import (
    LONGEST_LIFE,
    SIGNS_FOR,
    current_signer,
    json_web_keys,
    public_key,
    public_keys,
    unending_signer,
)
from modules.cloud.storage.signing_key import StoredSigningKey

NOW = 1_800_000_000.0
DAY = 24 * 3600


@pytest.fixture
def store() -> KeysInMemory:
    return KeysInMemory()


def test_a_key_signs_for_90_days(store: KeysInMemory) -> None:
    first = current_signer(store, NOW)
    assert current_signer(store, NOW + SIGNS_FOR - 1).key_id == first.key_id
    second = current_signer(store, NOW + SIGNS_FOR)
    assert second.key_id != first.key_id
    assert sorted(public_keys(store)) == sorted((first.key_id, second.key_id))


def test_a_retired_key_has_no_private_part_and_goes_after_its_last_token(store: KeysInMemory) -> None:
    first, end = current_signer(store, NOW), NOW + SIGNS_FOR
    current_signer(store, end)
    retired = next(key for key in store.signing_keys() if key.key_id == first.key_id)
    assert (retired.retired, b"PRIVATE" in retired.pem) == (int(end), False)
    assert public_key(retired.pem).public_numbers() == first.key.public_key().public_numbers()
    last = end + LONGEST_LIFE
    for moment in (end + SIGNS_FOR, end + 2 * SIGNS_FOR, end + 3 * SIGNS_FOR, last):
        current_signer(store, moment)
    assert first.key_id in public_keys(store)
    current_signer(store, last + SIGNS_FOR)
    assert first.key_id not in public_keys(store)


@pytest.mark.parametrize("is_retired", [False, True])
@pytest.mark.parametrize("pem", [b"", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"])
def test_a_damaged_key_costs_its_own_tokens_only(store: KeysInMemory, is_retired: bool, pem: bytes) -> None:
    """The others count; another one signs in its place, and it is gone when the next one is made."""
    unending, damaged = unending_signer(store), StoredSigningKey("z", int(NOW), int(NOW) * is_retired, pem)
    store.put_signing_key("z", damaged)
    store.put_signing_key("0", StoredSigningKey("0", 0, 0, pem))
    signer = current_signer(store, NOW)
    assert (signer.key_id != "z", unending_signer(store).key_id) == (True, unending.key_id)
    assert sorted(public_keys(store)) == sorted((signer.key_id, unending.key_id))
    current_signer(store, NOW + SIGNS_FOR)
    assert "z" not in [key.key_id for key in store.signing_keys()]


def test_the_newest_key_of_two_cloudcores_signs() -> None:
    """Each may have made one, when neither saw the other's: clocks differ."""
    store, other = KeysInMemory(), KeysInMemory()
    current_signer(store, NOW)
    ahead = current_signer(other, NOW + DAY)
    store.put_signing_key(ahead.key_id, other.signing_keys()[0])
    assert current_signer(store, NOW).key_id == ahead.key_id
    assert current_signer(store, NOW + SIGNS_FOR).key_id == ahead.key_id


def test_of_two_keys_of_one_moment_all_cloudcores_take_the_same() -> None:
    stores = KeysInMemory(), KeysInMemory()
    made = [current_signer(store, NOW).key_id for store in stores]
    for store, other in (stores, stores[::-1]):
        for key in other.signing_keys():
            store.put_signing_key(key.key_id, key)
    assert {current_signer(store, NOW).key_id for store in stores} == {max(made)}


def test_a_key_is_not_shown(store: KeysInMemory) -> None:
    current_signer(store, NOW)
    (key,) = store.signing_keys()
    assert b"PRIVATE" in key.pem
    assert "PRIVATE" not in repr(key)


def test_the_json_web_keys_are_the_public_ones(store: KeysInMemory) -> None:
    signer = current_signer(store, NOW)
    (key,) = json_web_keys(public_keys(store))["keys"]
    assert set(key) == {"use", "kty", "kid", "crv", "alg", "x", "y"}
    assert (key["kid"], key["kty"], key["alg"], len(key["x"])) == (signer.key_id, "EC", "ES256", 43)


def test_the_key_of_tokens_that_do_not_expire_stays_and_signs_nothing_else(store: KeysInMemory) -> None:
    unending = unending_signer(store).key_id
    for moment in (NOW, NOW + SIGNS_FOR, NOW + LONGEST_LIFE + 2 * SIGNS_FOR):
        assert current_signer(store, moment).key_id != unending
        assert unending_signer(store).key_id == unending
    assert unending in public_keys(store)
    assert b"PRIVATE" not in public_keys(store)[unending]
