"""The annotation page in headless Chromium, by keyboard alone: answers come back as a readable file of annotations."""

import base64
import io
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from biaslab.analyses.ratings import sample
from biaslab.ratings import annotations, shares
from biaslab.runs import annotation_page

pytestmark = [pytest.mark.browser, pytest.mark.long]

HEADER = ["image", "source", "occupation", "model"]
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
    """Write a page and return the ids of its images by what is shown."""
    rows = rows or [[f"i{k}", "generated", "nurse", "mini"] for k in range(n)]
    pictures = [picture(k) for k in range(len(rows))]
    data = {"seed": seed, "header": HEADER, "rows": rows, "pictures": pictures}
    path.write_text(annotation_page.rendered(data), encoding="utf-8")
    return {shown: row[0] for shown, row in zip(pictures, rows, strict=True)}


def begin(page, name: str = "ana") -> None:
    page.keyboard.type(name)
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    page.wait_for_selector("#rating:not([hidden])")


def shown(page) -> str:
    return page.locator("#image").get_attribute("src")


def press(page, key: str) -> str:
    """Answer, wait for another image or the end, and return what was shown."""
    before = shown(page)
    page.keyboard.press(key)
    page.wait_for_function(
        "(src) => document.getElementById('image').src !== src || !document.getElementById('done').hidden", arg=before
    )
    return before


def download(page, key: str, folder: Path) -> Path:
    with page.expect_download() as given:
        page.keyboard.press(key)
    path = folder / given.value.suggested_filename
    given.value.save_as(path)
    return path


def test_by_keyboard_from_consent_to_a_file_that_ratings_reads(visit, tmp_path):
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
    given = {first: "female", second: "male", third: "unsure"}
    # Back to the second: its answer is shown, and changed.
    page.keyboard.press("b")
    page.keyboard.press("Backspace")
    assert shown(page) == second
    assert page.locator("[aria-pressed=true]").get_attribute("data-label") == "male"
    given[press(page, "f")] = "female"
    fourth = shown(page)
    assert fourth not in given and page.locator("#count").text_content() == "Image 4 of 5"
    page.reload()
    page.wait_for_selector("#rating:not([hidden])")
    assert shown(page) == fourth and page.locator("#bar").evaluate("bar => bar.value") == 3
    for key in ("m", "m"):
        given[press(page, key)] = "male"
    page.wait_for_selector("#done:not([hidden])")
    read = shares.read_images(download(page, "Enter", tmp_path))
    assert read.annotators == ("ana",) and len(given) == 5
    assert dict(sample.votes(read)) == {ids[image]: label for image, label in given.items()}
    # From the end a way leads back, and after a reload the end is there again.
    page.keyboard.press("b")
    assert page.locator("#rating").is_visible() and page.locator("#count").text_content() == "Image 5 of 5"
    page.reload()
    page.wait_for_selector("#done:not([hidden])")


def test_people_of_one_picture_are_asked_about_one_after_the_other(visit, tmp_path):
    pairs = [(k, side) for k in range(6) for side in ("left", "right")]
    rows = [[f"i{k}", "generated", "nurse", "mini", "1" if side == "left" else "2"] for k, side in pairs]
    questions = [f"The person on the {side} of {k}?" for k, side in pairs]
    data = {"seed": 0, "header": [*HEADER, "position"], "rows": rows, "questions": questions}
    data["pictures"] = [picture(k) for k, _ in pairs]
    (tmp_path / "rate.html").write_text(annotation_page.rendered(data), encoding="utf-8")
    page = visit(tmp_path / "rate.html")
    begin(page)
    seen = []
    for k in range(len(rows)):
        seen.append(page.locator("#question").text_content())
        assert page.locator("#count").text_content() == f"Person {k + 1} of 12"
        page.keyboard.press("f" if "left" in seen[-1] else "m")
    page.wait_for_selector("#done:not([hidden])")
    assert sorted(seen) == sorted(questions) and seen != questions
    for left, right in zip(seen[::2], seen[1::2], strict=True):
        assert right == left.replace("left", "right")
    people = pd.DataFrame({"image_id": [row[0] for row in rows], "position": [int(row[4]) for row in rows]})
    read = annotations.judgements(people, download(page, "Enter", tmp_path))
    assert (read["gender"] == read["position"].map({1: "female", 2: "male"})).all()


