"""How much training data PaintSkills' scenes take: a model of people alone, fine-tuned on shares of the scenes.

The counterpart of the dalleval paper's Table 5, whose models were fine-tuned on 10, 50 and 100 % of the training split.
Here all take equally many steps, so that only the number of different scenes tells them apart, and the model before any
of them stands beside.
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
# Seed of the images that the verdicts are about, as none of other cards.
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
    """Train the models of the curve, judge their images and write how many are right to ``folder``.

    Tables look for the file in the folder of the text-to-image model that it is about: copy it there. States, data and
    models lie beside ``checkpoint``; what is there is kept. Models start from the pipeline ``start_from``, or from
    mini-sd with mini-sd-skills' ``vae``; ``steps`` of ``settings`` are those of each fine-tuning.

    Returns the share of correct images by skill and percentage of the training scenes, 0 to 1. Raises
    MissingInputError: The models to start from are not in this installation.
    """
    work = (checkpoint or Path("outputs/.train/skills-curve/state.pt")).parent
    vae = (start_from or Path(registry.resolve("mini-sd-skills", "text-to-image"))) / "vae"
    start_from = start_from or Path(registry.resolve("mini-sd", "text-to-image"))
    seed, steps = settings.get("seed", 0), settings.pop("steps", STEPS)
    settings = {"learning_rate": 1e-3} | settings

    def trained(name: str, data: diffusion.Data, first: Path, steps: int) -> Path:
        # Of other settings another model: what is there is kept.
        name = f"{name}-{steps}-{seed}"
        made = work / name
        if not (made / "model_index.json").exists():
            shutil.copytree(vae, made / "vae", dirs_exist_ok=True)
            diffusion.train(
                made,
                data=[data],
                start_from=first,
                checkpoint=work / f"{name}.pt",
                log=log.with_name(f"{log.stem}-{name}.csv") if log else None,
                noisier=skills.NOISIER,
                **settings | {"steps": steps},
            )
        return made

    social = diffusion.prepare(work / "social", vae, rows=people, seed=seed, kind="social")
    base = trained("base", social, start_from, base_steps)
    made = {0.0: base}
    for share in SHARES:
        rows = round(share * len(prompts.skills("train")))
        data = diffusion.prepare(work / f"skills-{rows}", vae, rows=rows, seed=seed, kind="skills")
        made[share] = trained(f"share-{100 * share:.0f}", data, base, steps)
    counts = []
    for share, path in made.items():
        more = {"training_percent": f"{100 * share:g}", "steps": steps * (share > 0), "seed": seed}
        counts.append(skills.right(path, scenes, _SEED).assign(**more))
    counts = pd.concat(counts)
    columns = ["training_percent", "skill", "n_correct", "n", "steps", "seed"]
    folder.mkdir(parents=True, exist_ok=True)
    counts[columns].to_csv(folder / FILE, index=False)
    return {f"{row.skill} at {row.training_percent} %": row.n_correct / row.n for row in counts.itertuples()}
