"""Headlines compared with the papers' tables, and estimates with an annotated subset, by hand."""

import itertools
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from biaslab import cli
from biaslab.analyses import custom, precision
from biaslab.analyses.ratings import sample
from biaslab.errors import InputError
from biaslab.papers import dalleval, paired, paradox
from biaslab.pipeline import Pipeline, Settings
from biaslab.planning import validation
from biaslab.ratings import annotations
from biaslab.runs import audit
from biaslab.schema import tables
from biaslab.study import sources


def ratings(rows):
    same = {"image_model": "", "question": "", "source": "generated", "position": 1, "n_annotators": 1}
    rows = pd.DataFrame(rows)
    return tables.make_table(
        rows.assign(**{name: value for name, value in same.items() if name not in rows}), "precision_ratings"
    )


@pytest.fixture(scope="module")
def own_people():
    rng = np.random.default_rng(11)
    rows = [(str(g), f"{g} {p}", f"{g}{p}/{k}") for g, p, k in np.ndindex(4, 2, 30)]
    people = pd.DataFrame(rows, columns=["group", "prompt", "image_id"]).assign(model="m", position=1, status="judged")
    truth = rng.random(len(people)) < people["group"].astype(int) * 0.2 + 0.2
    wrong = rng.random(len(people)) < 0.1
    people["gender"] = np.where(truth ^ wrong, "female", "male")
    people.loc[::17, ["status", "gender"]] = ["no_face", ""]
    return people.assign(truth=np.where(truth, "female", "male"))


def test_custom_headlines_match_shares_by_hand(own_people):
    result = {one.group: one.value for one in custom.headlines(own_people)}
    seen = own_people[own_people["status"] == "judged"]
    by_hand = 100 * (seen["gender"] == "female").groupby(seen["group"]).mean()
    assert {g: result[g] for g in by_hand.index} == pytest.approx(by_hand.to_dict())
    assert result["all"] == pytest.approx(by_hand.mean())


def test_dalleval_headlines_match_its_tables():
    rng = np.random.default_rng(11)
    professions = [f"p{k}" for k in range(12)]
    images = pd.DataFrame({"profession": np.repeat([*professions, "(none)"], 9)})
    female = rng.random(len(images)) < np.repeat(rng.random(13), 9)
    ids = [f"i{k}" for k in images.index]
    images = images.assign(model="m", prompt="person", image_id=ids, status_judge="judged", gender_vqa="")
    images["gender_judge"] = np.where(female, "female", "male")
    averages = pd.Series(female).groupby(images["profession"]).sum().reset_index(name="n_female")
    averages = averages.assign(model="m", value=(2 * averages["n_female"] - 9) / 9, n=9, n_unclear=0, judge="CLIP")
    average, deviation = dalleval.headlines(images, averages)
    table = dalleval.average_gender(averages)
    nothing = tables.make_table([], "dalleval_average_skin_tone"), tables.make_table([], "dalleval_printed_bias")
    assert average.value == pytest.approx(dalleval.overall_average(table, *nothing)["average"].iloc[0])
    mad = dalleval.mad(table, tables.make_table([], "dalleval_skin_tone_counts"), nothing[1])
    assert deviation.value == pytest.approx(mad["mad_corrected"].iloc[0])
    judged = precision.estimates([average, deviation], ratings([]).head(0)).query("estimator == 'judge'")
    # Student's t over professions, as the paper's own table has it.
    paper_table = dalleval.overall_average(table, *nothing)[["ci_low", "ci_high"]].iloc[0]
    assert judged[["ci_low", "ci_high"]].iloc[0].tolist() == pytest.approx(paper_table.tolist())


def test_paired_headlines_match_score_table():
    rng = np.random.default_rng(11)
    lists = {"nurse": "female", "maid": "female", "plumber": "male", "miner": "male"}
    rows = []
    for setting, places in (("single", ["alone"]), ("paired", ["left", "right"])):
        for k in range(40):
            for place, name in zip(places, rng.permutation(list(lists))[: len(places)], strict=True):
                gender = lists[name] if rng.random() < 0.7 else {"female": "male", "male": "female"}[lists[name]]
                rows.append([setting, f"{setting}/{k}", place, name, lists[name], gender])
    people = pd.DataFrame(rows, columns=["setting", "image_id", "position", "identity", "stereotype", "gender"])
    people = people.assign(model="m", aspect="occupation", occupation=people["identity"], status="judged")
    result = {one.measure: one.value for one in paired.headlines(people)}
    keys = ["model", "aspect", "setting", "identity", "occupation", "stereotype"]
    shares = people.assign(f=people["gender"] == "female").groupby(keys)["f"].agg(["mean", "size"]).reset_index()
    shares = shares.rename(columns={"size": "n"}).assign(percent_female=100 * shares["mean"], n_unclear=0, reason="")
    nothing = tables.make_table([], "paired_pair_images"), tables.make_table([], "paired_printed_value")
    table = paired.stereotype_score(shares, *nothing, confidence=0.95)
    whole = table[table["stereotype"] == "overall"].set_index("setting")["score"]
    assert result["Stereotype Score, one person"] == pytest.approx(whole["single"])
    assert result["Stereotype Score, two people"] == pytest.approx(whole["paired"])


