"""Conversations between parts that must not import one another."""
