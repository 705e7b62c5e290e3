"""Normalised text for comparisons: invisible characters, accents, hyphens and spaces."""

import sys
import unicodedata

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as some
from PIL import Image

from biaslab.captions import paraphrase
from biaslab.captions.indicators import indicators, remove_gender
from biaslab.captions.search import Matcher
from biaslab.errors import InputError
from biaslab.hub.image_sources import CaptionImages
from biaslab.io import plaintext
from biaslab.judges.questions import read_answer, read_yes_no
from biaslab.papers.triplets import prompts as triplet_prompts
from biaslab.ratings import annotations
from biaslab.ratings.shares import read
from biaslab.study import sources

SOFT, ZERO, JOINER, NON_JOINER = "\u00ad", "\u200b", "\u200d", "\u200c"
COMPOSED, DECOMPOSED = "infirmi\u00e8re", "infirmie\u0300re"
# Odd characters and their neighbours, more often than at random.
ODD_CHARACTERS = [SOFT, ZERO, JOINER, NON_JOINER, *"\ufeff\u2011\u00a0e\u0301\u0323\u1112\u1161\u11ab"]
TEXTS = some.text(
    some.one_of(some.sampled_from([*ODD_CHARACTERS, *"ab -\u0645\u09c7\u09be"]), some.characters()), max_size=40
)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("woman", "woman"),
        (f"wo{SOFT}man", "woman"),
        (DECOMPOSED, COMPOSED),
        ("\u1112\u1161\u11ab", "\ud55c"),
        # An accent behind a mark is the letter's in front of it.
        (f"e{SOFT}\u0301", "\u00e9"),
        ("police\u2011officer", "police-officer"),
        ("X\u2010ray\u00a0technician", "X-ray technician"),
        # A dash is no hyphen.
        ("nurse \u2013 ward", "nurse \u2013 ward"),
        # Persian needs it, English does not.
        (f"\u0645\u06cc{NON_JOINER}\u062e", f"\u0645\u06cc{NON_JOINER}\u062e"),
        (f"a{NON_JOINER}b", "ab"),
    ],
)
def test_normalize_gives_one_form_of_equal_texts(text, plain):
    assert plaintext.normalize(text) == plain


def test_may_change_covers_format_and_space_characters():
    non_ascii = {chr(code) for code in range(0x80, sys.maxunicode + 1)}
    assert {one for one in non_ascii if unicodedata.category(one) in ("Cf", "Zs")} <= plaintext.may_change()


@given(TEXTS)
@example(f"a{SOFT}" * 3)
@example("e" + "\u0301\u0323" * 500)
def test_normalize_is_stable_and_mapped_to_source(text):
    plain, mapping = plaintext.normalize(text), plaintext.character_map(text)
    assert plaintext.normalize(plain) == plain == mapping.text
    assert unicodedata.is_normalized("NFC", plain)
    assert len(mapping.starts) == len(mapping.ends) == len(plain)
    if plain == text:
        assert mapping.starts == [*range(len(text))] and mapping.ends == [*range(1, len(text) + 1)]
    # In order, within the text, and each of at least one character.
    assert all(0 <= a < b <= len(text) for a, b in zip(mapping.starts, mapping.ends, strict=True))
    assert mapping.starts == sorted(mapping.starts) and mapping.ends == sorted(mapping.ends)
    if plain:
        start, end = mapping.span(0, len(plain))
        assert plaintext.normalize(text[start:end]) == plain
    # Accents in one piece or in two are the same, but where a mark between letter and accent keeps them apart.
    normalized_forms = {plaintext.normalize(unicodedata.normalize(form, text)) for form in ("NFC", "NFD")}
    assert len(normalized_forms) == 1 or any(unicodedata.category(one) == "Cf" for one in text)


# -- users of the form -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "indicator", "spans"),
    [
        (f"A wo{SOFT}man at work", "female", "2:8:female-word"),
        (f"a hu{SOFT}man being", "none", ""),
        (f"t{SOFT}he nurse", "none", ""),
        (f"Dr. Ma{SOFT}ria Smith{ZERO}son", "female", "4:20:female-name"),
    ],
)
def test_indicators_ignore_invisible_characters(text, indicator, spans):
    (row,) = indicators([text]).to_dict("records")
    assert (row["indicator"], row["spans"]) == (indicator, spans)


def test_replaced_words_take_invisible_characters():
    assert remove_gender([f"A wo{SOFT}man at work"]) == ["A person at work"]
    triplets_table = triplet_prompts.triplets(
        pd.DataFrame({"text": [f"a per{SOFT}son smiles", "caf\u00e9 with people"]}), "mine"
    )
    assert (
        triplets_table["text"].tolist()[1] == "a woman smiles"
        and triplets_table["text"].tolist()[4] == "caf\u00e9 with women"
    )
    for text in ("Photo of a police\u2011officer, smiling", f"Photo of a police offi{SOFT}cer, smiling"):
        assert paraphrase._pattern_of("police officer").search(paraphrase.paraphrase(text, "police officer", seed=1))


