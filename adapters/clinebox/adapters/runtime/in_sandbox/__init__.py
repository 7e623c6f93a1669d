"""The Cline binary inside a sandbox, installed there by a script that downloads and checks it (SPEC §9)."""
