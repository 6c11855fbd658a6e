"""What callers get of a node's answer."""

from modules.cloud.router.rest_service import RestAnswer, response_of


def test_a_node_s_page_runs_no_code_and_sets_no_cookie() -> None:
    """All nodes answer from one host: a page of one would read the others' with the caller's rights."""
    told = (
        ("Content-Type", "text/html"),
        ("Set-Cookie", "session=1; Path=/"),
        ("content-security-policy", "default-src *"),
        ("X-Content-Type-Options", ""),
        ("X-Mine", "1"),
    )
    response = response_of(RestAnswer(200, b"<script>", told))
    assert (response.status, response.content_type, response.body) == (200, "text/html", b"<script>")
    assert response.headers == (
        ("X-Mine", "1"),
        ("Content-Security-Policy", "sandbox"),
        ("X-Content-Type-Options", "nosniff"),
    )
