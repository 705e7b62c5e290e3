"""Strips of images and one page per model: selection, labels and sizes of images."""

import base64
import io
import json

import numpy as np
import pandas as pd
import pytest
from array_images import ArrayImages
from bs4 import BeautifulSoup
from PIL import Image

from biaslab.hub.image_sources import UnreadableImage
from biaslab.report import build, image_pages

HOSTILE = '<img src=x onerror="window.hacked=1">"\'&'


def _noise(k, side=80):
    return np.random.default_rng(k).integers(0, 256, (side, side, 3), dtype=np.uint8)


def _person(image, group, gender, p, status="judged", **more):
    who = {"image_id": image, "group": group, "who": group, "prompt": f"a photo of a {group}", "position": 1}
    return who | {"gender": gender, "probability_female": p, "status": status} | more


def _model_images(people, images, **more):
    whole = {"paper": "custom", "kind": "custom", "title": "custom prompts", "model": "model a", **more}
    return image_pages.ModelImages(**whole, people=pd.DataFrame(people), images=images)


@pytest.fixture
def nurses_and_pilots():
    """Twelve nurses, nine classified as female, two pilots, one classified as female, and an undetected poet."""
    people = [_person(f"n{k}", "nurse", "female", 0.9 - k / 100) for k in range(9)]
    people += [_person(f"n{9 + k}", "nurse", "male", 0.3 - k / 10) for k in range(2)]
    people += [_person("n11", "nurse", "", 0.5, "uncertain")]
    people += [_person("p0", "pilot", "male", 0.1), _person("p1", "pilot", "female", 0.8)]
    people += [_person("x0", "poet", "", np.nan, "no_face")]
    ids = [row["image_id"] for row in people]
    # The result is independent of the order of images.
    rows = np.random.default_rng(0).permutation(len(people))
    return _model_images([people[k] for k in rows], ArrayImages([_noise(k) for k in range(len(ids))], ids))


def test_strips_show_images_from_female_to_male(nurses_and_pilots):
    (strip,) = image_pages.strips([nurses_and_pilots])
    nurse, pilot = strip["rows"]
    assert (strip["model"], strip["groups"], strip["images"]) == ("model a", 3, 15)
    # Of 9 of 11 nurses and 1 of 2 pilots.
    assert strip["mean"] == pytest.approx((100 * 9 / 11 + 50) / 2)
    # Of 12 in order (nine women, the unclear one, two men) places 0, 1.6, 3.1, 4.7, 6.3, 7.9, 9.4 and 11.
    assert [p["said"] for p in nurse["pictures"]] == [
        *(f"perceived as female (probability {0.9 - k / 100:.2f})" for k in (0, 2, 3, 5, 6, 8)),
        "unclear (probability of female 0.50)",
        "perceived as male (probability 0.80)",
    ]
    assert [p["marks"] for p in nurse["pictures"]] == [["f"]] * 6 + [["u"], ["m"]]
    assert [p["marks"] for p in pilot["pictures"]] == [["f"], ["m"]]
    # Wilson's interval of 9 of 11 at 95%: (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n).
    assert nurse["share"] == pytest.approx(
        {"percent": 81.8182, "low": 52.302, "high": 94.864, "n": 11, "unclear": 1}, abs=1e-3
    )
    assert pilot["share"]["percent"] == 50


def test_strips_mark_people_from_left_to_right():
    people = [_person("i", "cook", "male", 0.2, position=2), _person("i", "nurse", "female", 0.7, tone=3.0)]
    (strip,) = image_pages.strips([_model_images(people, ArrayImages([_noise(0)], ["i"]))])
    assert [row["group"] for row in strip["rows"]] == ["nurse", "cook"]
    for row in strip["rows"]:
        (image_entry,) = row["pictures"]
        assert image_entry["marks"] == ["f", "m"] and image_entry["group"] == "nurse and cook"
        assert image_entry["said"].startswith(
            "perceived as female (probability 0.70), skin tone 3 of 10; perceived as male"
        )


def test_write_model_includes_images_omitted_from_strips(tmp_path):
    people = [_person("a", "cook", "male", 0.1, apart=False), _person("b", "a woman", "female", 0.9, apart=True)]
    model_images = _model_images(people, ArrayImages([_noise(0), _noise(1)], ["a", "b"]))
    (strip,) = image_pages.strips([model_images])
    assert [row["group"] for row in strip["rows"]] == ["cook"]
    summary = image_pages.write_model(tmp_path / "m.html", "model a", [model_images], index="../index.html")
    assert summary == {"images": 2, "shown": 2, "side": 256}


