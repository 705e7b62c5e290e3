"""A working folder: the notebooks and parameters files that come with the package, and a README on how to begin."""

from __future__ import annotations

import shutil
from pathlib import Path

from biaslab import __version__, plugins
from biaslab.errors import ParameterError
from biaslab.io import places

_README = """# An audit with biaslab

Created by `biaslab init` of biaslab {version}. Change these files as you like; biaslab does not overwrite them.

```sh
biaslab run params/published.yaml          # the papers' published values, without a model: about a minute
biaslab audit OWNER/MODEL --dry-run        # cost and expected precision of an audit
biaslab audit images:my-images             # existing images, one group per subfolder
jupyter lab notebooks                      # explore: change a notebook's parameters cell, and run it cell by cell
```

- `notebooks/`: one folder per paper, one notebook per section. `biaslab run` and `biaslab audit` execute these
  notebooks with their own parameters.
- `params/`: parameters files for `biaslab run`; `biaslab settings` lists everything that can be set in `settings:`.
- `outputs/`: one folder per run; open its `index.html`. The cache is in `outputs/.cache`.

`biaslab --help` lists the commands; JupyterLab comes with `pip install "biaslab[lab]"`.
"""


def init(folder: str | Path) -> list[Path]:
    """Write notebooks, parameters files and a README into a new or empty folder, and return the paths of its files.

    Packages that bring notebooks (entry point ``biaslab.notebooks``) add only their parameters files.

    Raises:
        ParameterError: The folder is not empty, or is a file.
    """
    folder = Path(folder).expanduser()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ParameterError(f"{folder} exists and is not empty; specify a new or empty folder.")
    source = places.packaged_root()
    for part in ("notebooks", "params"):
        shutil.copytree(source / part, folder / part, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    roots = plugins.notebook_folders().values()
    package_params = [path for root in roots for path in sorted((root / "params").glob("*.yaml"))]
    for path in package_params:
        if not (target := folder / "params" / path.name).exists():
            shutil.copyfile(path, target)
    (folder / "README.md").write_text(_README.format(version=__version__), encoding="utf-8", newline="\n")
    (folder / ".gitignore").write_text("outputs/\n", encoding="utf-8", newline="\n")
    return sorted(path for path in folder.rglob("*") if path.is_file())
