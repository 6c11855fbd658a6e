"""Continue tokens: an API server's are read, and malformed ones refused in its words."""

import base64

import pytest

from modules.apimachinery.continue_tokens import read_continue, write_continue

_OF_SERVER = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MjI1LCJzdGFydCI6InEwXHUwMDAwIn0"


def test_a_recorded_token_is_read_and_written_again() -> None:
    """It is one of kube-apiserver 1.32."""
    assert read_continue(_OF_SERVER) == (225, "q0\0")
    assert write_continue(225, "q0\0") == _OF_SERVER


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("abc", "continue key is not valid: invalid character 'i' looking for beginning of value"),
        ("a*c", "continue key is not valid: illegal base64 data at input byte 1"),
        ('[1]', "continue key is not valid: json: cannot unmarshal array into Go value of type storage.continueToken"),
        ('{"v":"v2"}', "continue key is not valid: server does not recognize this encoded version v2"),
        ('{"v":"meta.k8s.io/v1","start":"a"}',
         "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
        ('{"v":"meta.k8s.io/v1","rv":1}',
         "continue key is not valid: encoded start key empty (version meta.k8s.io/v1)"),
        ('{"v":"meta.k8s.io/v1","rv":1,"start":"../a"}', "continue key is not valid: ../a"),
        ('{"v":"meta.k8s.io/v1","rv":1,"start":"/a/./b"}', "continue key is not valid: /a/./b"),
    ],
)  # fmt: skip
def test_other_texts_than_tokens_are_refused(token: str, words: str) -> None:
    text = base64.urlsafe_b64encode(token.encode()).rstrip(b"=").decode() if token[0] in "[{" else token
    with pytest.raises(ValueError) as caught:
        read_continue(text)
    assert str(caught.value) == words
