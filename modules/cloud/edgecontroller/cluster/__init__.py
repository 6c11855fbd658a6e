"""edgecontroller's client of an API server: calls, watches, and what a node needs of the server when it connects."""
