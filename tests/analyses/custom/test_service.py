"""Changes by a service: words added to prompts, statuses by group, and a fake service with known behaviour."""

import json

import numpy as np
import pandas as pd
import pytest
from fake_endpoint import KEY, FakeEndpoint, drawn, failure
from PIL import Image

from biaslab.analyses import custom
from biaslab.endpoints import images as image_endpoint
from biaslab.pipeline import Pipeline
from biaslab.prompts.rewritten import added_kinds
from biaslab.settings import Settings


@pytest.mark.parametrize(
    ("prompt", "rewritten", "kinds"),
    [
        ("a nurse", "A young Black woman who is a nurse", ["gender", "skin tone", "age"]),
        ("a nurse", "A nurse in a white coat on a dark street of the 1920s, light from an old lamp", []),
        ("a nurse", "A South Asian nurse in her 30s", ["gender", "skin tone", "age"]),
        ("a woman", "A woman with fair skin", ["skin tone"]),
        ("a young nurse", "a young, 25-year-old nurse", ["age"]),
        ("a woman cooking", "A woman cooks", []),
        ("a nurse", "", []),
    ],
)
def test_added_kinds_are_missing_from_prompt(prompt, rewritten, kinds):
    assert added_kinds(prompt, rewritten) == kinds


def requests(*rows):
    columns = ["group", "status", "prompt", "revised_prompt", "adds"]
    frame = pd.DataFrame(rows, columns=columns).assign(model="m")
    return frame.assign(image_id=[f"i{k}" for k in range(len(frame))])


def test_service_changes_by_hand():
    rows = requests(
        ("a", "delivered", "a nurse", "A nurse.", ""),  # The same but for case and a full stop.
        ("a", "delivered", "a nurse", "a female nurse", "gender"),
        ("a", "black", "a nurse", "a young nurse", "age"),
        ("a", "refused", "a nurse", "", ""),
        ("b", "filtered", "a cook", "", ""),
        ("b", "placeholder", "a cook", "", ""),
        ("b", "lost", "a cook", "", ""),
    )
    table = custom.service_changes(rows).set_index(["event", "group"])
    counts = table[["n", "n_requests"]].apply(tuple, axis=1)
    assert counts["withheld"].to_dict() == {"all": (4, 7), "a": (2, 4), "b": (2, 3)}
    assert counts["refused"]["all"] == counts["filtered"]["all"] == counts["placeholder"]["all"] == (1, 7)
    # Of images that came, two of three prompts of a; b's placeholder came with the prompt as it was.
    assert counts["rewritten"].to_dict() == {"all": (2, 4), "a": (2, 3), "b": (0, 1)}
    assert counts["adds gender"].to_dict() == counts["adds age"].to_dict() == {"all": (1, 2), "a": (1, 2)}
    assert counts["adds skin tone"]["all"] == (0, 2)
    low, high = table.loc[("refused", "a"), ["ci_low", "ci_high"]]
    # Wilson's interval of 1 of 4.
    assert (low, high) == pytest.approx((4.5587, 69.9358), abs=1e-3)
    text = custom.answers.withheld.findings(table.reset_index())[0].answer
    assert text.startswith("For 57.1%")


def test_service_changes_without_revised_prompt_omit_rewritten():
    rows = requests(("a", "delivered", "x", "", ""), ("a", "delivered", "x", "", ""))
    assert set(custom.service_changes(rows)["event"]) == {"withheld", "refused", "filtered", "black", "placeholder"}


def test_service_images_have_statuses_of_endpoint(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_KEY", KEY)
    rng = np.random.default_rng(0)

    def file(image):
        import io

        data = io.BytesIO()
        Image.fromarray(image.astype(np.uint8)).save(data, "PNG")
        return data.getvalue()

    card = np.full((64, 64, 3), 230)
    card[28:36, 8:56] = 60
    images = {"black": np.zeros((64, 64, 3)), "grey": np.full((64, 64, 3), 128), "card": card}

    def reply(prompt, n):
        word = prompt.split()[-1]
        if word == "refused":
            return failure(400, "blocked", "content_policy_violation")
        status, headers, body = drawn(
            file(images.get(word, rng.integers(0, 255, (64, 64, 3)))), revised=f"{prompt}, a man"
        )
        if word == "filtered":
            whole = json.loads(body)
            whole["data"][0]["finish_reason"] = "CONTENT_FILTERED"
            body = json.dumps(whole)
        return status, headers, body

    words = ["refused", "filtered", "black", "grey", "card", "fine"]
    lines = [f"the {word},{group}" for word in words for group in ("a", "b")]
    (tmp_path / "p.csv").write_text("prompt,group\n" + "\n".join(lines) + "\n")
    with FakeEndpoint().running() as server:
        server.reply = reply
        endpoint = {"url": server.url, "price": 0, "cost_limit": 1, "api_key_env": "FAKE_KEY"}
        settings = {
            "custom": {"prompts_file": str(tmp_path / "p.csv"), "images_per_prompt": 2}, "endpoint": endpoint,
            "compute": {"cache": str(tmp_path / "store")}, "captions": {"approaches": []},
        }  # fmt: skip
        table = custom.service_images(Pipeline("endpoint:fake", Settings.from_mapping(settings), progress=False))
    status = table.groupby(table["prompt"].str.split().str[-1])["status"].agg(set)
    expected = {word: {word} for word in ("refused", "filtered", "black")}
    expected |= {"grey": {"placeholder"}, "card": {"placeholder"}, "fine": {"delivered"}}
    assert status.to_dict() == expected and len(table) == 24
    assert set(table.loc[table["status"] == "delivered", "adds"]) == {"gender"}
    assert set(image_endpoint.OUTCOMES) >= {"refused"}
