"""Attention of generated images to the words of their prompts (triplets, section 6.1)."""
