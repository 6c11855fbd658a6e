"""Whom the claims of a provider's token stand for, without keys, sockets or clocks."""

from typing import Any

import pytest

from modules.cloud.authentication.oidc.tokens import TokenRefusedError, user_of
from modules.cloud.authentication.settings import OidcSettings
from modules.cloud.authentication.users import User
from tests.modules.cloud.authentication.oidc.provider import CLIENT, NOW, claims

ISSUER = "https://login.example/realms/edge"
MAIL = {"username_claim": "email"}
SHOP = {"groups_claim": "groups"}
BARE = {"username_prefix": "-"}


def settings(**changes: Any) -> OidcSettings:
    return OidcSettings(**{"issuer_url": ISSUER, "client_id": CLIENT, **changes})


@pytest.mark.parametrize(
    ("given", "options", "name", "groups"),
    [
        ({}, {}, f"{ISSUER}#carol", ()),
        ({}, BARE, "carol", ()),
        ({}, {"username_prefix": "oidc:"} | SHOP, "oidc:carol", ("shop",)),
        ({"email": "carol@shop.example"}, MAIL, "carol@shop.example", ()),
        ({"email": "carol@shop.example", "email_verified": True}, MAIL, "carol@shop.example", ()),
        ({"email_verified": False}, BARE, "carol", ()),
        ({"aud": ["other", CLIENT]}, BARE, "carol", ()),
        ({"groups": "shop"}, BARE | SHOP | {"groups_prefix": "idp/"}, "carol", ("idp/shop",)),
        ({"groups": None}, BARE | SHOP, "carol", ()),
        ({"groups": []}, BARE | SHOP, "carol", ()),
        ({"exp": NOW + 0.5, "nbf": NOW + 300}, BARE, "carol", ()),
        ({"hd": "shop.example"}, BARE | {"required_claims": {"hd": "shop.example"}}, "carol", ()),
        # reserved groups are left out, also when only the prefix makes them so; others stay
        ({"groups": ["system:masters", "shop", "", "a\nb", "kubeedge:router"]}, BARE | SHOP, "carol", ("shop",)),
        ({"groups": ["tem:masters", "x"]}, BARE | SHOP | {"groups_prefix": "sys"}, "carol", ("sysx",)),
        ({"groups": ["system:masters"]}, BARE | SHOP | {"groups_prefix": "idp/"}, "carol", ("idp/system:masters",)),
    ],
)
def test_a_user_by_claims(given: dict[str, Any], options: dict[str, Any], name: str, groups: tuple[str, ...]) -> None:
    """With kube-apiserver's defaults: the issuer is the prefix, except before an address."""
    assert user_of(claims(ISSUER, **given), settings(**options), NOW) == User(name, groups=groups)


@pytest.mark.parametrize(
    ("given", "options", "why"),
    [
        ({"iss": ISSUER + "/"}, {}, "iss"),
        ({"iss": None}, {}, "iss"),
        ({"aud": "other"}, {}, "aud"),
        ({"aud": None}, {}, "aud"),
        ({"aud": f"{CLIENT} other"}, {}, "aud"),
        ({"aud": [CLIENT, 7]}, {}, "aud"),
        ({"aud": {CLIENT: 1}}, {}, "aud"),
        ({"exp": NOW}, {}, "exp"),
        ({"exp": None}, {}, "exp"),
        ({"exp": "9999999999"}, {}, "exp"),
        ({"exp": True}, {}, "exp"),
        ({"nbf": NOW + 301}, {}, "nbf"),
        ({"nbf": "0"}, {}, "nbf"),
        ({}, {"required_claims": {"hd": "shop.example"}}, "hd"),
        ({"hd": ["shop.example"]}, {"required_claims": {"hd": "shop.example"}}, "hd"),
        ({"sub": None}, {}, "sub"),
        ({"sub": ""}, {}, "sub"),
        ({"sub": 7}, {}, "sub"),
        ({}, MAIL, "email"),
        ({"email": "carol@shop.example", "email_verified": False}, MAIL, "email_verified"),
        ({"email": "carol@shop.example", "email_verified": "true"}, MAIL, "email_verified"),
        ({"groups": {"shop": 1}}, SHOP, "groups"),
        ({"groups": ["shop", 7]}, SHOP, "groups"),
        ({"sub": "system:admin"}, BARE, "reserved"),
        ({"sub": "system:node:n1", "groups": "system:nodes"}, BARE | SHOP, "reserved"),
        ({"sub": "tem:serviceaccount:default:app"}, {"username_prefix": "sys"}, "reserved"),
        ({"sub": "kubeedge:cloud"}, BARE, "reserved"),
        ({"email": "system:masters"}, MAIL, "reserved"),
        ({"sub": "carol\n403"}, BARE, "not printable"),
    ],
)
def test_a_token_that_is_refused(given: dict[str, Any], options: dict[str, Any], why: str) -> None:
    """The error names the claim, and shows nothing of the token."""
    with pytest.raises(TokenRefusedError) as refused:
        user_of(claims(ISSUER, **given), settings(**options), NOW)
    assert why in refused.value.hint
    assert "carol" not in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"issuer_url": "http://login.example"}, "--oidc-issuer-url"),
        ({"issuer_url": "https://login.example?a=b"}, "--oidc-issuer-url"),
        ({"issuer_url": "https://login.example#a"}, "--oidc-issuer-url"),
        ({"issuer_url": "https:///realms/edge"}, "--oidc-issuer-url"),
        ({"issuer_url": "https://user@login.example"}, "--oidc-issuer-url"),
        ({"client_id": ""}, "--oidc-client-id"),
        ({"username_claim": ""}, "--oidc-username-claim"),
        ({"signing_algs": ("HS256",)}, "--oidc-signing-algs"),
        ({"signing_algs": ("none",)}, "--oidc-signing-algs"),
        ({"signing_algs": ()}, "--oidc-signing-algs"),
        ({"username_prefix": "system:"}, "--oidc-username-prefix"),
        ({"groups_prefix": "system:node"}, "--oidc-groups-prefix"),
    ],
)
def test_settings_that_cannot_be_used_name_their_option(changes: dict[str, Any], why: str) -> None:
    assert why in settings(**changes).mistake
    assert bool(settings(**changes).mistake) == bool(why)
