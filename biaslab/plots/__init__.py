"""Figures of all papers: one style, plot types that several papers share, and galleries of images."""
