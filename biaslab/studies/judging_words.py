"""What the rating notebook says and shows: the page for raters, findings in words, images that are disputed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from biaslab.findings import NoFinding

if TYPE_CHECKING:
    from biaslab.judging.images import ImageSource
    from biaslab.judging.rating import Collected, Session
    from biaslab.study import Study

# Images of disputed cases shown at most: three rows.
_MOST_SHOWN = 24
_MEASURES = {
    "sensitivity": "of judged images that show a woman, {} were judged female",
    "specificity": "of judged images that show a man, {} were judged male",
    "judged_female": "of all images that show a woman, {} passed the gate and were judged",
    "judged_male": "of all images that show a man, {} passed the gate and were judged",
    "judged_neither": "of images that show neither, {} were judged all the same",
}


def show_page(session: Session, *, show: bool) -> None:
    """Show the rating page below the cell where raters are named and a person can see it.

    Args:
        session: The session.
        show: Whether a person is there; a run that nobody watches shows none.
    """
    if not (show and session.raters):
        print("No rating page: name raters in the parameters and run this notebook in JupyterLab.")
        return
    from IPython.display import display

    from biaslab.judging.rating import widget

    display(widget(session))


def agreement_finding(table: pd.DataFrame, collected: Collected) -> str:
    """Return the agreement of raters with one another and with the judge in words.

    Args:
        table: Table ``judging_agreement``.
        collected: Where the ratings come from.
    """
    rows = table[table["subset"] == "all"].set_index(["statistic", "labels"])
    alpha = rows.loc[("krippendorff_alpha", "female/male/unsure")]
    judge = rows.loc[("judge_agreement", "female/male")]
    who = "Simulated raters" if collected.kind == "simulated" else "Raters"
    return (
        f"{who} agree with Krippendorff's alpha {_value(alpha, 3)}; the judge says what most of them say on "
        f"{_value(judge, 1, ' %')} of images that both decided. The paper prints 0.948 and 98 % for its own images, "
        "raters and judge."
    )


def error_finding(table: pd.DataFrame, reference: str, source: str) -> str:
    """Return the judge's errors over all images of a source in words, a sentence a measure that is known.

    Args:
        table: Table ``judging_error``.
        reference: ``truth``, ``ratings`` or ``simulated``.
        source: ``training`` or ``generated``.
    """
    rows = table[(table["reference"] == reference) & (table["source"] == source) & (table["group"] == "all")]
    rows = rows[rows["n"] > 0]
    if rows.empty:
        return NoFinding(
            f"Judge against {reference}, {source} images: no such image has a {reference} label."
        )
    parts = [_MEASURES[row["measure"]].format(_value(row, 1, " %")) for _, row in rows.iterrows()]
    return f"Judge against {reference}, {source} images: {'; '.join(parts)}."


def correction_finding(table: pd.DataFrame) -> str:
    """Return in words how far the correction moves shares.

    Args:
        table: Table ``judging_corrected``.
    """
    sentences = []
    for source, rows in table.groupby("source", sort=False):
        known = rows[rows["percent_corrected"].notna()]
        if known.empty:
            sentences.append(f"Shares of {source} images are not corrected: {rows['reason'].iloc[0]}.")
            continue
        moved = (known["percent_corrected"] - known["percent_female"]).abs()
        sentences.append(
            f"Correction moves {len(known)} shares of {source} images by {moved.mean():.1f} points on average, at "
            f"most {moved.max():.1f}."
        )
    said = " ".join(sentences)
    return said if table["percent_corrected"].notna().any() else NoFinding(said)


def show_disagreements(
    study: Study,
    images: Mapping[str, ImageSource],
    wrong: pd.DataFrame,
    collected: Collected,
    *,
    show_faces: bool = False,
) -> None:
    """Save a gallery of images whose raters' majority is not what the judge said, its surest first.

    Faces of training images are made unrecognisable unless ``show_faces``, or they are those of drawn people.

    Args:
        study: Where the figure goes.
        images: Where images of each source are read.
        wrong: Rows as from :func:`biaslab.judging.rating.disagreements`.
        collected: Where the ratings come from.
        show_faces: Whether faces in training images may be seen.
    """
    from biaslab.plots.gallery import gallery

    shown = wrong.head(_MOST_SHOWN).reset_index(drop=True)
    if shown.empty:
        print("No gallery: no judged image has another majority.")
        return
    read = [images[row["source"]].read([row["image_id"]])[0] for _, row in shown.iterrows()]
    drawn = study.settings.captions.corpus == "mini"
    blur = [s == "training" and not (show_faces or drawn) for s in shown["source"]]
    texts = [f"raters: {row['vote']} ({row['source']}, {row['occupation']})" for _, row in shown.iterrows()]
    raters = "simulated raters" if collected.kind == "simulated" else "raters"
    study.save_figure(
        "judging_disagreements",
        gallery(read, shown, texts, blur=blur),
        title="Where raters and judge differ",
        caption=f"Images whose majority of {raters} is not the judge's answer, those first of which the judge was "
        f"surest ({len(shown)} of {len(wrong)}). Above: the perceived gender by the judge and its probability; below: "
        "the raters' majority. Boxes: the face found.",
    )


def _value(row: pd.Series, digits: int, unit: str = "") -> str:
    """Return a value with its interval and n, or why there is none."""
    if pd.isna(row["value"]):
        reason = row.get("reason", "") or "no image"
        return f"unknown ({reason})"
    n = int(row["n_items"] if "n_items" in row else row["n"])
    low, high = row["ci_low"], row["ci_high"]
    limits = "no interval" if pd.isna(low) else f"{low:.{digits}f} to {high:.{digits}f}"
    return f"{row['value']:.{digits}f}{unit} ({limits}; n = {n:,})"
