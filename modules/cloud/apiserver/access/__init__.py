"""What an authenticated user may request over TCP."""
