"""Docker Engine behind edgecore's CRI server: the dockershim of KubeEdge's documents, inside edgecore.

`containerRuntimeEndpoint: embedded://docker` starts it. `client` speaks to Docker's API over its socket, `specs`
translates pods and containers into Docker's requests, `log_stream` writes containers' logs in CRI's form, and the other
modules build the `driver` of the engine from these parts. Docker's state is authoritative; the state directory keeps
CRI's requests. Containers of this edgecore carry its label (`labels`); nothing else in Docker is ever changed.
"""
