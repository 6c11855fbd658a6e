"""edgecontroller: the cloud's half that knows Kubernetes objects (spec/07).

In KubeEdge it stands between an API server and cloudhub. Here it is also the API server: `cluster` keeps
objects that come from manifests, commands and edges, `downstream` turns their changes into messages,
`upstream_*` answer what edges ask.
"""
