"""The pipeline's stages for triplets of prompts: captions in a file, images, and the tables measured from them."""

import re

import numpy as np
import pytest

from biaslab.attribution.images import AttendedImages
from biaslab.errors import InputError, MissingInputError, ParameterError
from biaslab.generation.generator import image_seed
from biaslab.generation.images import GeneratedImages
from biaslab.judges import duplicates
from biaslab.papers import triplets
from biaslab.papers.triplets.prompts import STEPS, sentences, words
from biaslab.papers.triplets.stages import Triplets
from biaslab.pipeline import Pipeline, Settings
from biaslab.planning import planning_pipeline, validation
from biaslab.planning.plan import find_omissions
from biaslab_world import triplets as world

CAPTIONS = [
    "a person riding a horse",
    "two people walking in the rain",
    "a person and a man",  # a gender word
    "people with their kids",  # a plural
    "a dog on a lawn",  # neither word
    "a person riding a horse",  # the same again
    "fashion of person",  # no person is depicted
    "A PERSON with a hat and his dog",  # a gender word
]


NETWORKS = ("resnet", "clip", "dino", "split_product")
BY_PIXELS = dict.fromkeys(NETWORKS, "")


def settings(folder, captions=CAPTIONS, *, of=None, **design):
    folder.mkdir(exist_ok=True)
    (folder / "captions.txt").write_text("".join(f"{caption}\n" for caption in captions))
    corpus = {"corpus": str(folder / "captions.txt")} | (of or {})
    return Settings(captions=corpus, triplets=design, compute={"cache": str(folder / "store")})


def pipeline(folder, captions=CAPTIONS, seed=5, **design):
    return Pipeline("mini", settings(folder, captions, **design), seed=seed, progress=False)


def funnel_counts(p):
    return dict(triplets.measure.funnel(p)[["step", "n_captions"]].itertuples(index=False))


def test_prompts_contain_captions_and_professions(tmp_path):
    p = pipeline(tmp_path, n_professions=2, images_per_prompt=3)
    prompts = triplets.measure.prompts(p)
    of = prompts[prompts["dataset"] == "captions.txt"]
    assert of["text"].tolist() == [
        *("a person riding a horse", "a woman riding a horse", "a man riding a horse"),
        *("two people walking in the rain", "two women walking in the rain", "two men walking in the rain"),
    ]
    assert (of[["topic", "profession"]] == "").all(axis=None)
    prompt_rows = prompts[prompts["dataset"] == "Profession"]
    assert prompt_rows.groupby(["topic", "profession"]).ngroups == 2
    sentences_by_profession = sentences().groupby(["topic", "profession"])["text"].agg(set)
    for name, rows in prompt_rows[prompt_rows["prompt_gender"] == "neutral"].groupby(["topic", "profession"]):
        assert set(rows["text"]) == sentences_by_profession[name]
    assert prompts["prompt_id"].is_unique and (prompts["n_images"] == 3).all()
    # The three of a triplet share their noise, and no other triplet has it.
    assert (prompts.groupby("noise_id")["prompt_gender"].agg(list).str.len() == 3).all()
    assert prompts.groupby("noise_id")["triplet_id"].nunique().eq(1).all()
    sets = triplets.measure.prompt_sets(p).set_index("dataset")
    assert sets["n_triplets"].to_dict() == {"captions.txt": 2, "Profession": len(prompt_rows) // 3}
    assert (sets["n_seeds"] == 3).all() and set(sets["evidence"]) == {"computed"}


def test_prompts_of_extra_corpora_are_own_datasets(tmp_path):
    for folder, captions in (("coco", ["a person on a bench", "a cat"]), ("flickr", ["people at a table", NOBODY[0]])):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "captions.txt").write_text("".join(f"{caption}\n" for caption in captions))
    further = [str(tmp_path / folder / "captions.txt") for folder in ("coco", "flickr")]
    (tmp_path / "gcc").mkdir()
    corpus_design = {"images_per_prompt": 3, "single_triplet_images": 2, "n_professions": 1, "extra_corpora": further}
    p = pipeline(tmp_path / "gcc", **corpus_design)
    sets = triplets.measure.prompt_sets(p).set_index("dataset")
    # Files with the same name are distinguished by their folders; the first dataset's first caption is repeated.
    names = ["gcc/captions.txt", "gcc/captions.txt (one triplet)", "coco/captions.txt", "flickr/captions.txt"]
    assert sets.index.tolist()[:4] == names and set(sets.index[4:]) == {"Profession"}
    assert sets.loc[names, "n_triplets"].tolist() == [2, 1, 1, 1]
    assert sets.loc[names, "n_seeds"].tolist() == [3, 2, 1, 1] and sets.loc["Profession", "n_seeds"] == 3
    funnel = triplets.measure.funnel(p)
    assert funnel[funnel["step"] == "captions"]["n_captions"].tolist() == [len(CAPTIONS), 2, 2]
    validation.check_plan(p, {"triplets_prompts"})


