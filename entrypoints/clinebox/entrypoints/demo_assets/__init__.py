"""The demo's task, its small broken program, and what the scripted model says about it: package data."""
