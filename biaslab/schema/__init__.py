"""Declared tables and settings: columns, values and their bounds, checks, and output formats."""
