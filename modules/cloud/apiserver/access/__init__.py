"""Authentication and authorization of requests over TCP."""