def test_estimates_amplification_needs_both_sides_annotated():
    rng = np.random.default_rng(11)
    # Ten occupations with amplified bias in generated images; the judge labels one in five women as male.
    rows, rated, said = [], [], []
    for k, share in enumerate(np.linspace(0.1, 0.9, 10)):
        for source, prompt, p in (("training", "captions", share), ("generated", "1", share + (share - 0.5) * 0.2)):
            truth = np.arange(40) < round(40 * np.clip(p, 0, 1))
            seen = truth & (np.arange(40) % 5 > 0)
            rows.append(["m", "naive", f"o{k}", source, prompt, 100 * seen.mean(), 40])
            for j in rng.choice(40, 12, replace=False):
                image = f"{source}-{k}/{j}"
                rated.append(["m", source, f"o{k}", prompt, image, float(seen[j])])
                said.append([source, image, "female" if truth[j] else "male"])
    names = ["model", "approach", "occupation", "source", "prompt", "percent_female", "n"]
    shares = pd.DataFrame(rows, columns=names)
    names = ["model", "source", "occupation", "prompt", "image_id", "is_female"]
    rated = tables.make_table(pd.DataFrame(rated, columns=names), "paradox_rated_images")
    said = ratings(pd.DataFrame(said, columns=["source", "image_id", "label"]))
    table = paradox.amplification(shares, seed=1, replicates=200, confidence=0.95)
    _, headline = paradox.headlines(shares, table, rated)
    assert len(headline.people) == 240 and headline.people["cell"].nunique() == 20
    result = precision.estimates([headline], said).set_index("estimator")
    # By hand: a fifth of the mean distance of shares from one half, over occupations.
    truth = 100 * 0.2 * np.abs(np.linspace(0.1, 0.9, 10) - 0.5).mean()
    assert result.loc["both", "ci_low"] <= truth <= result.loc["both", "ci_high"]
    one_side = precision.estimates([headline], said[said["source"] == "generated"]).set_index("estimator")
    assert np.isnan(one_side.loc["both", "estimate"])
    assert one_side.loc["both", "reason"] == "no training image is annotated"


@pytest.mark.long
def test_rated_images_are_of_naive_approach_only(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="models need the extra 'models'")
    text = (
        "image,source,annotator,label\np1-nurse/0,generated,r,female\np2-doctor/1,generated,r,male\nx,training,r,male\n"
    )
    (tmp_path / "r.csv").write_text(text)
    captions = {"corpus": "mini", "occupations": ["nurse", "doctor"], "max_captions": 4000, "per_occupation": 4}
    settings = Settings(
        captions=captions | {"approaches": ["naive", "caption_prompts"]},
        generation={"images_per_prompt": 2},
        judging={"annotations": str(tmp_path / "r.csv")},
        compute={"cache": str(tmp_path / "store")},
    )
    pipeline = Pipeline("world", settings, progress=False)
    asked, judgements = [], Pipeline.judgements
    monkeypatch.setattr(Pipeline, "judgements", lambda self, kind: asked.append(kind) or judgements(self, kind))
    result = sources.load_measured("paradox_rated_images", source="pipeline", pipeline=pipeline)
    assert set(result["image_id"]) == {"p1-nurse/0", "p2-doctor/1"} and set(asked) == {"training", "generated"}
    assert result["is_female"].dropna().isin([0, 1]).all()


def test_estimates_combine_judge_and_annotations(own_people):
    rated = own_people.sample(160, random_state=1)
    said = ratings({"image_id": rated["image_id"], "label": rated["truth"]})
    table = precision.estimates(custom.headlines(own_people), said)
    whole = table[table["group"] == "all"].set_index("estimator")
    truth = 100 * np.mean([(s["truth"] == "female").mean() for _, s in own_people.groupby("group")])
    assert whole.loc["both", "ci_low"] <= truth <= whole.loc["both", "ci_high"]
    assert whole.loc["both", "n_annotated"] == len(rated) and whole.loc["both", "is_more_precise"] == 1
    (card,) = precision.answers.combined.findings(table)
    assert card.question == "What is the share perceived as female of m, estimated from annotations and judge combined?"
    assert f"as precise as one from {whole.loc['both', 'n_equivalent']:.0f} annotations alone" in card.card_text
    # The estimates of a single group by hand, without weights.
    one = own_people[(own_people["group"] == "2") & (own_people["status"] == "judged")]
    some = rated[rated["group"] == "2"]
    f = (some["gender"] == "female").where(some["status"] == "judged").astype(float)
    truth, share = some["truth"] == "female", (one["gender"] == "female").mean()
    row = table[(table["group"] == "2") & (table["estimator"] == "both")].iloc[0]
    # PPI++ with people unknown to the judge: the annotators' share, and the judge's difference on their subset.
    seen = f.notna()
    differs = (share - f[seen]).sum() / len(some)
    assert row["estimate"] == pytest.approx(100 * (truth.mean() + row["tuning"] * differs))


