"""The annotation page in headless Chromium, by keyboard and mouse: answers are saved in a readable file."""

import base64
import io
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from biaslab.analyses.ratings import sample
from biaslab.judges.annotation_questions import describe, find_questions
from biaslab.papers.triplets import nouns
from biaslab.ratings import annotations, shares
from biaslab.runs import annotation_page

pytestmark = [pytest.mark.browser, pytest.mark.long]

HEADER = ["image_id", "position", "question", "model", "source", "occupation"]
HOSTILE = (
    "</script><script>window.hacked=1</script>",
    '"><img src="https://example.org/x" onerror="window.hacked=1">',
    "<!--<script>{{ 7 * 7 }}${alert(1)}",
    "a,b \"quoted\" 'c' \\u003c &lt; ‮\u2028",
    "__proto__",
)


def picture(k: int) -> str:
    """Return an image of one pixel, other than that of every other number."""
    file = io.BytesIO()
    Image.new("RGB", (1, 1), (k % 256, k // 256, 99)).save(file, "png")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def write(path: Path, n: int, *, rows=None, seed: int = 0) -> dict[str, str]:
    """Write a page about perceived gender and return the ids of its images by what is shown."""
    rows = rows or [[f"i{k}", "1", "", "mini", "generated", "nurse"] for k in range(n)]
    pictures = [picture(k) for k in range(len(rows))]
    data = {"seed": seed, "header": HEADER, "rows": rows, "pictures": pictures}
    data["kinds"] = [describe(question_type) for question_type in find_questions()]
    data["items"] = [[k, 0, "Which gender do you perceive in the person?"] for k in range(len(rows))]
    path.write_text(annotation_page.render_page(data), encoding="utf-8")
    return {shown_image: row[0] for shown_image, row in zip(pictures, rows, strict=True)}


def begin(page, name: str = "ana") -> None:
    page.keyboard.type(name)
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    page.wait_for_selector("#rating:not([hidden])")


def shown_image(page) -> str:
    return page.locator("#image").get_attribute("src")


def press(page, key: str) -> str:
    """Answer, wait for another image or the end, and return what was shown."""
    previous_image = shown_image(page)
    page.keyboard.press(key)
    page.wait_for_function(
        "(src) => document.getElementById('image').src !== src || !document.getElementById('done').hidden",
        arg=previous_image,
    )
    return previous_image


def download(page, key: str, folder: Path) -> Path:
    with page.expect_download() as download_info:
        page.keyboard.press(key)
    path = folder / download_info.value.suggested_filename
    download_info.value.save_as(path)
    return path


def test_page_by_keyboard_gives_readable_file(visit, tmp_path):
    ids = write(tmp_path / "rate.html", 5)
    page = visit(tmp_path / "rate.html")
    # Without consent nothing begins.
    page.keyboard.type("ana")
    page.keyboard.press("Enter")
    assert page.locator("#rating").is_hidden() and page.locator("#consent").evaluate("c => c.validity.valueMissing")
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    page.wait_for_selector("#rating:not([hidden])")
    first, second, third = press(page, "f"), press(page, "M"), press(page, "u")
    download_info = {first: "female", second: "male", third: "unsure"}
    # Back to the second: its answer is shown, and changed.
    page.keyboard.press("b")
    page.keyboard.press("Backspace")
    assert shown_image(page) == second
    assert page.locator("[aria-pressed=true]").get_attribute("data-label") == "male"
    download_info[press(page, "f")] = "female"
    fourth = shown_image(page)
    assert fourth not in download_info and page.locator("#count").text_content() == "Image 4 of 5"
    page.reload()
    page.wait_for_selector("#rating:not([hidden])")
    assert shown_image(page) == fourth and page.locator("#bar").evaluate("bar => bar.value") == 3
    for key in ("m", "m"):
        download_info[press(page, key)] = "male"
    page.wait_for_selector("#done:not([hidden])")
    read = shares.read(download(page, "Enter", tmp_path))
    assert annotations.annotators(read.table) == ["ana"] and len(download_info) == 5
    assert dict(sample.votes(read.table)) == {ids[image]: label for image, label in download_info.items()}
    # From the end a way leads back, and after a reload the end is there again.
    page.keyboard.press("b")
    assert page.locator("#rating").is_visible() and page.locator("#count").text_content() == "Image 5 of 5"
    page.reload()
    page.wait_for_selector("#done:not([hidden])")


def test_page_asks_about_people_of_image_in_turn(visit, tmp_path):
    pairs = [(k, side) for k in range(6) for side in ("left", "right")]
    rows = [[f"i{k}", "1" if side == "left" else "2", "", "mini", "generated", "nurse"] for k, side in pairs]
    questions = [f"The person on the {side} of {k}?" for k, side in pairs]
    data = {"seed": 0, "header": HEADER, "rows": rows, "pictures": [picture(k) for k in range(6)]}
    data["kinds"] = [describe(question_type) for question_type in find_questions()]
    data["items"] = [[k, 0, words] for (k, _), words in zip(pairs, questions, strict=True)]
    (tmp_path / "rate.html").write_text(annotation_page.render_page(data), encoding="utf-8")
    page = visit(tmp_path / "rate.html")
    begin(page)
    sequence = []
    for k in range(len(rows)):
        sequence.append(page.locator("#question").text_content())
        assert page.locator("#count").text_content() == f"Image {k // 2 + 1} of 6 · question {k + 1} of 12"
        page.keyboard.press("f" if "left" in sequence[-1] else "m")
    page.wait_for_selector("#done:not([hidden])")
    assert sorted(sequence) == sorted(questions) and sequence != questions
    for left, right in zip(sequence[::2], sequence[1::2], strict=True):
        assert right == left.replace("left", "right")
    people = pd.DataFrame({"image_id": [row[0] for row in rows], "position": [int(row[1]) for row in rows]})
    read = annotations.judgements(people, download(page, "Enter", tmp_path))
    assert (read["gender"] == read["position"].map({1: "female", 2: "male"})).all()


@pytest.fixture
def every_type(tmp_path, monkeypatch):
    """Return a page with each type of question about two images, the first of two people."""
    folder = tmp_path / "mine"
    folder.mkdir()
    for k, name in enumerate("ab"):
        Image.new("RGB", (30, 20), (90 * k, 40, 40)).save(folder / f"{name}.png")
    table = "file,prompt,group,position\na.png,a nurse and a dog,nurse,1\na.png,a nurse and a dog,pilot,2\n"
    (folder / "t.csv").write_text(table + "b.png,a dog,nurse,\n")
    (tmp_path / "own.yaml").write_text("- {name: hair, question: 'Hair?', answers: [dark, blond, dyed], of: person}")
    # Of the prompts here the last word is a noun.
    monkeypatch.setattr(nouns, "load", lambda name: nouns.Nouns(lambda text: [text.split()[-1]], str))
    names = f"perceived gender,skin tone,tie,object,noun,alignment,{tmp_path / 'own.yaml'}"
    return annotation_page.annotate(f"images:{folder}", outputs=tmp_path, questions=names)


@pytest.mark.parametrize("input_device", ["keyboard", "mouse"])
def test_page_with_each_question_type_records_answers(visit, every_type, tmp_path, input_device):
    # Question -> (the key pressed, the label) of each answer given.
    keys = {"": "m", "skin tone": "0", "tie": "n", "object: dog": "y", "noun: dog": "u", "alignment": "4", "hair": "2"}
    labels = {"": "male", "skin tone": "10", "tie": "no", "object: dog": "yes", "noun: dog": "unsure"}
    labels |= {"alignment": "4", "hair": "blond"}
    words = {"gender": "", "tone": "skin tone", "tie": "tie", "object": "object: dog", "visible": "noun: dog"}
    words |= {"prompt": "alignment", "Hair": "hair"}
    page = visit(every_type.path)
    begin(page)
    n = page.locator("#bar").evaluate("bar => bar.max")
    # Three people with four questions, and two images with three.
    assert n == 3 * 4 + 2 * 3
    pictures = []
    for k in range(n):
        if k == 7:
            # In the middle of an image.
            page.reload()
            page.wait_for_selector("#rating:not([hidden])")
        assert page.locator("#bar").evaluate("bar => bar.value") == k
        assert f"question {k + 1} of {n}" in page.locator("#count").text_content()
        question_text = page.locator("#question").text_content()
        (question,) = [name for word, name in words.items() if word in question_text]
        pictures.append(shown_image(page))
        if input_device == "keyboard":
            page.keyboard.press(keys[question])
        else:
            page.locator(f'[data-label="{labels[question]}"]').click()
    page.wait_for_selector("#done:not([hidden])")
    assert [pictures.count(image) for image in dict.fromkeys(pictures)] in ([11, 7], [7, 11])
    assert sum(first != second for first, second in pairwise(pictures)) == 1
    assert "alignment: 2 answers" in page.locator("#counts").text_content()
    table = pd.read_csv(download(page, "Enter", tmp_path), dtype=str, keep_default_na=False)
    first = ["image_id", "position", "question", "annotator", "label"]
    assert list(table) == [*first, "probability", "source", "occupation", "prompt"]
    assert (table["label"] == table["question"].map(labels)).all() and set(table["annotator"]) == {"ana"}
    counts = table.groupby("question").size().to_dict()
    assert counts == {
        **dict.fromkeys(["", "skin tone", "tie", "hair"], 3),
        "object: dog": 2,
        "noun: dog": 2,
        "alignment": 2,
    }
    people = table[table["question"] == ""]
    assert sorted(zip(people["image_id"], people["position"], people["occupation"], strict=True)) == [
        ("a.png", "1", "nurse"),
        ("a.png", "2", "pilot"),
        ("b.png", "1", "nurse"),
    ]
    # What was answered is shown again, and may be changed.
    page.keyboard.press("b")
    assert page.locator("[aria-pressed=true]").count() == 1


def test_page_is_accessible_and_fits_screen(visit, every_type):
    page = visit(every_type.path)
    begin(page)
    answer_names = {}
    for size in ((1280, 900), (390, 844), (360, 640)):
        page.set_viewport_size({"width": size[0], "height": size[1]})
        while page.locator("#back").is_enabled():
            page.keyboard.press("b")
        for _ in range(18):
            kind = page.locator("#question").text_content()
            buttons = page.locator("#answers button")
            answer_names[kind] = buttons.evaluate_all("all => all.map((one) => one.ariaLabel ?? one.innerText)")
            for button in [*buttons.all(), page.locator("#image"), page.locator("#early")]:
                box = button.bounding_box()
                assert box["x"] >= 0 and box["x"] + box["width"] <= size[0] and box["y"] + box["height"] <= size[1]
            for button in buttons.all():
                box = button.bounding_box()
                assert box["height"] >= 44 and box["width"] >= 44
                assert button.evaluate("one => one.scrollWidth <= one.clientWidth")
            page.keyboard.press("ArrowRight" if page.locator("#next").is_enabled() else "1")
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    (tone,) = {tuple(names) for kind, names in answer_names.items() if "tone" in kind}
    assert tone[:2] == ("Tone 1 of 10", "Tone 2 of 10") and tone[9] == "Tone 10 of 10" and len(tone) == 11
    (fit,) = {tuple(names) for kind, names in answer_names.items() if "prompt" in kind}
    assert (fit[0], fit[4]) == ("1: not at all", "5: completely") and fit[5].startswith("Cannot judge")


def test_page_order_is_fixed_per_annotator(visit, tmp_path):
    write(tmp_path / "rate.html", 6)
    write(tmp_path / "other.html", 6, seed=1)
    orders = []
    for file, name in (("rate", "ana"), ("rate", "ana"), ("rate", "ben"), ("other", "ana")):
        page = visit(tmp_path / f"{file}.html")
        begin(page, name)
        orders.append([press(page, "f") for _ in range(6)])
    assert orders[0] == orders[1] and all(len(set(order)) == 6 for order in orders)
    assert orders[0] not in (orders[2], orders[3])


def test_annotators_sharing_browser_have_separate_answers(visit, tmp_path):
    write(tmp_path / "rate.html", 2)
    page = visit(tmp_path / "rate.html")
    begin(page, "ana")
    for _ in range(2):
        press(page, "f")
    for _ in range(2):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#start:not([hidden])")
    begin(page, "ben")
    assert page.locator("#bar").evaluate("bar => bar.value") == 0
    for _ in range(2):
        press(page, "m")
    read = shares.read(download(page, "Enter", tmp_path))
    assert annotations.annotators(read.table) == ["ben"] and set(read.images["label"]) == {"male"}
    # Ratings of a page of other images are not mixed with these.
    write(tmp_path / "rate.html", 3)
    page.reload()
    assert page.locator("#start").is_visible()


def test_page_hostile_ids_and_storage_run_no_code(visit, tmp_path):
    rows = [[text, "1", "", f"{text} m", "generated", f"{text} o"] for text in HOSTILE]
    write(tmp_path / "rate.html", 0, rows=rows)
    page = visit(tmp_path / "rate.html")
    begin(page)
    press(page, "f")
    # Pages opened as files share local storage.
    page.evaluate("""() => {
        const name = Object.keys(localStorage).find((key) => key.endsWith(":ana"));
        const mine = JSON.parse(localStorage.getItem(name));
        const bad = [[99, "male"], [1.5, "male"], [0, "<img src=x onerror=hacked=1>"], "x", null, [null, null]];
        localStorage.setItem(name, JSON.stringify([...bad, ...mine]));
    }""")
    # If a reload starts a new process, local storage is available slightly later.
    for _ in range(5):
        page.reload()
        if page.locator("#rating").is_visible():
            break
    assert page.locator("#bar").evaluate("bar => bar.value") == 1
    for _ in HOSTILE[1:]:
        press(page, "f")
    assert page.locator("img").count() == 1 and page.locator("script").count() == 1
    text = download(page, "Enter", tmp_path).read_text(encoding="utf-8")
    for row in rows:
        assert ",".join('"' + cell.replace('"', '""') + '"' for cell in [*row[:3], "ana", "female", *row[3:]]) in text


def test_page_without_storage_warns_and_downloads(visit, tmp_path):
    write(tmp_path / "rate.html", 1)
    page = visit(tmp_path / "rate.html")
    page.evaluate("() => { Storage.prototype.setItem = () => { throw new Error('full'); }; }")
    assert page.locator("#unsaved").is_hidden()
    begin(page)
    assert page.locator("#unsaved").is_visible()
    press(page, "u")
    assert set(sample.votes(shares.read(download(page, "Enter", tmp_path)).table)) == {"unsure"}
    page.evaluate("onbeforeunload = null")  # it would ask before the page closes


def test_page_of_2000_images_shows_one_at_a_time(visit, tmp_path):
    ids = write(tmp_path / "rate.html", 2000)
    page = visit(tmp_path / "rate.html")
    assert page.locator("img").count() == 1
    begin(page)
    sequence = [press(page, key) for key in "fmu" * 2]
    assert len(set(sequence)) == 6 and set(sequence) <= set(ids)
    # A key that is held down answers once.
    page.keyboard.down("f")
    page.keyboard.down("f")
    page.keyboard.up("f")
    assert page.locator("#bar").evaluate("bar => bar.value") == 7
    # The rest at once: storage grows with each answer.
    page.evaluate("""() => {
        for (let k = 0; k < 1993; k++) document.dispatchEvent(new KeyboardEvent("keydown", { key: "m", code: "KeyM" }));
    }""")
    page.wait_for_selector("#done:not([hidden])")
    read = shares.read(download(page, "Enter", tmp_path))
    assert len(read.images) == 2000 and (read.images["label"] == "male").sum() == 2 + 1993


def test_page_controls_fit_one_screen(visit, tmp_path):
    write(tmp_path / "rate.html", 2)
    page = visit(tmp_path / "rate.html")
    begin(page)
    for width, height in ((1280, 900), (390, 844), (360, 640)):
        page.set_viewport_size({"width": width, "height": height})
        for name in ("image", "count", "back", "early"):
            box = page.locator(f"#{name}").bounding_box()
            assert box["x"] >= 0 and box["x"] + box["width"] <= width and box["y"] + box["height"] <= height, name
        for button in page.locator("[data-label]").all():
            box = button.bounding_box()
            assert box["height"] >= 44 and box["y"] + box["height"] <= height
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_page_hostile_folder_names_run_no_code(visit, tmp_path):
    folder = tmp_path / "<img src=x onerror=hacked=1>"
    jobs = {"<script>hacked=1<&": '"><svg onload=hacked=1>', "=cmd|'x'!A1": "=1+1"}
    for name, job in jobs.items():
        (folder / job).mkdir(parents=True)
        Image.new("RGB", (3, 3)).save(folder / job / f"{name}.png")
    annotate_page = annotation_page.annotate(folder, outputs=tmp_path)
    page = visit(annotate_page.path)
    begin(page)
    for _ in jobs:
        page.keyboard.press("f")
    page.wait_for_selector("#done:not([hidden])")
    path = download(page, "Enter", tmp_path)
    assert dict(sample.votes(shares.read(path).table)) == dict.fromkeys(jobs, "female")
    # A spreadsheet runs none of it.
    cells = path.read_text().replace("\n", ",").split(",")
    assert not any(cell.strip('"').startswith("=") for cell in cells)
