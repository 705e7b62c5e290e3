"""Judges whose answers are read from the first pixel of an image."""

from biaslab.judges.faces import Face, FaceDetector
from biaslab.judges.judge import Answer, Judge


class PixelJudge:
    """Common part: the name is the identity, and any computation fails unless ``allowed``."""

    def __init__(self, name, options=None, allowed=True):
        super().__init__(name, options)
        self.allowed, self.shapes = allowed, []

    def check_allowed(self):
        assert self.allowed, "computed again"


class PixelFaces(PixelJudge, FaceDetector):
    """Detects as many faces as the first pixel's red value; from 10 on, one face of side red - 10 in pixels."""

    def faces(self, images):
        self.check_allowed()
        return [self._of(int(image[0, 0, 0])) for image in images]

    @staticmethod
    def _of(kind):
        if kind >= 10:
            return [Face(1.0, 2.0, 1.0 + kind - 10, 2.0 + kind - 10, 0.9)]
        return [Face(5.0 * k, 0.0, 5.0 * k + 5, 5.0, 0.9) for k in range(kind)]


class PixelGender(PixelJudge, Judge):
    """Answers with the first pixel's green, in percent."""

    def answers(self, people):
        self.check_allowed()
        self.shapes.append([person.image.shape for person in people.persons])
        return [Answer(person.image[0, 0, 1] / 100) for person in people.persons]
