"""The process cloudcore: cloudhub and edgecontroller with an embedded API server, for development and tests."""
