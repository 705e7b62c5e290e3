"""Analyses that are no paper's own: own prompts and images, annotations, precision, and all papers together."""
