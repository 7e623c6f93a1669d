"""Secrets: their forms, masking, tails of masked output, and where secrets come from (SPEC §6)."""
