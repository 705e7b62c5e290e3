"""Models by name, from folders, the hub and installed packages; sources of images."""
