"""A judge that looks at nothing but how bright an image is: it shows what biaslab asks of a judge."""

import numpy as np


class Brightness:
    """Perceived as female: the mean brightness of the whole image, 0 to 1, times a factor."""

    # Of drawings and photographs alike.
    image_domain = "any"

    def __init__(self, argument, *, device, batch_size):
        self.factor = float(argument or 1)

    def judge(self, people):
        """Return a gender and its probability each."""
        shares = [self.factor * person.image.mean() / 255 for person in people]
        return [("female" if share >= 0.5 else "male", share) for share in shares]


def nothing(argument, *, device, batch_size):
    """Return what is no judge."""
    return object()


class Asked:
    """Answers about people: what its argument says, or by where somebody stands where there is none."""

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
        """Return an answer each."""
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
    """Says skin tones by how bright the middle of the face's box is, or what its argument says."""

    image_domain = "any"

    def __init__(self, argument, *, device, batch_size):
        self.says = argument

    def tones(self, people):
        """Return a tone each, or nothing with a reason."""
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
