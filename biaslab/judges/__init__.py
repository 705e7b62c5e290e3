"""Judge images: faces, perceived gender, skin tone, answers, objects and likeness, every image with an outcome."""
