"""People who annotated images as a judge: ``annotations:FILE``, or a folder with one file per annotator."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from biaslab.hub import registry as hub
from biaslab.io import cells, reading
from biaslab.judges.judge import Answer, FileJudge, People
from biaslab.ratings import annotations as annotated


class AnnotationJudge(FileJudge):
    """The majority of annotators for each person. A tie is uncertain; a person without annotations is unannotated."""

    prefix, domain = "annotations:", hub.ANY
    needs_faces = needs_images = False
    is_available = Path.exists

    def digest(self) -> str:
        """Return a digest of the file, or of all files of the folder; the name where they are missing."""
        if not self.path.is_dir():
            return super().digest()
        digests = [(file.name, reading.file_digest(file)) for file in cells.files(self.path)]
        return hashlib.sha256(json.dumps(digests).encode()).hexdigest()

    def answers(self, people: People) -> list[Answer]:
        """Return the status and gender of each person; annotations of other people are left out.

        Raises InputError where the file cannot be read as annotations of people.
        """
        rows = annotated.judgements(people.table, self.path)
        columns = (rows[name] for name in ("gender", "status", "reason"))
        labels = zip(*columns, strict=True)
        return [Answer(gender=gender, status=status, reason=reason) for gender, status, reason in labels]


class AnnotationTones(AnnotationJudge):
    """The skin tone that most annotators chose for a person, by the question ``skin tone``."""

    task = "tones"

    def tones(self, people: People) -> list[tuple[float, str]]:
        """Return the tone of each person (Monk scale, 1 to 10, or NaN) and a reason; raises as :meth:`answers`."""
        person = ["image_id", "position"]
        labels = {annotated.TONES: annotated.LABELS[annotated.TONES]}
        frame = annotated.read(self.path, labels, people=people.table)
        votes = people.table[person].merge(annotated.votes(frame, person), "left", on=person)["label"]
        votes = votes.astype(object).fillna("unannotated")
        return [(float(vote), "") if vote.isdecimal() else (float("nan"), vote) for vote in votes]
