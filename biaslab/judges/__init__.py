"""Judges of images: faces, perceived gender, skin tone, answers, objects and similarity, with a status per image."""