def test_write_model_escapes_hostile_names(tmp_path):
    people = [
        _person("a", HOSTILE, "female", 0.9, tone=4.0, prompt=HOSTILE),
        _person("b", "cook", "", np.nan, "no_face"),
        _person("c", "cook", "", np.nan, "unreadable"),
    ]
    images = ArrayImages([_noise(0), _noise(1), UnreadableImage("damaged")], list("abc"))
    image_pages.write_model(tmp_path / "m.html", HOSTILE, [_model_images(people, images)], index="../index.html")
    page = BeautifulSoup((tmp_path / "m.html").read_text(encoding="utf-8"), "html.parser")
    assert HOSTILE in page.title.get_text() and HOSTILE in page.h1.get_text()
    visible_images = [image for image in page("img") if image.get("src")]
    assert len(visible_images) == 2 and all(
        image["src"].startswith("data:image/webp;base64,") for image in visible_images
    )
    assert page.find(class_="none").get_text() == "unreadable"
    assert page.find("button", class_="picture")["data-prompt"] == HOSTILE
    chosen = {s["data-by"]: [o.get_text() for o in s("option")[1:]] for s in page("select")}
    assert chosen == {
        "group": [HOSTILE, "cook"],
        "judged": ["female", "not judged"],
        "status": ["no face", "unreadable"],
    }
    assert not [name for tag in page(True) for name in tag.attrs if name.startswith("on")]


@pytest.mark.long
def test_strips_image_size_fits_budget_without_upscaling(monkeypatch):
    images = ArrayImages([_noise(k, 300) for k in range(8)])
    model_images = _model_images([_person(str(k), "cook", "male", 0.1) for k in range(8)], images)
    sizes = {}
    for budget in (10_000_000, 120_000, 20_000, 1):
        monkeypatch.setattr(image_pages, "STRIP_BYTES", budget)
        (strip,) = image_pages.strips([model_images])
        data = [base64.b64decode(p["source"].partition(",")[2]) for p in strip["rows"][0]["pictures"]]
        sizes[budget] = Image.open(io.BytesIO(data[0])).size[0]
        assert sum(map(len, data)) <= budget or sizes[budget] == 48
    assert list(sizes.values()) == sorted(sizes.values(), reverse=True) and sizes[10_000_000] == 256
    small = _model_images([_person("0", "cook", "male", 0.1)], ArrayImages([_noise(0, 20)]))
    (strip,) = image_pages.strips([small])
    data = base64.b64decode(strip["rows"][0]["pictures"][0]["source"].partition(",")[2])
    assert Image.open(io.BytesIO(data)).size == (20, 20)


def test_write_model_above_limit_shows_first_of_each_group(tmp_path, monkeypatch):
    monkeypatch.setattr(image_pages, "MAX_IMAGES", 5)
    people = [_person(f"{group}{k}", group, "male", 0.1) for group, n in (("a", 6), ("b", 2)) for k in range(n)]
    ids = [row["image_id"] for row in people]
    model_images = _model_images(people, ArrayImages([_noise(k, 8) for k in range(8)], ids))
    summary = image_pages.write_model(tmp_path / "m.html", "model a", [model_images], index="../index.html")
    assert summary["images"] == 8 and summary["shown"] == 5
    page = BeautifulSoup((tmp_path / "m.html").read_text(encoding="utf-8"), "html.parser")
    assert [item["data-groups"] for item in page(class_="item")] == ["a"] * 3 + ["b"] * 2
    assert "5 of 8 images" in page.find(class_="byline").get_text()


def _run(folder, model_images, **more):
    (folder / "pictures").mkdir()
    summary = image_pages.write_model(
        folder / "pictures/model-1.html", model_images.model, [model_images], index="../index.html"
    )
    strips = image_pages.strips([model_images])
    (folder / "pictures/strips.json").write_text(json.dumps({"strips": strips}), encoding="utf-8")
    models = [{"model": model_images.model, "page": "pictures/model-1.html", **summary}]
    record = {"pictures": {"strips": "pictures/strips.json", "models": models}, **more}
    (folder / "run.json").write_text(json.dumps(record), encoding="utf-8")
    return strips


