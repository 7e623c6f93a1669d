"""Sandboxes in containers, over the API of Docker or of Podman's Docker-compatible service (SPEC §12)."""
