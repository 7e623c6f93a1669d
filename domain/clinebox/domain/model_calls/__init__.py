"""Every model call as the gateway saw it: what passed, when, and how it ended (SPEC §11)."""
