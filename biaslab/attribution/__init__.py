"""Where generated images attend to the words of their prompts (triplets, section 6.1)."""
