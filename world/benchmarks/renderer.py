"""Time the renderer of the embedded world against Pillow's ImageDraw painting the same list of polygons.

Run: ``python world/benchmarks/renderer.py``. It prints renders per second on one core at 64x64 for both, and the ratio
from this one run. Both paint the same polygons in the same order at twice the size and average down; ``whole``
counts making the list from the scene, too, which is the same work for both. The pictures are compared as well: Pillow
has no subpixel coordinates, so edges differ.
"""

import time

import cv2
import numpy as np
from PIL import Image, ImageDraw

from biaslab_world import captions, render

SCENES = 600
ROUNDS = 5
SIZE = 64


def by_pillow(drawing, values: list, size: int) -> np.ndarray:
    """Paint a list of polygons as ``render`` does, with Pillow."""
    large = size * render._OVER
    canvas = Image.new("RGB", (large, large))
    painter = ImageDraw.Draw(canvas)
    points = (np.concatenate(drawing.points) * large - 0.5).tolist()
    start = 0
    for count, value in zip(drawing.counts, values, strict=True):
        end = start + count
        painter.polygon([tuple(p) for p in points[start:end]], fill=value)
        start = end
    return np.asarray(canvas.resize((size, size), Image.Resampling.BOX))


def by_opencv(drawing, values: list, size: int) -> np.ndarray:
    """Paint a list of polygons as ``render`` does."""
    canvas = np.zeros((size * render._OVER, size * render._OVER, 3), np.uint8)
    render._paint(drawing, canvas, values)
    return cv2.resize(canvas, (size, size), interpolation=cv2.INTER_AREA)


def listed(scene) -> tuple:
    """Return a scene's polygons and their colours under its light."""
    drawing, light = render._draw(scene), scene.light
    gain = np.array([light.red, light.green, light.blue]) * light.strength
    return drawing, np.clip(np.array(drawing.colours) * gain, 0, 255).astype(int)


def seconds(work, items) -> float:
    # Everything runs in this thread, so its own time is that of one core, whatever else the machine does.
    start = time.process_time()
    for item in items:
        work(*item)
    return time.process_time() - start


def main() -> None:
    cv2.setNumThreads(1)
    corpus = captions.Corpus(rows=SCENES)
    scenes = [(captions.build_scene(corpus.row(i)),) for i in range(SCENES)]
    lists = [listed(scene) for (scene,) in scenes]
    ours_list = [(drawing, values.tolist(), SIZE) for drawing, values in lists]
    peer_list = [(drawing, [tuple(v) for v in values.tolist()], SIZE) for drawing, values in lists]
    works = {
        "list": (lambda scene: listed(scene), scenes),
        "ours": (by_opencv, ours_list),
        "peer": (by_pillow, peer_list),
        "whole": (lambda scene: render.render(scene, SIZE), scenes),
    }
    # In turn, and the best of several rounds: other work on the machine slows all of them a little.
    best = dict.fromkeys(works, float("inf"))
    for _ in range(ROUNDS):
        for name, (work, items) in works.items():
            best[name] = min(best[name], seconds(work, items))
    rate = {name: SCENES / spent for name, spent in best.items()}
    whole_peer = SCENES / (best["list"] + best["peer"])
    print(f"polygons an image          {np.mean([len(d.counts) for d, _ in lists]):8.0f}")
    print(f"painting, ours             {rate['ours']:8.0f} images/s")
    print(f"painting, Pillow           {rate['peer']:8.0f} images/s")
    print(f"ratio                      {rate['ours'] / rate['peer']:8.2f}")
    print(f"whole render, ours         {rate['whole']:8.0f} images/s")
    print(f"whole render, Pillow       {whole_peer:8.0f} images/s")
    print(f"ratio                      {rate['whole'] / whole_peer:8.2f}")
    pairs = zip(ours_list[:100], peer_list[:100], strict=True)
    apart = np.mean([np.abs(by_opencv(*a).astype(int) - by_pillow(*b).astype(int)).mean() for a, b in pairs])
    print(f"mean difference of a pixel {apart:8.2f} of 255")


if __name__ == "__main__":
    main()
