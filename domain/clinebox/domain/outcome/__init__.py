"""Outcome (what happened) and policy (what to do about it)."""
