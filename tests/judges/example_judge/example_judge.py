"""A judge by mean brightness alone: an example of the interface that biaslab requires of a judge."""

import numpy as np


class Brightness:
    """Perceived as female: the mean brightness of the whole image, 0 to 1, times a factor."""

    # Of drawings and photographs alike.
    image_domain = "any"

    def __init__(self, argument, *, device, batch_size):
        self.factor = float(argument or 1)

    def judge(self, people):
        """Return one gender and probability per person."""
        shares = [self.factor * person.image.mean() / 255 for person in people]
        return [("female" if share >= 0.5 else "male", share) for share in shares]


def nothing(argument, *, device, batch_size):
    """Return an object that is not a judge."""
    return object()


class Asked:
    """Answers about people: as its argument says, or without one by their position."""

    image_domain = "any"

    def __init__(self, argument, *, device, batch_size):
        if argument == "broken":
            raise OSError("no such weights")
        self.asked, self.says = [], argument

    @staticmethod
    def files(argument):
        """Return what the answers depend on."""
        return [argument] if "/" in argument else []

    def judge(self, people):
        """Return one answer per person."""
        self.asked += people
        if self.says == "fails":
            raise RuntimeError("no answer")
        if self.says == "exits":
            raise SystemExit(0)
        if self.says in ("number", "string"):
            return [5 if self.says == "number" else "female" for _ in people]
        said = {
            "list": (["female"],),
            "text": ("female", "0.9"),
            "sure": ("male", 0.02, ""),
            "word": ("female", None, ""),
            "torn": ("unclear", None, "both at once"),
            "silent": ("", None, "a drawing"),
            "odd": ("Female", None, ""),
            "against": ("female", 0.1, ""),
        }.get(self.says)
        return [said or ("female" if p.position == 1 else "male", None, p.phrase) for p in people]


class Tones:
    """Skin tones by the brightness of the center of the face box, or as its argument says."""

    image_domain = "any"

    def __init__(self, argument, *, device, batch_size):
        self.says = argument

    def tones(self, people):
        """Return one tone per person, or None with a reason."""
        said = {
            "silent": (None, "a mask"),
            "dumb": (None,),
            "eleven": (11,),
            "half": (4.5,),
            "zero": (0,),
            "word": ("light",),
            "array": (np.array([1, 2]),),
        }
        if self.says == "fails":
            raise RuntimeError("no answer")
        if self.says == "few":
            return []
        return [said.get(self.says) or (self._tone(person),) for person in people]

    def _tone(self, person):
        left, top, right, bottom = person.box
        return 10 - round(person.image[int(top + bottom) // 2, int(left + right) // 2].mean() / 255 * 9)
