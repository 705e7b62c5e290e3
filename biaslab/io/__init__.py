"""Readers of user-supplied files: tables, text, YAML, images, folders; names of models and folders."""
