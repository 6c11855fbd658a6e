"""cloudcore: the cloud stub as a process. cloudhub and edgecontroller without a Kubernetes behind them, for
development
and tests."""