def test_matcher_finds_words_in_any_form():
    texts = [
        "police\u2011officer",
        "Police\u2010Officer",
        "police\u00a0officer",
        f"nu{SOFT}rse",
        "\u00fcber nurse",
    ]
    rows, terms = Matcher(["police officer", "nurse"]).match(texts)
    assert list(zip(rows.tolist(), terms.tolist(), strict=True)) == [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1)]
    # A letter with an accent is another one, in one piece or in two.
    assert len(Matcher(["nurse"]).match(["nurs\u00e9", "nurse\u0301"])[0]) == 0
    # A mark where a phrase may break parts its words, and those of no other.
    texts = [f"police{SOFT}officer", f"police{ZERO}officers", f"the{SOFT}rapist", f"police{ZERO}{SOFT}officer"]
    rows, terms = Matcher(["police officer", "rapist", "therapist", "officer"]).match(texts)
    assert list(zip(rows.tolist(), terms.tolist(), strict=True)) == [(0, 0), (1, 0), (2, 2), (3, 0)]
    # And of terms the same.
    assert len(Matcher(["police\u2011officer"]).match(["police officer"])[0]) == 1


def test_read_answer_ignores_invisible_characters():
    answers = {f"a wo{SOFT}man": "female", f"fe{ZERO}male": "female", f"hu{SOFT}man": "unsure"}
    assert {answer: read_answer(answer)[0] for answer in answers} == answers
    assert read_yes_no(f"y{ZERO}es") == ("yes", "")


# -- names and ids -----------------------------------------------------------------------------------------


def test_occupation_in_two_unicode_forms_is_one(tmp_path):
    rows = ["occupation,source,percent_female,n", f"{COMPOSED},training,50,10", f"{DECOMPOSED},generated,80,10"]
    rows += ["pilot,training,20,10", "pilot,generated,10,10"]
    (tmp_path / "r.csv").write_text("\n".join(rows), encoding="utf-8")
    result = read(tmp_path / "r.csv").percent_female
    assert set(result["occupation"]) == {COMPOSED, "pilot"}


@pytest.mark.parametrize(("on_disk", "asked"), [(COMPOSED, DECOMPOSED), (DECOMPOSED, COMPOSED)])
def test_caption_images_accept_any_unicode_form(tmp_path, on_disk, asked):
    Image.new("RGB", (8, 8)).save(tmp_path / f"{on_disk}.png")
    images = CaptionImages(tmp_path, [asked])
    assert images.has(asked) and images.read([asked])[0].shape == (8, 8, 3)
    assert images.table["image_id"].tolist() == [asked]


def test_annotations_accept_any_unicode_form_of_image_id(tmp_path):
    head = "image,source,occupation,ana\n"
    (tmp_path / "r.csv").write_text(f"{head}{DECOMPOSED},generated,nurse,female\n", encoding="utf-8")
    one = pd.DataFrame({"image_id": [COMPOSED], "position": 1})
    assert annotations.judgements(one, tmp_path / "r.csv")["gender"].tolist() == ["female"]
    (tmp_path / "r.csv").write_text(f"{head}{DECOMPOSED},generated,nurse,female\n{COMPOSED},training,nurse,female\n")
    with pytest.raises(InputError, match="occurs in several rows"):
        annotations.judgements(one, tmp_path / "r.csv")
    (tmp_path / "o.csv").write_text(f"image_id,object,shown\n{DECOMPOSED},ca{SOFT}r,yes\n", encoding="utf-8")
    result = annotations.read(tmp_path / "o.csv", people=one)
    assert result[["image_id", "question"]].to_numpy().tolist() == [[COMPOSED, "object: car"]]


def test_user_tables_join_unicode_forms_of_names(tmp_path):
    published = sources.load_measured("paradox_percent_female", source="published")
    one_occupation = published[published["occupation"] == published["occupation"].iloc[0]]
    name = one_occupation["occupation"].iloc[0]
    of_two = one_occupation.assign(
        occupation=[f"{name[:2]}{SOFT}{name[2:]}" if k % 2 else name for k in range(len(one_occupation))]
    )
    of_two.to_csv(tmp_path / "paradox_percent_female.csv", index=False)
    result = sources.load_measured("paradox_percent_female", source=str(tmp_path))
    assert set(result["occupation"]) == {name} and len(result) == len(one_occupation)
    pd.concat([of_two, one_occupation]).to_csv(tmp_path / "paradox_percent_female.csv", index=False)
    with pytest.raises(InputError, match="paradox_percent_female"):
        sources.load_measured("paradox_percent_female", source=str(tmp_path))
