"""The pipeline's stages for images of people by position: prompts → images → each person's judgement → critique.

Source: paired paper.
"""

from __future__ import annotations

from functools import partial

import pandas as pd

import biaslab.papers.paired.prompts as asking
from biaslab.endpoints.images import NO_IMAGE_OUTCOMES
from biaslab.errors import unknown_name
from biaslab.hub.image_sources import ImageSource
from biaslab.judges.judge import Judge
from biaslab.judges.judge_labels import DUPLICATE
from biaslab.papers.paired.faircritic import counts, endpoint
from biaslab.papers.paired.faircritic.critique import Critique, briefs
from biaslab.papers.paired.faircritic.revision import revise
from biaslab.papers.paired.prompts import Prompts
from biaslab.pipeline.stages import Part, Pipeline, cached_method, cached_value, image_ids, with_prompt_columns
from biaslab.prompts import word_files
from biaslab.prompts.word_files import Words
from biaslab.ratings import annotations as annotated
from biaslab.schema.genders import GENDERS

# Kinds of prompts. The rounds of FairCritic follow them: faircritic_1, faircritic_2, …
KINDS = ("single", "paired", "controls", "three", "intervention")
ROUND = "faircritic_"
# Kinds that headlines use; their prompts do not depend on judgements.
HEADLINE_KINDS = ("single", "paired")
# Number of occupations of each list in section 5's intervention.
TOP = 5


class Paired(Part):
    """The stages for images of people whose positions the prompt states."""

    prompt_set = "paired"

    @cached_value
    def kinds(self) -> tuple[str, ...]:
        """The kinds of prompts in the settings, in order."""
        s = self._pipeline.settings
        candidates = HEADLINE_KINDS if self._pipeline.headlines_only else KINDS
        kinds = [k for k in candidates if k != "three" or s.paired.three_person_prompts]
        if self._pipeline.image_folder is not None:
            # For existing images, only kinds whose prompts have images.
            image_model = self._pipeline.image_model("paired")
            kinds = [k for k in kinds if image_model.n_cached(self._make_prompts(k).texts)]
        rounds = range(1, s.critic.rounds + 1) if "paired" in kinds else ()
        return (*kinds, *(f"{ROUND}{r}" for r in rounds))

    # -- prompts -------------------------------------------------------------------------------------

    @cached_value
    def words(self) -> Words | None:
        """The custom vocabulary, if the settings name a file."""
        file = self._pipeline.settings.paired.vocabulary_file
        return word_files.read(file, "paired.vocabulary_file") if file else None

    @cached_method
    def prompts(self, kind: str) -> Prompts:
        """Return the prompts that images of a kind are generated from, and the people that each prompt requests.

        ``kind`` is one of :attr:`kinds`; ``faircritic_<round>`` are the prompts of pairs, revised by critiques.
        """
        possible = self.possible_prompts(kind)
        if kind != "intervention" and not kind.startswith(ROUND):
            return possible
        # The prompts of the intervention and of FairCritic's rounds depend on judgements of the pairs.
        is_free = kind == "intervention" or self._pipeline.settings.critic.kind == "counts"
        placeholder = partial(self._placeholder, kind, possible)
        return self._pipeline.prompts_from_judgements(kind, _make_dependent_prompts, placeholder, is_free=is_free)

    def _placeholder(self, kind: str, possible: Prompts) -> Prompts:
        """Return the expected number of prompts of a kind, or similar ones, before any image is generated."""
        if kind != "intervention":
            return possible
        # The occupations that fit stereotypes most are not known yet, but their number is.
        people = possible.people[possible.people["level"] == ""].drop_duplicates("occupation")
        top = {g: group["occupation"].head(TOP).tolist() for g, group in people.groupby("stereotype")}
        return asking.select_prompts(possible, _top_prompt_ids(possible, top))

    @cached_method
    def possible_prompts(self, kind: str) -> Prompts:
        """Return the prompts of a kind; where they depend on judgements, all possible ones.

        Raises UnknownNameError for an unknown kind.
        """
        if kind not in self.kinds:
            raise unknown_name("kind of prompts", kind, self.kinds)
        return self._make_prompts(kind)

    def _make_prompts(self, kind: str) -> Prompts:
        s, seed = self._pipeline.settings.paired, self._pipeline.seed
        options = {"seed": seed, "words": self.words}
        pairs = {"per_list": s.n_occupations, "runs": s.power_samples, **options}
        if kind.startswith(ROUND):
            return _replace_setting(self.prompts("paired"), kind)
        if kind == "single":
            return asking.single(images=s.single_images, **pairs)
        if kind == "controls":
            return asking.controls(per_list=s.n_occupations, **options)
        if kind == "three":
            return asking.three(s.three_person_prompts, **options)
        return asking.paired(images=s.pair_images, setting=kind, **pairs)

    def top_occupations(self) -> dict[str, list[str]]:
        """Return the five occupations of each list whose pairs fit the stereotype most often, in descending order."""
        people = self.people("paired")
        classified = people[(people["aspect"] == "occupation") & people["gender"].isin(GENDERS)]
        classified = classified.assign(share=classified["gender"] == classified["stereotype"])
        share = classified.groupby(["stereotype", "occupation"])["share"].mean().reset_index()
        # Ties are sorted by name, so that the choice does not depend on the order of rows.
        ranked = share.sort_values(["share", "occupation"], ascending=[False, True])
        return {g: ranked.loc[ranked["stereotype"] == g, "occupation"].head(TOP).tolist() for g in GENDERS[::-1]}

    # -- images and people ---------------------------------------------------------------------------

    @cached_method
    def images(self, kind: str) -> ImageSource:
        """Return images of a kind, with a table of one row per image and the columns of its prompt."""
        texts = self.prompts(kind).texts
        source = self._pipeline.generate_images(texts, kind, "paired", several=kind != "single")
        return with_prompt_columns(source, texts)

    def requested_people(self, kind: str) -> pd.DataFrame:
        """Return one row per requested person in images of a kind, without duplicates and images never generated."""
        table = self.images(kind).table
        columns = ["image_id", "prompt_id", "aspect", "setting", "run"]
        table = table.loc[~table["status"].isin((*NO_IMAGE_OUTCOMES, DUPLICATE)), columns]
        # The judge's column ``role`` states whether people are in the requested order.
        people = self.prompts(kind).people.rename(columns={"role": "asked_role"})
        return table.merge(people, on="prompt_id").reset_index(drop=True)

    @cached_method
    def people(self, kind: str) -> pd.DataFrame:
        """Return the rows of :meth:`requested_people` with judgements of :func:`biaslab.judges.people.judge_people`."""
        self._pipeline.require(*self._pipeline.judge_settings, prompt_set="paired")
        gender, clip = self._pipeline.gender_judge, self._pipeline.clip_judge
        people = self.judge_people(kind, gender)
        # An open_clip model that is an additional judge compares people with phrases.
        if gender.needs_faces and clip and clip is not gender and not people["role"].any():
            roles = ["role", "role_p"]
            people[roles] = self.judge_people(kind, clip)[roles]
        return people

    def judge_people(self, kind: str, judge: Judge) -> pd.DataFrame:
        """Return the requested people with the labels of another judge of perceived gender."""
        if not judge.needs_images and not self._pipeline.headlines_only:
            self.check_ratings(judge)
        requested = self.requested_people(kind)
        columns = ["image_id", "position", "phrase"]
        judgements = self._pipeline.judge_people(self.images(kind).source, requested[columns], judge)
        new = [c for c in judgements if c not in requested]
        return requested.join(judgements[new].set_axis(requested.index))

    @cached_method
    def check_ratings(self, judge: Judge) -> None:
        """Raise InputError if annotations are of people that no kind can request."""
        judge.files()  # Checks that the file exists.
        frames = []
        for kind in self.kinds:
            texts, people = self.possible_prompts(kind)
            images = image_ids(texts)[["prompt_id", "image_id"]]
            frames.append(images.merge(people, on="prompt_id")[["image_id", "position"]])
        people, labels = pd.concat(frames, ignore_index=True), {"": annotated.GENDER_LABELS}
        annotated.read(judge.path, labels, people=people, strict=True)

    # -- FairCritic ----------------------------------------------------------------------------------

    @cached_method
    def critiques(self, round_: int) -> list[Critique]:
        """Return the critiques before round ``round_``; those before round 1 are of the unmitigated pairs."""
        pipeline = self._pipeline
        s = pipeline.settings.critic
        previous_kind = "paired" if round_ == 1 else f"{ROUND}{round_ - 1}"
        people = self.people(previous_kind).drop(columns="role").rename(columns={"asked_role": "role"})
        critiques = []
        for aspect in dict.fromkeys(people["aspect"]):
            aspect_briefs = briefs(
                people[people["aspect"] == aspect],
                aspect,
                round_,
                self.prompts(previous_kind).texts,
                self.images(previous_kind).source.read,
                critic=s.kind,
                batch_size=s.images_per_request,
                seed=pipeline.seed,
                earlier=self.critiques(round_ - 1) if round_ > 1 else (),
            )
            if s.kind == "counts":
                critiques += map(counts.critique, aspect_briefs)
            else:
                critiques += pipeline.compute(endpoint.critiques, aspect_briefs, pipeline.endpoint("critic"))
        return critiques


