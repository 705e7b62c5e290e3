"""Prompts of the papers as tables, their settings, and custom vocabulary."""
