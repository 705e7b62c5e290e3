"""FairCritic in words: what it changes, what it costs, whom its prompts tell what, and critiques beside their images.

Critiques of a critic at an endpoint are texts of strangers: they are shown as plain text and never as markup.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab import stats
from biaslab.errors import MissingInputError
from biaslab.figures.paired_critic import Entry, Picture, critiques
from biaslab.findings import NoFinding, none_could
from biaslab.prompts.paired import sentence
from biaslab.studies.paired import LISTS, added_words, told_genders
from biaslab.studies.paired_words import _assumed, _each, _level, _moved, _range, how

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from biaslab.study import Study

_NAMES = {"faircritic": "FairCritic", "intervention": "the intervention"}
_LOOK = {"female": "women", "male": "men"}
_ONE = {"female": "a woman", "male": "a man"}
_LONGEST = 600
_CHOSEN = " The ten were chosen for their scores in the same images: part of any fall is chance."
_MITIGATED = ("intervention", "faircritic")
_FIGURES = {
    "paired_before_after": (
        "Each identity with and without mitigation",
        "Score of each identity with mitigation (up) over its score in the same pairs without (across). On the dashed "
        "line nothing has changed; below 0 people fit the opposite of their stereotype more often. Grey: scores that "
        "a fair model shows in {level} of cases or more at the middle n. Filled: differs from 0 with mitigation after "
        "Holm's correction. Areas count identities; the lists are drawn a little aside. Chance alone draws extreme "
        "identities towards the middle. n of each is in the table paired_identity_mitigation.",
    ),
    "paired_told": (
        "What prompts tell",
        "Share of prompts that tell the person of each list to be a woman or a man, add words that tell no gender, or "
        "add nothing; numbers are prompts.",
    ),
    "paired_valid_mitigated": (
        "What mitigation costs",
        "Share of images with as many people as asked for, with everyone's gender judged, with the people in the "
        "order asked for, and with all of it, {level} Wilson intervals over images; n counts images in the order of "
        "the legend. The intervention for occupations is tried on pairs among ten occupations only.",
    ),
}


def save(study: Study, name: str, figure: Figure, *, main: bool = False) -> None:
    """Save a figure of mitigation with its title and caption.

    Raises:
        KeyError: No caption is written for ``name``.
    """
    title, caption = _FIGURES[name]
    notes = [how(study), *planted(study)] if name == "paired_before_after" else [how(study)]
    caption = " ".join(filter(None, (caption.format(level=_level(study)), *notes)))
    study.save_figure(name, figure, title=title, caption=caption, main=main)


def planted(study: Study) -> list[str]:
    """Say of the embedded models that FairCritic is measured on what of its effect was put into them."""
    from biaslab.mini.pairs import FORMS

    told = f"the sentence that FairCritic adds to prompts (“{sentence(['nurse'], ['male'])}”)"
    said = {
        "mini": f"mini: {100 * FORMS['sentence']:.0f} % of the texts that its model of people was trained on end in "
        f"{told}, with people as told. So what FairCritic does to its scores is largely planted: it tests measure and "
        "critic, and says nothing of models that were not taught this sentence.",
        "world": f"world: whatever {told} says is drawn. So what FairCritic does to its scores is planted: it tests "
        "measure and critic, and says nothing of any model.",
    }
    table = study.table("paired_mitigation").dropna(subset=["score", "ci_low"])
    models = dict.fromkeys(table.loc[table["mitigation"] == "faircritic", "model"])
    return [said[model] for model in models if model in said]


# -- what changes --------------------------------------------------------------------------------------------


def side_by_side(study: Study) -> pd.DataFrame:
    """Return scores without and with mitigation, models side by side (layout of Table 2 and of Table 1's last rows).

    Measured scores have their interval in brackets, printed ones have none.
    """
    table = study.table("paired_mitigation").dropna(subset=["score"])
    keys = ["aspect", "scope", "mitigation", "stereotype"]
    said = [
        f"{r['score']:.1f} ({_range(r)})" if isfinite(r["ci_low"]) else f"{r['score']:.2f}"
        for _, r in table.iterrows()
    ]
    wide = table.assign(said=said).pivot(index=keys, columns="model", values="said")
    ranks = {
        v: k for k, v in enumerate(("all", "top5", "none", "intervention", "faircritic", *LISTS, "overall"))
    }
    wide = wide.sort_index(key=lambda level: level.map(lambda v: (ranks.get(v, -1), v)))
    wide = wide.reindex(columns=list(dict.fromkeys(table["model"]))).fillna("")
    return wide.rename_axis(columns=None)


def change_finding(study: Study) -> str:
    """Say how far mitigation moves the overall score, and how many identities lean which way then."""

    def say(model: str, aspect: str, scope: str, mitigation: str, rows: pd.DataFrame) -> str:
        row = rows.iloc[0]
        way = _moved(row, "up", "down", "without a change that is shown")
        which = " (top 5 of each list)" if scope == "top5" else ""
        text = (
            f"{model}, {aspect}{which}: {_NAMES[mitigation]} moves the overall score {way}, {row['change']:+.1f} "
            f"points ({_range(row)}{_assumed(row)}). "
        )
        return text + _leaning(row, 1 - study.confidence) + (_CHOSEN if scope == "top5" else "")
        text += (
            f"Of {row['n_identities']:.0f} identities {row['n_towards_before']:.0f} leaned "
            f"towards and {row['n_against_before']:.0f} against their stereotype; with it {row['n_towards']:.0f} "
            f"towards and {row['n_against']:.0f} against"
        )
        text += " (over-correction)" if row["n_against"] > row["n_against_before"] else ""
        text += ", after Holm's correction."
        return text + (_CHOSEN if scope == "top5" else "")

    table = study.table("paired_mitigation_change")
    table = table[(table["stereotype"] == "overall")].dropna(subset=["change"])
    return _each(study, table, ["model", "aspect", "scope", "mitigation"], say)


def _leaning(row, level: float) -> str:
    """Say how many identities lean which way without mitigation and with it, or that this cannot be told."""
    sides, blind = [], []
    for of, when in (("_before", "without it"), ("", "with it")):
        if row[f"smallest_p_holm{of}"] >= level:
            blind.append(when)
        else:
            towards, against = (f"{row[f'n_{way}{of}']:.0f}" for way in ("towards", "against"))
            sides.append(f"{when} {towards} lean towards and {against} against their stereotype")
    identities = f"{row['n_identities']:.0f} identities"
    said = ""
    if sides:
        over = not blind and row["n_against"] > row["n_against_before"]
        said = f"Of {identities}, {'; '.join(sides)}{' (over-correction)' if over else ''}, after Holm's correction."
    if blind:
        n = row["n"] / row["n_identities"]
        people = f"{n:.0f} people" if n == round(n) else f"some {n:.1f} people"
        smallest = row[["smallest_p_holm_before", "smallest_p_holm"]].max()
        takes = stats.needed(stats.least_binomial_p, int(row["n_identities"]), level)
        none = none_could(people, smallest, level, takes=takes, of="people")
        said += (
            f"{' ' if said else ''}Which of {identities} lean {' and '.join(blind)} cannot be told: {none}."
        )
    return said


def told_finding(study: Study) -> str:
    """Say how many prompts tell whom what, and whether people look as told."""

    def say(model: str, aspect: str, setting: str, round_: str, rows: pd.DataFrame) -> str:
        said = []
        for _, row in rows.iterrows():
            whom = f"the {row['stereotype']}-stereotyped person"
            if row["told"] == "nothing":
                continue
            share = f"{row['percent']:.1f} % ({_count(row['n_prompts'], 'prompt', 'prompts')})"
            if row["told"] in LISTS:
                as_told = row["percent_female"] if row["told"] == "female" else 100 - row["percent_female"]
                ends = [row["ci_low"], row["ci_high"]]
                low, high = ends if row["told"] == "female" else (100 - ends[1], 100 - ends[0])
                seen = (
                    f"; {as_told:.1f} % of {row['n']:.0f} look it ({low:.1f} to {high:.1f})"
                    if row["n"]
                    else ""
                )
                said.append(f"{whom} is to be {_ONE[row['told']]} in {share}{seen}")
            else:
                said.append(f"words without a gender are added for {whom} in {share}")
        by = f"{_NAMES[setting]}, round {round_}" if round_ != "0" else _NAMES[setting]
        return f"{model}, {aspect}, {by}: {'; '.join(said) or 'no prompt is changed'}."

    return _each(study, study.table("paired_told"), ["model", "aspect", "setting", "round"], say)


def cost_finding(study: Study) -> str:
    """Say what share of images is valid with mitigation, and whether fewer are than without."""
    table = study.table("paired_valid_images").query("measure == 'valid'")
    before = table[table["setting"] == "paired"].set_index(["model", "aspect"])

    def say(model: str, aspect: str, setting: str, rows: pd.DataFrame) -> str:
        row = rows.iloc[0]
        text = (
            f"{model}, {aspect}, {_NAMES[setting]}: {row['percent']:.1f} % ({_range(row)}) of {row['n_images']:.0f} "
            "images show both people as asked"
        )
        if not isfinite(row["change"]) or (model, aspect) not in before.index:
            return text + "."
        first, ends = before.loc[(model, aspect)], ("change_ci_low", "change_ci_high")
        way = _moved(row, "a rise", "a fall", "no change shown", *ends)
        return (
            f"{text}, without mitigation {first['percent']:.1f} % of {first['n_images']:.0f}: {way}, "
            f"{row['change']:+.1f} points ({_range(row, *ends)})."
        )

    some = table[table["setting"].isin(_MITIGATED)].dropna(subset=["percent"])
    return _each(study, some, ["model", "aspect", "setting"], say)


# -- critiques -----------------------------------------------------------------------------------------------


def critique_finding(study: Study) -> str:
    """Say what each critique of a whole batch says, in the critic's own words, and how many are no judgement."""
    table = study.measured_or_empty("paired_critiques")
    said = []
    for (model, aspect, round_), rows in table.groupby(["model", "aspect", "round"], sort=False):
        batches = rows.drop_duplicates("batch_id")
        judged = batches[batches["outcome"] == "judged"]
        biased = (judged["biased"] == "yes").sum()
        told = rows[rows["guideline"] != ""]
        text = (
            f"{model}, {aspect}, round {round_}: {_count(len(batches), 'batch', 'batches')} of images looked at "
            f"({rows['n_images'].max():.0f} images at most), {len(judged)} judged, {biased} found biased; "
            f"{_count(len(told), 'guideline', 'guidelines')}."
        )
        whole = judged[judged["identity"] == ""]
        said.append(
            text + "".join(f" The critic: {_short(r.kind)}. {_short(r.reasons)}" for r in whole.itertuples())
        )
    return "\n".join(said) or NoFinding("The source has no critiques.")


def _count(n: float, one: str, many: str) -> str:
    return f"{n:.0f} {one if n == 1 else many}"


def _short(text: str) -> str:
    """Return a text as one line, of a length that a report can hold."""
    line = " ".join(str(text).split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1].rstrip() + "…"


def in_words(study: Study) -> pd.DataFrame:
    """Return every critique in words: round, whom it is about, the kind of bias, the reasons, what it asks for."""
    table = study.measured_or_empty("paired_critiques")
    whom = table["identity"].where(table["identity"] != "", "all (" + table["batch_id"] + ")")
    table = table.rename(columns={"guideline": "asks", "share": "percent_of_prompts"}).assign(about=whom)
    said = ["model", "round", "aspect", "about", "biased", "kind", "reasons", "asks", "percent_of_prompts"]
    return table[[*said, "n", "n_images"]]


def show_critiques(study: Study, *, most: int = 0, each: int = 3) -> None:
    """Save a gallery for each round, aspect and list: every critique in words beside images before and after it.

    Args:
        study: Gives critiques, prompts and images. Without images the critiques are printed.
        most: How many critiques of each gallery to show, those with the highest share of changed prompts; 0 is all.
        each: Images of each side.
    """
    table = study.measured_or_empty("paired_critiques")
    if table.empty:
        print("The source has no critiques.")
        return
    try:
        people = study.pipeline.people
    except MissingInputError as missing:
        print(f"No images beside critiques: {missing}")
        for row in table.itertuples():
            print(f"{row.identity or row.batch_id}: {_short(row.reasons)}")
        return
    for (round_, aspect), rows in table.groupby(["round", "aspect"], sort=False):
        images = _Images(people, int(round_), aspect, each)
        for stereotype, some in rows.groupby(images.stereotypes(rows), sort=False):
            if stereotype:
                # The critique of all stands above those of the list.
                whole = rows[[s == "" for s in images.stereotypes(rows)]]
                _save_page(
                    study, images, int(round_), aspect, stereotype, pd.concat([whole, _most(some, most)])
                )
        if not any(images.stereotypes(rows)):
            _save_page(study, images, int(round_), aspect, "", _most(rows, most))


def _most(rows: pd.DataFrame, most: int) -> pd.DataFrame:
    return rows.sort_values("share", ascending=False, kind="stable").head(most) if most else rows


def _save_page(
    study: Study, images: _Images, round_: int, aspect: str, stereotype: str, rows: pd.DataFrame
) -> None:
    what = "occupations" if aspect == "occupation" else "power roles"
    which = f"{stereotype}-stereotyped {what}" if stereotype else what
    study.save_figure(
        "_".join(filter(None, ("paired_critiques", str(round_), aspect, stereotype))),
        critiques([images.entry(row) for row in rows.itertuples()], each=images.each),
        title=f"Critiques of {which}, round {round_}",
        caption=(
            f"Every critique of {which} in the critic's words, and in blue what prompts are told for it. Left images "
            "that it was made from, right images of the same prompts with what was added; not chosen by hand: first "
            "prompts that changed for this critique, spread over its pairs, then others. Thin boxes: faces found; "
            f"thick: the people it is about. Below: how they are seen, and what the prompt told. {how(study)}"
        ).strip(),
    )


class _Images:
    """Images of one aspect before and after a round, found by whom a critique is about."""

    def __init__(self, people, round_: int, aspect: str, each: int) -> None:
        before = "paired" if round_ == 1 else f"faircritic_{round_ - 1}"
        self.each = each
        self._sides = {}
        for side, kind in (("before", before), ("after", f"faircritic_{round_}")):
            rows = people.people(kind)
            rows = rows[rows["aspect"] == aspect]
            self._sides[side] = rows.assign(pair=_pairs(rows["prompt_id"])), people.images(kind).source
        texts = people.prompts(f"faircritic_{round_}").texts
        self._texts = dict(zip(_pairs(texts["prompt_id"]), texts["text"], strict=True))
        plain = people.prompts("paired").texts
        self._plain = dict(zip(_pairs(plain["prompt_id"]), plain["text"], strict=True))

    def about(self, rows: pd.DataFrame, identity: str) -> pd.Series:
        """Return which rows of people a critique about an identity or role is about; all where it is about all."""
        if not identity:
            return pd.Series(True, rows.index)
        return (rows["identity"] == identity) | (rows["asked_role"] == identity)

    def stereotypes(self, critiques: pd.DataFrame) -> list[str]:
        """Return for each critique the list of those whom it is about; empty where it is about both."""
        rows = self._sides["before"][0]
        found = []
        for batch_id, identity in zip(critiques["batch_id"], critiques["identity"], strict=True):
            whom = rows.loc[self.about(rows, identity or _batch_of(batch_id)), "stereotype"].unique()
            found.append(str(whom[0]) if len(whom) == 1 else "")
        return found

    def entry(self, critique) -> Entry:
        """Return a critique with some of its images."""
        identity = critique.identity or _batch_of(critique.batch_id)
        before, after = (self._sides[s][0] for s in ("before", "after"))
        mine = after[self.about(after, identity)].drop_duplicates("pair")
        told = [
            self._told(pair, position, bool(identity))
            for pair, position in zip(mine["pair"], mine["position"], strict=True)
        ]
        pairs = _spread(mine.assign(changed=[bool(t) for t in told]), self.each)
        changed = sum(bool(t) for t in told)
        example = next((self._added(p) for p, t in zip(mine["pair"], told, strict=True) if t), "")
        text = f"added to {changed} of {_count(len(mine), 'prompt', 'prompts')}"
        text += f", such as: {_short(example)}" if example else "."
        if critique.guideline:
            share = "" if np.isnan(critique.share) else f" in {critique.share:.0f} % of prompts"
            text = f"Asks for “{_short(critique.guideline)}”{share}; {text}"
        seen = before[self.about(before, identity)]
        return Entry(
            heading=identity or "All of them",
            words=_short(critique.reasons),
            added=text[0].upper() + text[1:],
            before=self._pictures("before", seen, pairs, identity),
            after=self._pictures("after", mine, pairs, identity),
        )

    def _added(self, pair: str) -> str:
        return added_words(self._plain[pair], self._texts[pair])

    def _told(self, pair: str, position: int, one: bool) -> str:
        """Return what a prompt tells the person at a position; where not ``one`` is meant, what it tells anybody."""
        told, more = told_genders(self._plain[pair], self._added(pair))
        said = told.get({1: "left", 2: "right"}.get(int(position), ""), "")
        if one:
            return said or ("other words" if more else "")
        return "a gender" if told else "other words" if more else ""

    def _pictures(self, side: str, rows: pd.DataFrame, pairs: list[str], identity: str) -> list[Picture]:
        everyone, source = self._sides[side]
        chosen = rows.drop_duplicates("pair").set_index("pair").reindex(pairs).dropna(subset=["image_id"])
        found = []
        for (pair, row), image in zip(
            chosen.iterrows(), source.read(chosen["image_id"].tolist()), strict=True
        ):
            people = everyone[everyone["image_id"] == row["image_id"]]
            told = self._told(pair, row["position"], True) if side == "after" and identity else ""
            found.append(
                Picture(image, people.assign(meant=self.about(people, identity) & bool(identity)), told)
            )
        return found


def _pairs(prompt_ids: pd.Series) -> list[str]:
    """Return what the ids of the same pair's prompts have in common in all settings."""
    return [p.partition("-")[2] for p in prompt_ids]


def _batch_of(batch_id: str) -> str:
    """Return the identity or role that a batch is about; empty where it holds all of an aspect."""
    return batch_id.partition("/")[2]


def _spread(rows: pd.DataFrame, each: int) -> list[str]:
    """Return pairs spread evenly over those whose prompt changed, filled up with others."""
    chosen: list[str] = []
    for changed in (True, False):
        pairs = rows.loc[rows["changed"] == changed, "pair"].tolist()
        room = each - len(chosen) - (changed and each > 1 and not rows["changed"].all())
        steps = np.linspace(0, len(pairs) - 1, min(max(room, 0), len(pairs))).round().astype(int)
        chosen += [pairs[k] for k in steps]
    return chosen
