"""Analyses of DALL-Eval: tables in, tables with intervals, tests and floors out. Pure functions."""
