"""Certificates on the cloud's side, compared with those of a recorded KubeEdge cloudcore."""
