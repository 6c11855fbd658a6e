"""A probe on one line."""

from modules.tools.printing.fields import JsonObject, list_at, map_at, text_at

_NUMBERS = (
    ("delay={}s", "initialDelaySeconds", "0"),
    ("timeout={}s", "timeoutSeconds", "1"),
    ("period={}s", "periodSeconds", "10"),
    ("#success={}", "successThreshold", "1"),
    ("#failure={}", "failureThreshold", "3"),
)


def probe_text(probe: JsonObject) -> str:
    """Return a probe's action and numbers, with Kubernetes' defaults: `http-get http://:80/ delay=0s …`."""
    numbers = " ".join(form.format(text_at(probe, key) or default) for form, key, default in _NUMBERS)
    return f"{_action(probe)} {numbers}"


def _action(probe: JsonObject) -> str:
    if "exec" in probe:
        return f"exec [{' '.join(map(str, list_at(probe, 'exec.command')))}]"
    if "httpGet" in probe:
        http = map_at(probe, "httpGet")
        host, path = text_at(http, "host"), text_at(http, "path")
        host = f"[{host}]" if ":" in host else host
        slash = "/" if path and not path.startswith("/") else ""
        scheme = (text_at(http, "scheme") or "http").lower()
        return f"http-get {scheme}://{host}:{text_at(http, 'port')}{slash}{path}"
    if "tcpSocket" in probe:
        return f"tcp-socket {text_at(probe, 'tcpSocket.host')}:{text_at(probe, 'tcpSocket.port')}"
    if "grpc" in probe:
        return f"grpc <pod>:{text_at(probe, 'grpc.port')} {text_at(probe, 'grpc.service')}"
    return "unknown"