def _make_dependent_prompts(pipeline: Pipeline, kind: str) -> Prompts:
    """Return the prompts of a kind that depend on judgements: of the intervention, or of a round of FairCritic."""
    stages = pipeline.part(Paired)
    if kind == "intervention":
        possible = stages.possible_prompts(kind)
        return asking.select_prompts(possible, _top_prompt_ids(possible, stages.top_occupations()))
    critiques = stages.critiques(int(kind.removeprefix(ROUND)))
    return _replace_setting(revise(stages.prompts("paired"), critiques, seed=pipeline.seed, words=stages.words), kind)


def _top_prompt_ids(prompts: Prompts, top: dict[str, list[str]]) -> list[str]:
    """Return the ids of prompts about power, and of pairs of occupations in ``top``."""
    top_names = {name for names in top.values() for name in names}
    is_included = prompts.people["occupation"].isin(top_names) | (prompts.people["level"] != "")
    is_complete = is_included.groupby(prompts.people["prompt_id"]).all()
    return is_complete.index[is_complete].tolist()


def _replace_setting(prompts: Prompts, setting: str) -> Prompts:
    """Return prompts with ids of the setting, so that a round has images of its own."""
    ids = [table["prompt_id"].str.replace(r"^[^-]+", setting, regex=True) for table in prompts]
    texts = prompts.texts.assign(prompt_id=ids[0], setting="faircritic")
    return Prompts(texts, prompts.people.assign(prompt_id=ids[1]))
