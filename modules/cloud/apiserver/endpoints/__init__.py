"""The Kubernetes API over HTTP: from requests to `ApiCall`s and watches, and back.

The threads of an HTTP server call it. It asks the API server's actor through an `ApiCaller`, and calls nothing of it.
"""