def test_orders_differ_between_raters_and_stay(visit, tmp_path):
    write(tmp_path / "rate.html", 6)
    write(tmp_path / "other.html", 6, seed=1)
    orders = []
    for file, name in (("rate", "ana"), ("rate", "ana"), ("rate", "ben"), ("other", "ana")):
        page = visit(tmp_path / f"{file}.html")
        begin(page, name)
        orders.append([press(page, "f") for _ in range(6)])
    assert orders[0] == orders[1] and all(len(set(order)) == 6 for order in orders)
    assert orders[0] not in (orders[2], orders[3])


def test_raters_who_share_a_browser_have_answers_of_their_own(visit, tmp_path):
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
    read = shares.read_images(download(page, "Enter", tmp_path))
    assert read.annotators == ("ben",) and set(read.votes()) == {"male"}
    # Ratings of a page of other images are not mixed with these.
    write(tmp_path / "rate.html", 3)
    page.reload()
    assert page.locator("#start").is_visible()


def test_hostile_ids_and_what_others_left_in_the_browser_run_nothing(visit, tmp_path):
    rows = [[text, "generated", f"{text} o", f"{text} m"] for text in HOSTILE]
    write(tmp_path / "rate.html", 0, rows=rows)
    page = visit(tmp_path / "rate.html")
    begin(page)
    press(page, "f")
    # Pages opened as files share what a browser keeps.
    page.evaluate("""() => {
        const name = Object.keys(localStorage).find((key) => key.endsWith(":ana"));
        const mine = JSON.parse(localStorage.getItem(name));
        const bad = [[99, "male"], [1.5, "male"], [0, "<img src=x onerror=hacked=1>"], "x", null, [null, null]];
        localStorage.setItem(name, JSON.stringify([...bad, ...mine]));
    }""")
    # Where a reload takes a new process, Chromium hands it what is kept a little later.
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
        assert ",".join('"' + cell.replace('"', '""') + '"' for cell in row) in text


def test_a_browser_that_keeps_nothing_says_so_and_downloads(visit, tmp_path):
    write(tmp_path / "rate.html", 1)
    page = visit(tmp_path / "rate.html")
    page.evaluate("() => { Storage.prototype.setItem = () => { throw new Error('full'); }; }")
    assert page.locator("#unsaved").is_hidden()
    begin(page)
    assert page.locator("#unsaved").is_visible()
    press(page, "u")
    assert set(sample.votes(shares.read_images(download(page, "Enter", tmp_path)))) == {"unsure"}
    page.evaluate("onbeforeunload = null")  # it would ask before the page closes


def test_2000_images_are_one_at_a_time(visit, tmp_path):
    ids = write(tmp_path / "rate.html", 2000)
    page = visit(tmp_path / "rate.html")
    assert page.locator("img").count() == 1
    begin(page)
    seen = [press(page, key) for key in "fmu" * 2]
    assert len(set(seen)) == 6 and set(seen) <= set(ids)
    # A key that is held down answers once.
    page.keyboard.down("f")
    page.keyboard.down("f")
    page.keyboard.up("f")
    assert page.locator("#bar").evaluate("bar => bar.value") == 7
    # The rest at once: what is kept grows with each answer.
    page.evaluate("""() => {
        for (let k = 0; k < 1993; k++) document.dispatchEvent(new KeyboardEvent("keydown", { key: "m", code: "KeyM" }));
    }""")
    page.wait_for_selector("#done:not([hidden])")
    read = shares.read_images(download(page, "Enter", tmp_path))
    assert len(read.images) == 2000 and (read.images["label"] == "male").sum() == 2 + 1993


def test_all_that_is_needed_is_on_one_screen(visit, tmp_path):
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


def test_a_folder_with_hostile_names(visit, tmp_path):
    folder = tmp_path / "<img src=x onerror=hacked=1>"
    jobs = {"<script>hacked=1<&": '"><svg onload=hacked=1>', "=cmd|'x'!A1": "=1+1"}
    for name, job in jobs.items():
        (folder / job).mkdir(parents=True)
        Image.new("RGB", (3, 3)).save(folder / job / f"{name}.png")
    made = annotation_page.annotate(folder, outputs=tmp_path)
    page = visit(made.path)
    begin(page)
    for _ in jobs:
        page.keyboard.press("f")
    page.wait_for_selector("#done:not([hidden])")
    path = download(page, "Enter", tmp_path)
    assert dict(sample.votes(shares.read_images(path))) == dict.fromkeys(jobs, "female")
    # A spreadsheet runs none of it.
    cells = path.read_text().replace("\n", ",").split(",")
    assert not any(cell.strip('"').startswith("=") for cell in cells)
