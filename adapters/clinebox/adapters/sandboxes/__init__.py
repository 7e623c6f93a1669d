"""Where the agent works: implementations of the domain's `Sandbox` and `SandboxProvider` (SPEC §12)."""
