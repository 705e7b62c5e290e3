"""Readers of files that users bring: tables, text, YAML, images, folders; names of models and folders."""
