"""Analyses beyond those of the papers: custom prompts and images, annotations, precision, and all papers together."""
