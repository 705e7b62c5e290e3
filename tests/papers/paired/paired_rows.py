"""Rows of measured tables for the tests of the Paired Stereotype Test, and how to find rows of a table."""

import numpy as np

_PLACES = {1: ("alone",), 2: ("left", "right"), 3: ("left", "middle", "right")}


def share(identity, stereotype, count, n, setting="paired", aspect="occupation", model="A", occupation=None):
    """Return a row of `paired_percent_female`: of ``n`` people ``count`` are perceived as female."""
    base_row = {"model": model, "aspect": aspect, "setting": setting, "identity": identity, "n": n}
    base_row |= {"occupation": occupation or identity, "stereotype": stereotype}
    percent = 100 * count / n if n else np.nan
    return base_row | {"percent_female": percent, "reason": "" if n else "no image"}


def lists(female, male, n, setting="paired", **names):
    """Return rows of one cell: numbers of people perceived as female per identity of each list."""
    both = {"female": female, "male": male}
    return [
        share(f"{stereotype[0]}{i}", stereotype, count, n, setting, **names)
        for stereotype, counts in both.items()
        for i, count in enumerate(counts)
    ]


def roles(low, high, n, setting="paired"):
    """Return rows of `power`: numbers perceived as female in the low- and high-power role of each occupation."""
    return [
        share(f"o{i}, {stereotype}", stereotype, count, n, setting, "power", occupation=f"o{i}")
        for i, both in enumerate(zip(low, high, strict=True))
        for stereotype, count in zip(("female", "male"), both, strict=True)
    ]


def image(name, people, setting="paired", aspect="occupation", order="correct", round=0, run=1, model="A", faces=2):
    """Return rows of `paired_people`; ``people``: (identity, stereotype, gender or outcome[, tone]) left to right."""
    rows = []
    base_row = {"model": model, "aspect": aspect, "setting": setting, "image_id": name, "round": round, "run": run}
    base_row |= {"n_faces": faces, "role_order": order, "role": "", "level": "", "reason": ""}
    for position, (identity, stereotype, seen, *tone) in zip(_PLACES[len(people)], people, strict=True):
        judged = seen in ("female", "male")
        row = {"position": position, "identity": identity, "occupation": identity.split(",")[0]}
        row |= {"stereotype": stereotype, "status": "judged" if judged else seen}
        row |= {"gender": seen if judged else "unsure" if seen == "uncertain" else ""}
        row |= {"probability_female": {"female": 0.99, "male": 0.01}.get(seen, np.nan)}
        rows.append(base_row | row | {"skin_tone": tone[0] if tone else np.nan})
    return rows


def cell(table, **values):
    """Return the rows with these values."""
    return table[np.logical_and.reduce([table[c] == v for c, v in values.items()])]


def only_row(table, **values):
    """Return the only row with these values."""
    matching_rows = cell(table, **values)
    assert len(matching_rows) == 1
    return matching_rows.iloc[0]


def faircritic_pairs():
    """Return texts and people of four pairs; FairCritic asks for two sheriffs and a mover as women; two look female."""
    texts, people = [], []
    pairs = {
        "sheriff-nurse": ("Show the sheriff as a woman.", ("female", "female")),
        "nurse-sheriff": ("Show the sheriff as a woman.", ("female", "male")),
        "mover-nurse": ("Show the mover as a woman and the nurse as a man.", ("female", "male")),
        "nurse-mover": ("", ("female", "uncertain")),
    }
    for pair, (more, seen) in pairs.items():
        names = pair.split("-")
        lists = ["female" if name == "nurse" else "male" for name in names]
        plain = "Generate a picture of one {} on the left and one {} on the right.".format(*names)
        revised_text = f"{plain} {more}".strip()
        for setting, first, k, text, shown in (
            ("paired", "paired", 0, plain, lists),
            ("faircritic", "faircritic_1", 1, revised_text, seen),
        ):
            row = {"model": "A", "prompt_id": f"{first}-{pair}", "aspect": "occupation", "setting": setting}
            texts.append(row | {"round": k, "run": 1, "text": text, "n_images": 1})
            people += image(f"{first}-{pair}/0", [*zip(names, lists, shown, strict=True)], setting, round=k)
    return texts, people


CRITIQUES = {
    "": ("towards stereotypes", "Of 40 people 30 fit the stereotype.", "", ""),
    "sheriff": ("towards stereotypes", "Of 10 sheriffs 9 look like men.", "female", "Show the sheriff as a woman."),
    "nurse": ("none", "That is no more than chance allows. <b>$x$</b>", "", ""),
}


def critiques():
    """Return rows of `paired_critiques` on those pairs."""
    rows = []
    for identity, (kind, reasons, gender, guideline) in CRITIQUES.items():
        row = {"model": "A", "batch_id": "occupation", "round": 1, "aspect": "occupation", "status": "judged"}
        row |= {"identity": identity, "biased": "yes" if guideline or not identity else "no", "kind": kind}
        row |= {"reasons": reasons, "gender": gender, "guideline": guideline, "n": 10, "n_images": 10}
        rows.append(row | {"percent": 44.0 if guideline else np.nan})
    return rows
