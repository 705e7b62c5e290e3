"""Visual question answering by BLIP or BLIP-2: perceived gender of each person in the whole image, and captions.

The paired paper finds that such a judge agrees with annotators on images of one person and hardly at all on images of
two (Table 9).

Source: paired paper, appendix D, Table 8; BLIP-2's form of a question is that of its authors. Captions: dalleval paper,
section 4.3, which takes VL-T5 fine-tuned on COCO.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from biaslab.hub import registry as hub
from biaslab.judges import blip
from biaslab.judges.judge import Answer, HubJudge, People, Reply
from biaslab.judges.judge_labels import JUDGED, UNCERTAIN
from biaslab.judges.questions import line, question, read_answer


class VqaJudge(HubJudge):
    """A BLIP model for questions, or BLIP-2: a hub name or a folder, with or without ``vqa:``."""

    prefix, kind, needs_faces = "vqa:", "vqa", False
    check_kind = staticmethod(blip.check_config)
    batch_size = 64

    def load(self) -> blip.Model:
        """Return the model."""
        return blip.load(self.argument, self.kind, device=self.options.device)

    def ask(
        self,
        images: Sequence[np.ndarray],
        questions: Sequence[str],
        answers: object = None,
        image_domain: str = hub.PHOTOGRAPHS,
    ) -> list[Reply]:
        """Return the model's own words for each question and its image, on one line; an image is encoded once.

        ``answers`` and ``image_domain`` have no effect. Raises InputError where a number is not finite.
        """
        distinct = {id(image): image for image in images}
        places = {name: k for k, name in enumerate(distinct)}
        texts = self.model.ask(list(distinct.values()), [places[id(image)] for image in images], list(questions))
        return [Reply(line(text)) for text in texts]

    def answers(self, people: People) -> list[Answer]:
        """Return the perceived gender of each person, read from the answer to the paper's question."""
        questions = [question(person.phrase, person.position, person.people) for person in people.persons]
        replies = self.ask([person.image for person in people.persons], questions)
        answers = []
        for reply in replies:
            gender, reason = read_answer(reply.answer)
            status = UNCERTAIN if gender == "unsure" else JUDGED
            answers.append(Answer(gender=gender, status=status, reason=reason, text=reply.answer))
        return answers


class Captioner(VqaJudge):
    """A BLIP model for captions, or BLIP-2: a hub name or a folder. BLIP takes no question."""

    prefix, kind, description = "", "captioner", ""
