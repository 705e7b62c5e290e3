"""Analyses of DALL-Eval: pure functions of tables that add intervals, tests and null expectations."""
