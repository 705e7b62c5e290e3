"""Training curve over the share of PaintSkills' training scenes (dalleval paper, Table 5).

A model of people is fine-tuned on 10, 50 and 100% of the training scenes. All models make the same number of steps, so
that they differ only in the number of different scenes. The model before fine-tuning is measured, too.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pandas as pd

from biaslab.hub import registry
from biaslab.papers.dalleval import prompts
from training import diffusion, skills

SHARES = (0.1, 0.5, 1.0)
BASE_STEPS, STEPS, SCENES = 800, 900, 400
FILE = "training_share.csv"
"""In the model's folder: training_percent, skill, n_correct, n, steps, seed."""
# Seed of the measured images; no other card uses it.
_SEED = 79_000


def train(
    folder: Path,
    *,
    checkpoint: Path | None = None,
    log: Path | None = None,
    base_steps: int = BASE_STEPS,
    scenes: int = SCENES,
    people: int = 40_000,
    start_from: Path | None = None,
    **settings: Any,
) -> dict[str, float]:
    """Train the models of the curve, measure the accuracy of their images and write it to ``folder``.

    biaslab reads the file from the folder of a text-to-image model; copy it there. Checkpoints, data and models are
    saved in the folder of ``checkpoint``, and models that exist there are not trained again. Training starts from the
    pipeline ``start_from``, or from mini-sd with the autoencoder of mini-sd-skills. ``steps`` of ``settings`` are those
    of each fine-tuning.

    Returns the share of correct images by skill and percentage of the training scenes, 0 to 1. Raises
    MissingInputError: The models to start from are not in this installation.
    """
    work = (checkpoint or Path("outputs/.train/skills-curve/state.pt")).parent
    vae = (start_from or Path(registry.resolve("mini-sd-skills", "text-to-image"))) / "vae"
    start_from = start_from or Path(registry.resolve("mini-sd", "text-to-image"))
    seed, steps = settings.get("seed", 0), settings.pop("steps", STEPS)
    settings = {"learning_rate": 1e-3} | settings

    def fine_tune(name: str, data: diffusion.Data, start: Path, steps: int) -> Path:
        # The name holds the settings, so that other settings train another model.
        name = f"{name}-{steps}-{seed}"
        pipeline = work / name
        if not (pipeline / "model_index.json").exists():
            shutil.copytree(vae, pipeline / "vae", dirs_exist_ok=True)
            diffusion.train(
                pipeline,
                data=[data],
                start_from=start,
                checkpoint=work / f"{name}.pt",
                log=log.with_name(f"{log.stem}-{name}.csv") if log else None,
                noisier=skills.NOISIER,
                **settings | {"steps": steps},
            )
        return pipeline

    social = diffusion.prepare(work / "social", vae, rows=people, seed=seed, kind="social")
    base = fine_tune("base", social, start_from, base_steps)
    models = {0.0: base}
    for share in SHARES:
        rows = round(share * len(prompts.skills("train")))
        data = diffusion.prepare(work / f"skills-{rows}", vae, rows=rows, seed=seed, kind="skills")
        models[share] = fine_tune(f"share-{100 * share:.0f}", data, base, steps)
    counts = []
    for share, pipeline in models.items():
        keys = {"training_percent": f"{100 * share:g}", "steps": steps * (share > 0), "seed": seed}
        counts.append(skills.right(pipeline, scenes, _SEED).assign(**keys))
    table = pd.concat(counts)
    columns = ["training_percent", "skill", "n_correct", "n", "steps", "seed"]
    folder.mkdir(parents=True, exist_ok=True)
    table[columns].to_csv(folder / FILE, index=False)
    return {f"{row.skill} at {row.training_percent}%": row.n_correct / row.n for row in table.itertuples()}
