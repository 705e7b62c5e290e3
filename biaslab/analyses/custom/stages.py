"""Stages for custom prompts or existing images: prompts → images → people."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

import biaslab.analyses.custom.prompts as custom_prompts
from biaslab.errors import InputError, MissingInputError, ParameterError
from biaslab.hub.image_folder import TABLE_COLUMNS, ImageFolder
from biaslab.hub.image_sources import ImageSource
from biaslab.io import cells
from biaslab.io.plaintext import same_text
from biaslab.judges import vision
from biaslab.judges.answers import question_units
from biaslab.judges.judge import Judge, People
from biaslab.judges.judge_labels import NO_PERSON, UNCLEAR
from biaslab.judges.questions import CHOICES, PERSON, Question, read_questions
from biaslab.pipeline.stages import Part, cached_method, image_ids, with_prompt_columns

EVEN = 50.0
"""The share that groups are compared with where no benchmark is named, in percent."""


class Custom(Part):
    """Stages for custom prompts, or for the prompts of a folder of images."""

    prompt_set = "captions"

    @cached_method
    def prompts(self) -> pd.DataFrame:
        """Return the prompts, as :func:`biaslab.analyses.custom.prompts.prompts`, of the first condition.

        For a folder, the file of prompts (if any) selects prompts and their groups. Raises MissingInputError: There are
        neither prompts nor images. InputError: The file cannot be used, or no image has one of its prompts.
        """
        prompts = self._all_prompts()
        if "base_id" not in prompts:
            return prompts
        is_base = prompts["prompt_id"] == prompts["base_id"]
        return prompts[is_base].drop(columns="base_id").reset_index(drop=True)

    @cached_method
    def condition_prompts(self) -> pd.DataFrame:
        """Return the prompts of the other conditions, with ``other``, the condition of :meth:`prompts`.

        Their prompt_id is that of the same prompt in ``other``, so that their images have the same noise and image_id.
        """
        prompts = self._all_prompts()
        if "base_id" not in prompts:
            return prompts.head(0).assign(condition="", other="")
        is_base = prompts["prompt_id"] == prompts["base_id"]
        rows = prompts[~is_base].assign(other=prompts.loc[is_base, "condition"].iloc[0])
        return rows.assign(prompt_id=rows["base_id"]).drop(columns="base_id").reset_index(drop=True)

    @cached_method
    def _all_prompts(self) -> pd.DataFrame:
        s = self._pipeline.settings.custom
        file = custom_prompts.prompts(s.prompts_file, s.images_per_prompt) if s.prompts_file else None
        if self._pipeline.image_folder is None:
            if file is None:
                raise MissingInputError(
                    "There are no custom prompts. Set custom.prompts_file to a file, or model to 'images:FOLDER'."
                )
            return file
        table = read_prompts(self._pipeline.image_folder)
        if file is None:
            return table
        if "condition" in file:
            raise InputError(
                f"{s.prompts_file} has conditions, for which images are generated from the same noise. Use a model "
                f"instead of the folder {self._pipeline.image_folder.name}, or remove the column condition."
            )
        existing = table.assign(text_plain=table["text"].map(same_text)).drop(columns=["text", "group"])
        rows = file.assign(text_plain=file["text"].map(same_text))[["text", "group", "text_plain"]]
        rows = rows.merge(existing, on="text_plain").drop(columns="text_plain")[list(table)]
        if rows.empty:
            asks = f"such as {file['text'][0]!r}; their prompts are {', '.join(map(repr, table['text'][:3]))}."
            raise InputError(f"No image in {self._pipeline.image_folder.name} has a prompt of {s.prompts_file}, {asks}")
        if (twice := rows["prompt_id"].duplicated()).any():
            text, name = rows.loc[twice, "text"].iloc[0], self._pipeline.image_folder.name
            raise InputError(
                f"{s.prompts_file} contains {text!r} in two groups, but an image in {name} can belong to only one. "
                "Keep one row."
            )
        return rows

    def groups(self) -> list[str]:
        """Return the groups that people belong to, in order. Raises InputError: A group has the name of their mean."""
        if self._pipeline.image_folder is None:
            group_names = self.prompts()["group"]
        elif not self._pipeline.settings.custom.prompts_file:
            group_names = self._pipeline.image_folder.people["group"]
        else:
            prompts = self.prompts()
            # As in `people`: the file gives the group of a single person, the folder those of several in an image.
            texts_of_several = set(prompts.loc[prompts["people"] > 1, "text"].map(same_text))
            of_people = self._pipeline.image_folder.people.groupby("image_id").filter(lambda rows: len(rows) > 1)
            of_people = of_people.loc[of_people["prompt"].map(same_text).isin(texts_of_several), "group"]
            group_names = [*prompts.loc[prompts["people"] == 1, "group"], *of_people]
        groups = list(dict.fromkeys(group_names))
        if custom_prompts.ALL in groups:
            raise InputError(
                f"A group is called {custom_prompts.ALL!r}, which is the name of the mean over groups; rename it."
            )
        return groups

    @cached_method
    def benchmark(self) -> pd.DataFrame:
        """Return the share that each group is compared with: the file's, or an even split.

        A row for each group: group, percent_female (0–100; NaN where the file has no such group and
        ``custom.partial_benchmark`` is true), n (NaN where the share is not of a sample) and name (of the benchmark).

        Raises InputError: The prompts or the file cannot be used; it has none of the groups, or not all of them where
        ``custom.partial_benchmark`` is false.
        """
        groups, s = self.groups(), self._pipeline.settings.custom
        if not s.benchmark_file:
            return pd.DataFrame({"group": groups, "percent_female": EVEN, "n": np.nan, "name": custom_prompts.EVEN})
        shares = custom_prompts.benchmark(s.benchmark_file)
        rows = custom_prompts.match_groups(groups, shares)
        missing = rows.loc[rows["percent_female"].isna(), "group"].tolist()
        if len(missing) == len(groups):
            lists = (cells.join_values(names) for names in (shares["group"], groups))
            raise InputError(
                f"{s.benchmark_file} contains shares of {next(lists)}, but of none of the groups here: {next(lists)}."
            )
        if not s.partial_benchmark and missing:
            raise InputError(
                f"{s.benchmark_file} contains no share for {len(missing)} of {len(groups)} groups of "
                f"{self._pipeline.label}: "
                f"{custom_prompts.describe_names(missing, custom_prompts.unmatched_groups(groups, shares))}. "
                "Add a row for each, or set custom.partial_benchmark to true to compare only the other groups."
            )
        return rows.assign(name=f"the benchmark {Path(s.benchmark_file).name}")

    def check_ratings(self, judge: Judge) -> None:
        """Raise InputError where the annotations include none of the expected people."""
        judge.files()  # Raises an error without its file.
        people = self.expected_people()
        if all(answer.status == "unannotated" for answer in judge.answers(People(people))):
            raise InputError(
                f"{judge.path} annotates none of the {len(people):,} people here, such as "
                f"{people['image_id'].iloc[0]!r}."
            )

    def expected_people(self) -> pd.DataFrame:
        """Return the prompted people: image_id and position (1 is the leftmost)."""
        if self._pipeline.image_folder is not None:
            return self._pipeline.image_folder.people[["image_id", "position"]].reset_index(drop=True)
        images = image_ids(self.prompts())
        people = images.loc[images.index.repeat(images["people"]), ["image_id"]]
        return people.assign(position=people.groupby("image_id").cumcount() + 1).reset_index(drop=True)

    @cached_method
    def images(self) -> ImageSource:
        """Return the images, with a table of one row per image and the columns of its prompt."""
        return self._images(self.prompts(), "custom")

    @cached_method
    def condition_images(self, condition: str) -> ImageSource:
        """Return the images of another condition."""
        prompts = self.condition_prompts()
        rows = prompts[prompts["condition"] == condition].reset_index(drop=True)
        return self._images(rows, f"custom ({condition})")

    def _images(self, prompts: pd.DataFrame, kind: str) -> ImageSource:
        has_several_people = bool((self._all_prompts()["people"] > 1).any())
        rows = prompts.assign(occupation=prompts["group"])
        return with_prompt_columns(self._pipeline.generate_images(rows, kind, several=has_several_people), prompts)

    def requested_people(self, images: ImageSource) -> pd.DataFrame:
        """Return one row per prompted person: the columns of ``images``, position and group."""
        table = images.table.drop(columns="status", errors="ignore")
        requested = table.loc[table.index.repeat(table["people"])].reset_index(drop=True)
        requested["position"] = requested.groupby("image_id").cumcount() + 1
        if self._pipeline.image_folder is not None:
            # People in one image may belong to several groups.
            group = self._pipeline.image_folder.people.set_index(["image_id", "position"])["group"]
            keys = pd.MultiIndex.from_frame(requested[["image_id", "position"]])
            requested["group"] = requested["group"].where(requested["people"] == 1, group.reindex(keys).to_numpy())
        return requested

    @cached_method
    def people(self) -> pd.DataFrame:
        """Return one row per prompted person, with status and perceived gender.

        The columns of :meth:`images`, position (1 is the leftmost) and those of
        :func:`biaslab.judges.people.judge_people`. Raises as :meth:`biaslab.pipeline.Stages.require`.
        """
        # Before images are generated.
        self._pipeline.require(*self._pipeline.judge_settings)
        return self._people(self.images())

    @cached_method
    def condition_people(self) -> pd.DataFrame:
        """Return :meth:`people` of the images of all other conditions."""
        self._pipeline.require(*self._pipeline.judge_settings)
        names = self.condition_prompts()["condition"].unique()
        return pd.concat([self._people(self.condition_images(name)) for name in names], ignore_index=True)

    def _people(self, images: ImageSource) -> pd.DataFrame:
        requested = self.requested_people(images)
        judge = self._pipeline.gender_judge
        if not judge.needs_images:
            self.check_ratings(judge)
        every_face, keys = self._pipeline.settings.custom.all_faces, ["image_id", "position"]
        if every_face and (not judge.needs_faces or self._pipeline.settings.judging.annotations):
            raise ParameterError(
                "custom.all_faces is true, so people are the detected faces. Annotations and judges without a face "
                f"detector, such as {judge.name!r}, cannot identify these. Set custom.all_faces to false, or use only "
                "judges such as 'dlib'."
            )
        people = requested[keys].assign(phrase="person")
        judgements = self._pipeline.judge_people(images.source, people, judge, every_face=every_face)
        # A face beyond the prompted people takes the row of the last of them in its image.
        rows = pd.Series(range(len(requested)), pd.MultiIndex.from_frame(requested[keys]))
        rows = rows.reindex(pd.MultiIndex.from_frame(judgements[keys])).ffill().astype(int)
        requested = requested.iloc[rows].reset_index(drop=True).assign(position=judgements["position"].to_numpy())
        return requested.join(judgements[[c for c in judgements if c not in requested]].set_axis(requested.index))

    @property
    def question_setting(self) -> str:
        """The name of the setting that selects the judge of custom questions."""
        return "judging.question_model" if self._pipeline.settings.judging.question_model else "judging.gender"

    @cached_method
    def questions(self) -> list[Question]:
        """Return the custom questions, empty without a file; InputError where the file cannot be used.

        Raises ParameterError: The judge answers no questions, or needs faces and no face detector is set.
        """
        file, setting = self._pipeline.settings.judging.questions_file, self.question_setting
        if not file:
            return []
        judge = self._pipeline.judge(setting)
        if not hasattr(judge, "ask"):
            fix = (
                "set judging.question_model to 'endpoint:NAME' of a vision-language model or to 'vqa:NAME'. For human "
            )
            fix += "answers, use 'biaslab annotate RUN --questions FILE'."
            name = judge.name if judge else ""
            raise ParameterError(f"{setting} is {name!r}, which cannot answer judging.questions_file; {fix}")
        questions = read_questions(file)
        if any(question.of == PERSON for question in questions):
            self._pipeline.check_person_view(setting)
        return questions

    @cached_method
    def answers(self) -> pd.DataFrame:
        """Return the answers to custom questions (``judging.questions_file``), one per person or image.

        Columns: image_id, group, text, position, question, choices (its answers, in one text), answer (one of them,
        ``unclear``, or empty) and reason (for an empty answer).
        """
        columns = ["image_id", "group", "text", "position", "question", "choices", "answer", "reason"]
        if not self.questions():
            return pd.DataFrame(columns=columns, dtype=object)
        judge, people, source = self._pipeline.judge(self.question_setting), self.people(), self.images().source
        of_images = people.drop_duplicates("image_id")
        rows = []
        for question in self.questions():
            people_asked = (people if question.of == PERSON else of_images).reset_index(drop=True)
            if question.of == PERSON:
                units = question_units(people_asked, question.question, question.answers, judge)
            else:
                units = people_asked[["image_id"]].assign(
                    question=question.question, answers=json.dumps(question.answers)
                )
            replies = self._pipeline.ask(self.question_setting, source, units)
            allowed = (*question.answers, NO_PERSON)
            replies["answer"] = [vision.find_choice(text, allowed) for text in replies["answer"]]
            replies = replies.set_index(units.index)
            answer = replies["answer"].where(replies["answer"] != NO_PERSON, "")
            reasons = replies["reason"].where(replies["reason"] != "", replies["status"])
            reasons = reasons.where(replies["answer"] != NO_PERSON, "the judge detects no person")
            reasons = reasons.where((reasons != "") | (answer != ""), "no answer from the list").where(answer == "", "")
            person_status = people_asked["status"].where(people_asked["status"] != "judged", "no face")
            rows.append(
                people_asked[["image_id", "group", "text", "position"]].assign(
                    question=question.name,
                    choices=CHOICES.join(a for a in question.answers if a != UNCLEAR),
                    position=people_asked["position"] if question.of == PERSON else 0,
                    answer=answer.reindex(people_asked.index, fill_value=""),
                    reason=reasons.reindex(people_asked.index).fillna(person_status),
                )
            )
        return pd.concat(rows, ignore_index=True)[columns]


def read_prompts(folder: ImageFolder) -> pd.DataFrame:
    """Return the prompts of a folder's images, as :func:`.prompts.prompts`, with :data:`TABLE_COLUMNS`.

    Prompts that differ only in case, blanks or a final full stop are one prompt, in the first spelling.
    """
    images = folder.described_images.assign(same=lambda rows: rows["prompt"].map(same_text))
    prompts = images.groupby(["same", *TABLE_COLUMNS], sort=False)["prompt"]
    table = prompts.agg(n_images="size", prompt="first").reset_index()
    ids = [f"custom-{k:05d}" for k in range(len(table))]
    columns = {"text": table["prompt"], "group": table["told_group"], "people": table["told_people"]}
    return table.assign(prompt_id=ids, **columns).drop(columns=["same", "prompt"])