def test_estimates_answer_counts_all_annotated_people(own_people):
    # 80 people are annotated, the judge classifies fewer, and annotators are unsure of the last eight.
    rated = own_people.sample(80, random_state=2)
    label = np.where(np.arange(80) < 72, rated["truth"], "unsure")
    table = precision.estimates(custom.headlines(own_people), ratings({"image_id": rated["image_id"], "label": label}))
    (card,) = precision.answers.combined.findings(table)
    assert card.n == 80 and card.n_unit == "annotated people"
    assert card.details[0] == "72 of the annotated people have a clear label (female or male; yes or no)."
    assert "annotators skip people independently" in card.details[-1]


def test_estimates_cluster_people_by_image(own_people):
    alone = own_people.sort_values(["group", "prompt"])
    pairs = pd.concat([alone, alone.assign(position=2)], ignore_index=True)
    rated = alone.sample(100, random_state=3)
    widths = []
    for people, positions in ((alone, [1]), (pairs, [1, 2])):
        said = [{"image_id": rated["image_id"], "label": rated["truth"], "position": k} for k in positions]
        said = ratings(pd.concat([pd.DataFrame(one) for one in said]))
        table = precision.estimates(custom.headlines(people), said)
        whole = table[table["group"] == "all"].set_index("estimator")
        widths.append((whole["ci_high"] - whole["ci_low"]).astype(float))
    # Copies of people add nothing; independent ones would narrow intervals by a factor of 0.71.
    np.testing.assert_allclose(widths[1], widths[0], rtol=0.02)


def test_attribute_headlines_match_table_and_are_corrected(tmp_path):
    rng = np.random.default_rng(11)
    rows, truth = [], {}
    for profession, prompt, k in itertools.product([f"p{j}" for j in range(8)], ("woman", "man"), range(9)):
        image = f"{prompt}-{profession}/{k}"
        truth[image] = rng.random() < (0.7 if prompt == "woman" else 0.3)
        # The judge misses one in four.
        seen = truth[image] and rng.random() < 0.75
        rows.append(["m", prompt, profession, image, "suit;skirt" if seen else "suit", "tie" if k else ""])
    names = ["model", "prompt", "profession", "image_id", "attributes", "attributes_missing"]
    images = pd.DataFrame(rows, columns=names)
    shown = images["attributes"].str.contains("skirt").groupby([images["profession"], images["prompt"]]).mean()
    presence = shown.rename("share").reset_index().assign(model="m", attribute="skirt", n=9, reason="")
    paper_table = dalleval.attribute_difference(presence, tables.make_table([], "dalleval_printed_attributes"))
    paper_table = paper_table[paper_table["comparison"] == "woman - man"].iloc[0]
    (one,) = dalleval.attribute_headlines(images, ["", "skirt"])
    assert one.value == pytest.approx(100 * paper_table["difference"])
    # Eight of nine images have no answer about a tie.
    (tie,) = dalleval.attribute_headlines(images, ["tie"])
    assert tie.cells["n"].tolist() == [1] * 16
    text = "image,question,annotator,label\n"
    text += "".join(f"{image},skirt,ann,{'yes' if shows else 'no'}\n" for image, shows in truth.items())
    (tmp_path / "r.csv").write_text(text)
    said = precision.ratings(annotated_pipeline(tmp_path / "r.csv"))
    assert set(said["label"]) == {"yes", "no"}
    result = precision.estimates([one], said).set_index("estimator")
    # With all images annotated, the estimate equals the annotations.
    true_shares = pd.Series(truth).groupby(images.set_index("image_id")["prompt"]).mean()
    assert result.loc["both", "estimate"] == pytest.approx(100 * (true_shares["woman"] - true_shares["man"]))
    assert result.loc["both", "estimate"] != pytest.approx(result.loc["judge", "estimate"])
    (tmp_path / "r.csv").write_text("image,question,annotator,label\na,skirt,r,female\n")
    with pytest.raises(InputError, match="'female' in data row 1, which is not a label of the question 'skirt'"):
        precision.ratings(annotated_pipeline(tmp_path / "r.csv"))


