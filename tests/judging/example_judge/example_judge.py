"""A judge that looks at nothing but how bright an image is: it shows what biaslab asks of a judge."""

import numpy as np


class Brightness:
    """Perceived as female: the mean brightness of the whole image, 0 to 1, times a factor."""

    sees = "image"
    # Of drawings and photographs alike.
    knows = "any"

    def __init__(self, argument, *, device, batch_size):
        self.factor = float(argument or 1)

    def p_female(self, images):
        """Return one probability an image."""
        return np.array([self.factor * image.mean() / 255 for image in images])


def nothing(argument, *, device, batch_size):
    """Return what is no judge."""
    return object()
