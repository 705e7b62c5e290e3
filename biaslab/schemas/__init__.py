"""Declarations of the tables a run leaves behind, one module a paper."""