def test_extra_corpus_without_triplets_is_refused(tmp_path):
    (tmp_path / "more.txt").write_text("a cat\n")
    p = pipeline(tmp_path / "first", extra_corpora=str(tmp_path / "more.txt"))
    with pytest.raises(InputError, match=r"None of the 1 captions of the corpus 'more.txt'"):
        triplets.measure.prompts(p)


NOBODY = ["a dog on a lawn", "a man on a lawn", "a person and a woman"]


@pytest.mark.parametrize(
    ("captions", "said"),
    [
        (NOBODY, r"None of the 3 captions .* 'gender' \(a gender word"),
        (NOBODY[:2], r"None of the 2 captions .* 'person or people' \(neither"),
        (["fashion of person"], r"'depicted' .*triplets\.filter to 'paper'"),
    ],
)
def test_check_plan_refuses_captions_without_triplets(tmp_path, captions, said):
    p = pipeline(tmp_path, captions)
    with pytest.raises(InputError, match=said):
        triplets.measure.prompts(p)
    # It is checked only for tables that read the prompts.
    with pytest.raises(InputError, match=said):
        validation.check_plan(p, {"triplets_prompts"})
    validation.check_plan(p, {"synthesis_x", "pipeline_settings"})
    # The funnel can still be read, and professions need no caption.
    assert funnel_counts(p)["sampled"] == 0
    p = pipeline(tmp_path, captions, n_professions=1)
    validation.check_plan(p, {"triplets_prompts"})
    assert set(triplets.measure.prompts(p)["dataset"]) == {"Profession"}


def test_check_plan_searches_first_captions_only(tmp_path, monkeypatch):
    monkeypatch.setattr(planning_pipeline, "MAX_SEARCHED_CAPTIONS", 2)

    def check(*given, **more):
        validation.check_plan(pipeline(tmp_path, *given, n_triplets=3, **more), {"triplets_prompts"})

    # Further ones may give triplets.
    check(NOBODY)
    # By the settings there are only these two.
    with pytest.raises(InputError, match="None of the 2 captions"):
        check(NOBODY, of={"max_captions": 2})
    with pytest.raises(InputError, match="no captions"):
        check([])


def test_prompts_without_captions_are_professions(tmp_path, folders):
    given = Settings.from_mapping(
        {
            "triplets": {
                "n_professions": 2,
                "images_per_prompt": 3,
                "single_triplet_images": 5,
                "objects": "mini-segmenter",
            },
            "generation": {"image_domain": "drawings"},
            "compute": {"cache": str(tmp_path)},
        }
    )
    p = Pipeline(folders("sd1"), given, seed=5, progress=False)
    assert not p.has_captions and not p.has_images
    prompts = triplets.measure.prompts(p)
    once, repeated = (rows for _, rows in prompts.groupby("dataset", sort=False))
    assert set(once["dataset"]) == {"Profession"} and set(repeated["dataset"]) == {"Profession (one triplet)"}
    # The first triplet once more, from noise of its own.
    assert repeated["text"].tolist() == once["text"].tolist()[:3] and set(repeated["n_images"]) == {5}
    assert prompts["prompt_id"].is_unique and not set(repeated["noise_id"]) & set(once["noise_id"])
    for empty in (triplets.measure.funnel(p), triplets.measure.excluded_words(p)):
        assert empty.empty
    # Captions are required only by tables that use them, before the run.
    names = {"triplets_prompts", "paradox_percent_female", "dalleval_image_quality"}
    p = Pipeline(p.model, given.with_changes(judging={"faces": "whole image", "gender": "mini-clip"}), progress=False)
    assert not find_omissions(names, {"triplets_prompts"}, p).reason
    said = find_omissions(names, names, p)
    assert "captions.corpus is empty" in said.reason and said.on_purpose
    with pytest.raises(MissingInputError, match=r"captions\.corpus is empty"):
        Pipeline(p.model, given.with_changes(triplets={"n_professions": 0})).part(Triplets).prompts()
    # The embedded model knows only its own captions.
    with pytest.raises(ParameterError, match="lacks 29 of the prompts' words"):
        validation.check_plan(Pipeline("mini", given), {"triplets_object_counts"})


