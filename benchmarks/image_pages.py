"""Measure how smoothly a page of 2,000 images scrolls, compared with a plain page of the same images.

The figure is the longest task while the page scrolls from top to bottom, in ms (tasks over 50 ms are noticeable), for
our page and for a page with the same images and nothing else. Headless Chromium, one run.
"""

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from playwright.sync_api import sync_playwright

from biaslab.report import image_pages

N, SIDE = 2_000, 512
WATCH = """() => { window.tasks = [0];
  new PerformanceObserver((list) => list.getEntries().forEach((one) => window.tasks.push(one.duration)))
    .observe({ type: 'longtask' }); }"""


class Noise:
    """Images that compress like photographs: soft spots of colour."""

    name, digest, image_domain = "noise", "noise", "photographs"
    table = pd.DataFrame({"image_id": [str(k) for k in range(N)]})

    def read(self, image_ids):
        """Return the images in the order of ``image_ids``."""
        spots = (np.random.default_rng(int(k)).integers(0, 256, (16, 16, 3), dtype=np.uint8) for k in image_ids)
        return [np.kron(spot, np.ones((SIDE // 16, SIDE // 16, 1), np.uint8)) for spot in spots]


def longest(browser, path: Path) -> float:
    """Return the longest task while a page scrolls to its end, in ms; 0 if no task exceeds 50 ms."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(path.as_uri())
    page.wait_for_timeout(2_000)
    page.evaluate(WATCH)
    for _ in range(120):
        page.mouse.wheel(0, 400)
        page.wait_for_timeout(30)
    longest_ms = page.evaluate("Math.max(...window.tasks)")
    page.close()
    return longest_ms


def main() -> None:
    """Print both figures and their ratio."""
    rows = [
        {"image_id": str(k), "group": f"group {k % 40}", "who": "", "prompt": "a photo", "position": 1}
        | {"gender": "female" if k % 3 else "male", "probability_female": 0.5, "status": "judged"}
        for k in range(N)
    ]
    model_images = image_pages.ModelImages("custom", "custom", "prompts", "model", pd.DataFrame(rows), Noise())
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        ours, plain = Path(folder) / "ours.html", Path(folder) / "plain.html"
        page = image_pages.write_model(ours, "model", [model_images], index="index.html")
        sources = image_pages.data_urls(Noise(), [str(k) for k in range(N)], page["side"])
        images = "".join(f'<img src="{source}" height="119">' for source in sources)
        plain.write_text(f"<!DOCTYPE html><title>plain</title>{images}", encoding="utf-8")
        chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        a, b = longest(browser, ours), longest(browser, plain)
        browser.close()
        print(f"pictures: {page['shown']:,} of {page['side']} px; page {ours.stat().st_size / 1e6:.1f} MB")
        print(f"longest task while scrolling: ours {a:.0f} ms, plain page {b:.0f} ms (0: none over 50 ms)")
        print(f"ratio {a / b:.2f}" if b else "ratio: the plain page has no task over 50 ms")


if __name__ == "__main__":
    main()
