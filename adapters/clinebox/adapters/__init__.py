"""Implementations of the ports: sandboxes, the supervisor, the runtime cache, model servers, files."""
