"""The supervisor: bash in the sandbox that starts, bounds, stops and accounts for the harness (SPEC §5)."""
