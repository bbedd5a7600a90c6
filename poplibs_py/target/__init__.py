"""Targets: what the machine that a plan is made for looks like."""