# -- images ------------------------------------------------------------------------------------------

PEOPLE = ["a photo of a person", "the face of a person", "a nurse of a person, blurry"]
SMALL = {"steps": 2, "guidance_scale": 3.0, "height": 32, "width": 32, "dtype": "float32"}


def asked_of(model, folder, **design):
    """Return a pipeline in which a model generates images of all captions in PEOPLE."""
    # As the synthetic world's models set it; the tiny ones set nothing.
    alike = dict.fromkeys(NETWORKS, "mini") | design.pop("similarity", {})
    design = {"objects": "mini-segmenter", "noun_tagger": "world", "similarity": alike} | design
    given = settings(folder, PEOPLE, filter="paper", n_triplets=0, **design)
    given = given.with_changes(generation=SMALL | {"image_domain": "drawings"})
    return Pipeline(model, given, seed=5, progress=False)


def test_images_of_triplet_share_noise(folders, tmp_path):
    p = asked_of(folders("sd1"), tmp_path, images_per_prompt=2)
    images = p.part(Triplets).images()
    table = images.table
    assert len(table) == 3 * 3 * 2 and set(table["model"]) == {p.label} and (table["status"] == "ok").all()
    generated = duplicates.all_images(images.source)
    assert type(generated) is GeneratedImages and (table["reason"] == "").all()
    # The noise of an image depends on the triplet and the seed number, not on the gender.
    made = generated.table.set_index("image_id")["seed"]
    for row in table.itertuples():
        assert made[row.image_id] == image_seed(5, row.triplet_id, row.seed)
    of = table.groupby(["triplet_id", "seed"])["prompt_gender"].agg(list)
    assert of.tolist() == [["neutral", "feminine", "masculine"]] * 6
    texts = table.drop_duplicates("prompt_id").set_index(["triplet_id", "prompt_gender"])["text"].unstack()
    for row in texts.itertuples():
        assert row.feminine == row.neutral.replace("person", "woman")


@pytest.mark.long
def test_images_with_attention_have_word_maps(folders, tmp_path):
    plain = asked_of(folders("sd1"), tmp_path, images_per_prompt=1).part(Triplets).images()
    attended = asked_of(folders("sd1"), tmp_path, images_per_prompt=1, attention=True).part(Triplets).images()
    assert type(duplicates.all_images(attended.source)) is AttendedImages
    ids = attended.table["image_id"].tolist()
    texts = attended.table["text"].tolist()
    for maps, text in zip(duplicates.all_images(attended.source).word_maps(ids), texts, strict=True):
        assert list(maps.words) == list(dict.fromkeys(re.findall("[a-z]+", text)))
    for one, other in zip(plain.read(ids), attended.read(ids), strict=True):
        assert (one == other).all()


def test_words_splits_prompt():
    assert words("A man's T-shirt, a 2nd 'shirt' of the man") == [
        *("A", "man's", "T-shirt", "a", "2nd", "shirt", "of", "the", "man")
    ]


