"""Prompts of the papers as tables: what is asked of a model, and whom each text names."""