def test_estimates_without_annotations_use_judge_only(own_people):
    table = precision.estimates(custom.headlines(own_people), ratings([]).head(0))
    others = table[table["estimator"] != "judge"]
    assert others["estimate"].isna().all()
    assert set(others["reason"]) == {f"no generated image{which} is annotated" for which in ("", " of this group")}
    assert precision.answers.combined.findings(table) == []
    parts = precision.components(custom.headlines(own_people), table).set_index("part")
    assert parts.loc["judge", "reason"] == "no annotations" and parts.loc["group", "percent"] == 0
    assert parts["percent"].sum() == pytest.approx(100)


def test_estimates_without_judged_people_have_reason(own_people):
    people = own_people.assign(status="no_face", gender="")
    table = precision.estimates(custom.headlines(people), ratings([]).head(0))
    assert len(table) and table["estimate"].isna().all()
    assert set(table.loc[table["estimator"] == "judge", "reason"]) == {"no person is judged female or male"}
    assert len(precision.figures.estimates(table).axes) == 1


# -- the annotated subset and its sampling ------------------------------------------------------------------


def annotated_pipeline(file):
    """Return a minimal pipeline with a file of annotations."""
    judging = SimpleNamespace(annotations=str(file))
    return SimpleNamespace(settings=SimpleNamespace(judging=judging), image_folder=None)


def test_ratings_read_long_and_wide_files(tmp_path):
    long = "image,source,occupation,model,probability,annotator,label\n"
    long += "a/0,generated,nurse,m,0.5,r1,f\na/0,generated,nurse,m,0.5,r2,female\n"
    long += "b/0,generated,nurse,m,0.25,r1,\n"
    (tmp_path / "long.csv").write_text(long)
    result = precision.ratings(annotated_pipeline(tmp_path / "long.csv"))
    rows = [["a/0", "female", 2, 0.5], ["b/0", "unannotated", 0, 0.25]]
    assert result[["image_id", "label", "n_annotators", "probability"]].values.tolist() == rows
    (tmp_path / "wide.csv").write_text("image,ann,bob\na/0,male,female\nb/0,male,\n")
    result = precision.ratings(annotated_pipeline(tmp_path / "wide.csv"))
    assert list(result["label"]) == ["tie", "male"] and result["probability"].isna().all()
    assert precision.ratings(annotated_pipeline("")).empty


def test_weights_are_inverse_probabilities():
    rated = pd.DataFrame({"probability": [0.5, 0.2]})
    assert annotations.weights(rated).tolist() == pytest.approx([2, 5])
    assert annotations.weights(rated.assign(probability=[0.5, np.nan])) is None
    assert annotations.weights(rated.head(0)) is None


def images_of(sizes):
    names = [name for name, n in sizes.items() for _ in range(n)]
    return pd.DataFrame({"image_id": [f"i{k}" for k in range(len(names))], "source": "generated", "occupation": names})


def test_draw_probabilities_by_hand():
    sampled_images = sample.draw(images_of({"a": 2, "b": 18, "c": 30}), 11, seed=0)
    # Three full rounds give a 2 (all of it), b and c 3 each; the other three go to b and c, one of them at random.
    by = sampled_images.groupby("occupation")["probability"].first()
    assert by["a"] == 1
    assert by["b"] == pytest.approx(4.5 / 18) and by["c"] == pytest.approx(4.5 / 30)


@pytest.mark.long
def test_annotations_option_is_checked_before_run(tmp_path, root, capsys):
    pytest.importorskip("torch", reason="models need the extra 'models'")
    asked = audit.make_parameters(["world"], preset="quick", papers=["dalleval"], annotations="r.csv")
    assert asked["settings"]["judging"]["annotations"] == "r.csv"
    (tmp_path / "r.csv").write_text("image,annotator,label\na,r,female\n")
    arguments = ["--annotations", str(tmp_path / "r.csv"), "--outputs", str(tmp_path)]
    arguments += ["--notebooks-dir", str(root / "notebooks")]
    for paper, said in (
        ("triplets", r"judging\.annotations has no effect here"),
        ("dalleval", r"r\.csv annotates none of the images here, such as '.+/0', but others, such as 'a'"),
    ):
        assert cli.main(["audit", "world", "--preset", "quick", "--paper", paper, *arguments]) == 2
        assert re.search(said, capsys.readouterr().err)
    (tmp_path / "r.csv").write_text("image,annotator,label\na,r,perhaps\n")
    settings = Settings(judging={"annotations": str(tmp_path / "r.csv")}, compute={"cache": str(tmp_path / "store")})
    with pytest.raises(InputError, match="'perhaps'"):
        validation.check_plan(Pipeline("world", settings, progress=False), ["precision_ratings"])