@pytest.mark.long
def test_world_images_match_prompt_gender(tmp_path):
    for corpus, skew in (("mini", "default"), ("mini", "off"), ("depictions", "off")):
        given = Settings(
            captions={"corpus": corpus, "synthetic_bias": skew},
            triplets={"n_triplets": 2},
            compute={"cache": str(tmp_path)},
        )
        result = Pipeline("world", given, seed=5, progress=False).part(Triplets).images()
        assert result.table["seed"].tolist() == [0, 1] * 6 and set(result.table["model"]) == {"world"}
        assert result.table["image_id"].is_unique and set(result.table["dataset"]) == {"depictions"}
        shown = result.source.table["truth_gender"].to_numpy().reshape(2, 3, 2)
        assert (shown[:, 1] == "female").all() and (shown[:, 2] == "male").all()
        prompt_rows = result.table.drop_duplicates("prompt_id")[["prompt_id", "text"]].assign(n_images=2)
        noise = result.table.drop_duplicates("prompt_id")["triplet_id"].to_numpy()
        regenerated = world.generate(prompt_rows.assign(noise_id=noise), seed=5, skew=skew)
        for name in result.table["image_id"]:
            assert regenerated.scene(name) == result.source.scene(name)


def test_attention_of_endpoint_model_is_refused(tmp_path):
    p = asked_of("endpoint:painter", tmp_path, attention=True)
    p = p.with_changes(endpoint={"url": "http://localhost:1/v1", "price": 0.0})
    with pytest.raises(ParameterError, match=r"triplets\.attention"):
        p.part(Triplets).images()


# -- similarity --------------------------------------------------------------------------------------


@pytest.mark.long
def test_similarity_covers_three_spaces(folders, tmp_path):
    p = asked_of(folders("sd1"), tmp_path, images_per_prompt=2, similarity={"resnet": "", "split_product": ""})
    images = p.part(Triplets).images()
    table = triplets.measure.similarity(p)
    assert set(table["space"]) == {"prompt", "denoising", "image"}
    metrics = "t t_pooled t_words z0 ssim diff_pix diff_pix_fixed clip dino"
    assert set(table["metric"]) == set(metrics.split())
    # One value of a triplet by hand: the mean over both seeds of the cosine of the last latents.
    ids = images.table.set_index(["triplet_id", "prompt_gender", "seed"])["image_id"]
    first = images.table["triplet_id"].iloc[0]
    cosines = []
    for seed in (0, 1):
        pair = [ids[first, gender, seed] for gender in ("neutral", "masculine")]
        one, other = (
            result.final.astype(float).ravel() for result in duplicates.all_images(images.source).latents(pair)
        )
        cosines.append(one @ other / np.linalg.norm(one) / np.linalg.norm(other))
    row = table[(table["metric"] == "z0") & (table["pair"] == "neutral-masculine") & (table["case"] == first)]
    assert row["value"].tolist() == pytest.approx([np.mean(cosines)]) and row["n"].tolist() == [2]
    # A prompt is compared once, whatever the number of seeds.
    assert set(table.loc[table["metric"] == "t", "n"]) == {1}
    assert table.loc[table["metric"] == "t_pooled", "reason"].str.contains("one vector").all()
    steps = triplets.gap_by_step(triplets.measure.step_similarity(p))
    gap = triplets.disparity_gap(table).set_index("metric")["gap"]
    assert steps["denoising_step"].tolist() == [1, 2] and steps["gap"].iloc[-1] == pytest.approx(gap["z0"], abs=1e-3)
    null_mean = triplets.null_similarity(table, triplets.measure.reference_similarity(p))
    assert set(null_mean["reference"]) == {"neutral-another_seed"} and "t" not in set(null_mean["metric"])
    networks = triplets.measure.networks(p)
    assert networks[["metric", "network", "replaces"]].to_numpy().tolist() == [
        ["clip", "mini-clip", "ViT-B-32:openai"],
        ["dino", "mini-segmenter", "vit_small_patch16_224.dino"],
    ]
    said = triplets.figures.replacement_note(networks)
    assert said.endswith("mini-clip for CLIP; mini-segmenter for DINO.")
    assert triplets.figures.replacement_note(triplets.printed.networks()) == ""


