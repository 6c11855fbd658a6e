"""Certificates on the cloud's side, compared with a recorded KubeEdge cloudcore."""