def test_report_shows_strips_after_findings(tmp_path, nurses_and_pilots):
    _run(tmp_path, nurses_and_pilots, findings=[{"question": "Q?", "answer": "A.", "main": True}])
    page = BeautifulSoup(build(tmp_path, {}).read_text(encoding="utf-8"), "html.parser")
    assert page.main.section["id"] == "findings"
    first = page.main.section.find_next_sibling("section")
    assert first["id"] == "drawn" and len(first("img")) == 10
    assert [b.get_text() for b in first.select(".whom b")] == ["nurse", "pilot"]
    assert "82% female (52 to 95; n = 11), 1\N{NO-BREAK SPACE}unclear" in first.get_text(" ", strip=True)
    assert first.h3.a["href"] == "pictures/model-1.html"


@pytest.mark.parametrize(
    "broken",
    [
        *("{", '{"strips": 3}', '{"strips": [{"rows": [{}], "model": "m"}]}'),
        '{"strips": [{"paper": "p", "called": "c", "model": "m", "groups": 1, "images": 1, "rows": [3]}]}',
    ],
)
def test_report_invalid_strips_are_omitted(tmp_path, nurses_and_pilots, broken):
    strips = _run(tmp_path, nurses_and_pilots)
    strips[0]["rows"][0]["pictures"][0]["source"] = "https://example.org/x.png"
    (tmp_path / "pictures/strips.json").write_text(json.dumps({"strips": strips}), encoding="utf-8")
    page = BeautifulSoup(build(tmp_path, {}).read_text(encoding="utf-8"), "html.parser")
    assert len(page.find(id="drawn")("img")) == 9
    (tmp_path / "pictures/strips.json").write_text(broken, encoding="utf-8")
    page = BeautifulSoup(build(tmp_path, {}).read_text(encoding="utf-8"), "html.parser")
    assert not page.find(id="drawn")


@pytest.mark.long
def test_model_page_supports_keyboard_and_filters(tmp_path, visit, nurses_and_pilots):
    _run(tmp_path, nurses_and_pilots)
    page = visit(tmp_path / "pictures/model-1.html")
    page.get_by_label("Judged").select_option("male")
    assert page.locator(".item:visible").count() == 3
    assert page.get_by_role("status").inner_text() == "3 images"
    page.locator("button.picture:visible").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    first = dialog.locator(".group").inner_text(), dialog.locator(".said").inner_text()
    page.keyboard.press("ArrowRight")
    second = dialog.locator(".group").inner_text(), dialog.locator(".said").inner_text()
    assert first != second and "perceived as male" in first[1] and "perceived as male" in second[1]
    assert dialog.get_by_role("button", name="Next image").is_disabled()
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    assert page.evaluate("document.activeElement.dataset.said") == second[1]
    page.get_by_label("Judged").select_option("")
    page.get_by_label("Group").select_option("poet")
    assert page.locator(".item:visible").count() == 1


@pytest.mark.long
def test_strip_image_opens_enlarged(tmp_path, visit, nurses_and_pilots):
    _run(tmp_path, nurses_and_pilots)
    page = visit(build(tmp_path, {}))
    page.locator("#drawn button.picture").nth(8).click()
    dialog = page.locator("#picture")
    assert dialog.locator(".prompt").inner_text() == "a photo of a pilot"
    assert dialog.locator("img").evaluate("(i) => i.clientWidth") > 250
    page.keyboard.press("ArrowLeft")
    assert dialog.locator(".prompt").inner_text() == "a photo of a nurse"


def test_strips_prefer_groups_with_full_rows():
    sizes = {"a": 9, "b": 2, "c": 8, "d": 12, "e": 1, "f": 8}
    people = [_person(f"{g}{k}", g, "male", 0.1) for g, n in sizes.items() for k in range(n)]
    images = ArrayImages([_noise(0, 8)] * len(people), [row["image_id"] for row in people])
    (strip,) = image_pages.strips([_model_images(people, images)])
    assert sorted(row["group"] for row in strip["rows"]) == ["a", "c", "d", "f"]
    (strip,) = image_pages.strips([_model_images([p for p in people if p["group"] in "bce"], images)])
    assert sorted(row["group"] for row in strip["rows"]) == ["b", "c", "e"]