@pytest.mark.long
def test_single_triplet_dataset_has_seeds_as_cases(folders, tmp_path):
    p = asked_of(folders("sd1"), tmp_path, images_per_prompt=1, single_triplet_images=3, similarity=BY_PIXELS)
    table = p.part(Triplets).images().table
    one = table[table["dataset"] == "captions.txt (one triplet)"]
    assert len(one) == 9 and one["triplet_id"].nunique() == 1 and len(table) == 9 + 9
    # Its noise is its own, where the same triplet is among the others.
    seeds = p.part(Triplets).images().source.table.groupby("seed").size()
    assert seeds.tolist() == [3] * 6
    gap = triplets.disparity_gap(triplets.measure.similarity(p))
    result = gap[gap["sample"] == "seeds"].set_index("metric")
    assert result.loc["ssim", "n"] == 3 and result.loc["t", "n"] == 1 and np.isnan(result.loc["t", "ci_low"])
    sizes = triplets.measure.prompt_sets(p).set_index("dataset")
    assert sizes.loc["captions.txt (one triplet)", ["n_triplets", "n_seeds"]].tolist() == [1, 3]


def test_similarity_without_latents_has_reason(tmp_path):
    design = {"n_triplets": 2, "images_per_prompt": 1, "similarity": BY_PIXELS}
    given = Settings(captions={"max_captions": 2000}, triplets=design, compute={"cache": str(tmp_path)})
    p = Pipeline("world", given, seed=5, progress=False)
    table = triplets.measure.similarity(p)
    before = table[table["space"] != "image"]
    assert set(before["metric"]) == {"t", "t_pooled", "t_words", "z0"}
    assert before["value"].isna().all() and (before["reason"] != "").all()
    assert table.loc[table["metric"] == "ssim", "value"].notna().all()
    assert triplets.measure.step_similarity(p).empty
    gap = triplets.disparity_gap(table).set_index("metric")
    assert np.isnan(gap.loc["z0", "gap"]) and gap.loc["z0", "reason"] != ""


@pytest.mark.parametrize(
    ("design", "said"), [({"resnet": "resnet5o.tv_in1k"}, "resnet5o"), ({"clip": "nowhere/at:all"}, "nowhere")]
)
def test_check_plan_refuses_unknown_networks(folders, tmp_path, design, said):
    p = asked_of(folders("sd1"), tmp_path, similarity=design)
    with pytest.raises(ParameterError, match=said):
        validation.check_plan(p, {"triplets_similarity"})
    # Tables without similarities need no networks.
    validation.check_plan(p, {"triplets_prompts"})


def test_example_images_match_table(folders, tmp_path):
    p = asked_of(folders("sd1"), tmp_path, images_per_prompt=2, single_triplet_images=2)
    shown = triplets.measure.examples(p, n_triplets=2)
    assert shown.groupby("dataset", sort=False)["image_id"].size().to_dict() == {
        "captions.txt": 2 * 3,
        "captions.txt (one triplet)": 2 * 3,
    }
    assert shown.loc[shown["dataset"] == "captions.txt", "seed"].eq(0).all()
    chosen = shown.tail(3)[["dataset", "triplet_id"]].drop_duplicates()
    assert triplets.measure.select_first_seed(p, chosen)["prompt_gender"].tolist() == [
        *("neutral", "feminine", "masculine")
    ]
    pictures = triplets.measure.example_images(p, shown)
    figure = triplets.figures.examples(pictures, shown)
    assert len(figure.axes) == 12 and [ax.get_title(loc="left") for ax in figure.axes][:2] == ["neutral", "feminine"]
    np.testing.assert_array_equal(figure.axes[4].images[0].get_array(), pictures[4])


def test_funnel_and_excluded_words_by_hand(tmp_path):
    p = pipeline(tmp_path)
    assert list(funnel_counts(p)) == list(STEPS) and list(funnel_counts(p).values()) == [
        8,
        7,
        5,
        5,
        5,
        4,
        3,
        3,
        3,
        2,
        2,
    ]
    # Tables name the corpus and no folder of this machine.
    assert set(triplets.measure.funnel(p)["dataset"]) == {"captions.txt"}
    words = triplets.measure.excluded_words(p).set_index("word")["n_captions_excluded"]
    assert len(words) == 104 and words[words > 0].to_dict() == {"man": 1, "his": 1, "kid": 1}
    # The paper's rule has no further criteria.
    paper = funnel_counts(pipeline(tmp_path, filter="paper"))
    assert paper["sampled"] == 3 and "depicted" not in paper
