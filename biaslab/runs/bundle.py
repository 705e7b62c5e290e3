"""A run as a bundle that repeats it: what was asked, by which settings and seeds, what judges said, and the images.

A zip file with ``bundle.json``: its format, the SHA-256 of each other file, and one digest over all of them.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from biaslab.ground import plugins
from biaslab.ground.errors import InputError, ParameterError
from biaslab.ground.values import dotted
from biaslab.judging import copies
from biaslab.judging.names import RATINGS
from biaslab.keep import store
from biaslab.keep.store import UnfinishedError
from biaslab.models import registry
from biaslab.models.images import Unreadable
from biaslab.models.picture_folder import IMAGES
from biaslab.net.settings import ENDPOINT
from biaslab.prompts import custom as asking
from biaslab.prompts import word_files
from biaslab.report import records
from biaslab.runs import audit, jobs, params, runner
from biaslab.study import sources

if TYPE_CHECKING:
    from biaslab.pipeline.asked import Asked

FORMAT = 1
"""The format that is written; older ones can be read."""
MANIFEST, INPUTS, PICTURES = "bundle.json", "inputs", "images"
READ_ME = """This is a bundle of biaslab, an audit of text-to-image models for social bias: it repeats a run.

biaslab audit THIS --model NAME    asks another model the same, by the same settings and seeds
biaslab compare RUN OTHER          says whether two runs are of one bundle

params.yaml has the settings, run.json the record with commits and digests of models and judges, prompts.csv what was
asked, images.csv each image with its seed, measured/ and judgements/ what judges said, inputs/ the files that settings
name. images/KIND/MODEL holds images with their prompts: biaslab audit images:FOLDER judges them anew.

"""
# Where work runs, and where keys are sent and money is spent, is never a bundle's to say.
_HERE = ("compute", "url", "key_variable", "cost_limit", "price", "buy")
_NO_MODELS = ("published", "none", "all", None)
_MOST_BYTES = 100_000_000
_FILES = (*word_files.ENDINGS, ".txt")
# What leads out of the folder that a bundle is unpacked to, on any system.
_OUTSIDE = re.compile(r"^/|^[^/]*:|\\|(^|/)\.\.(/|$)")
# What is read of a bundle.
_READ, _INPUT = (runner.PARAMS, records.FILE), re.compile(rf"{INPUTS}/[^/]+")
_AGAIN = "Get the bundle again, or make it with 'biaslab export RUN --bundle'."


def settings_of(record: Mapping) -> dict[str, Any]:
    """Return the settings that decide what a run finds, by dotted names: those given, and the judges that it had."""
    from biaslab.settings import Settings

    given = record.get("parameters", {}).get("settings") or {}
    found = dotted(_to_share(given)) if isinstance(given, Mapping) else {"settings": given}
    texts = {name for name, value in dotted(Settings().model_dump()).items() if isinstance(value, str)}
    for judge in record.get("judges", {}):
        setting, _, name = judge.partition(" ")
        if setting in texts:
            found.setdefault(setting, name)
    return found


def _to_share(settings: Mapping) -> dict:
    """Return settings, at any depth, without those that are this machine's."""
    each = ((name, value) for name, value in settings.items() if name not in _HERE)
    return {name: _to_share(value) if isinstance(value, Mapping) else value for name, value in each}


# -- writing ---------------------------------------------------------------------------------------------


def contents(
    folder: Path, record: Mapping, *, everything: bool, overrides: Sequence[str]
) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file that a run's bundle has beside its record and measured tables.

    Args:
        folder: The run's.
        everything: Whether what may be others' is in it, too: pictures of folders and of endpoints, captions.
        overrides: Parameters of the run to replace, for its own name no folders.

    Raises:
        ParameterError: The run makes no images, they are not all there, or a model or file is not found.
    """
    # What opens pipelines takes seconds to import, and whoever compares runs opens none.
    from PIL import Image

    from biaslab.pipeline.asked import computing_nothing
    from biaslab.runs import planning

    settings, inputs = settings_of(record), asking.files_of(folder / sources.MEASURED)
    if "settings" in settings:
        raise ParameterError(f"The run {folder.name} has several settings, and a bundle is of one; run one of them.")
    with tempfile.TemporaryDirectory() as place:
        given = []
        for name, frame in inputs.items():
            path = Path(place, f"{name}.csv")
            path.write_bytes(_csv(frame))
            # A folder has prompts of its own.
            given += [f"{name}={path}"] if name in settings else []
            settings[name] = f"{INPUTS}/{path.name}"
        left = ["Not in it:", "training images behind captions: their people are real"]
        for name, value in list(settings.items()):
            each = value if isinstance(value, list) else [value]
            if (others := [one for one in each if not str(one).startswith(RATINGS)]) != each:
                settings[name] = others if each is value else ""
                left.append(f"{name}, as ratings are of these images alone: name a judge with --set")
        try:
            checked = params.load(folder / runner.PARAMS, overrides=[*given, *overrides])
            asked = planning.asked(jobs.pipelines(jobs.plan(checked)))
        except (InputError, ParameterError) as error:
            raise ParameterError(
                f"{error} A run's own parameters name no folders: name them with --set, such as --set model=FOLDER or "
                "--set judging.gender=ratings:FILE."
            ) from None
        if not asked:
            raise ParameterError(
                f"The run {folder.name} makes no images, so there is nothing to repeat; export it without --bundle."
            )
        for name, value in dotted(checked.values.get("settings", {})).items():
            # Captions are others', and ratings are of these images alone.
            passed = name in (*inputs, "captions.corpus") or name.endswith(".ratings")
            path = Path(value).expanduser() if isinstance(value, str) and not passed else Path()
            if path.suffix.lower() in _FILES and path.is_file() and path.stat().st_size <= _MOST_BYTES:
                settings[name] = f"{INPUTS}/{name}{path.suffix}"
                yield settings[name], path.read_bytes()
        values = {**record["parameters"], "settings": _nested(settings)}
        yield runner.PARAMS, params.as_yaml(checked.changed(values=values)).encode()
        yield from ((settings[name], _csv(frame)) for name, frame in inputs.items())
        # Captions of an installed package are there for whoever repeats the run.
        prompts, tables, brought = [], [], plugins.points(plugins.CORPORA)
        for one in asked:
            planning.check_there(one, folder.name)
            whose = "" if everything else _whose(one)
            own = everything or not one.captioned or one.pipeline.settings.captions.corpus in brought
            left += [f"images of {one.model}: they {whose}"] if whose else []
            left += [] if own else [f"prompts of the kind {one.kind}: they are captions of a corpus"]
            texts = one.prompts["text"] if own else ""
            of = {"paper": one.paper, "kind": one.kind, "model": one.model}
            columns = ["prompt_id", "text", "n_images", *({"noise_id"} & {*one.prompts})]
            prompts.append(one.prompts.assign(text=texts)[columns].assign(**of))
            made = copies.whole(one.pipeline.made(one.prompts, one.of, one.several, kept_as=one.kept_as))
            label = re.sub(r"[^\w.+-]+", "-", one.model).strip(".-") or "model"
            at, files = f"{PICTURES}/{one.kind}/{label}", {}
            for image_id in () if whose else made.table["image_id"]:
                (image,) = made.read([image_id])
                if not isinstance(image, Unreadable):
                    files[image_id] = f"{image_id.removesuffix('.png')}.png"
                    Image.fromarray(image).save(file := io.BytesIO(), "png")
                    yield f"{at}/{files[image_id]}", file.getvalue()
            table = made.table.assign(file=made.table["image_id"].map(files), **of)
            tables.append(table)
            if files:
                yield f"{at}/prompts.csv", _csv(_told(table, one.prompts.assign(text=texts)))
                yield f"{at}/{registry.DECLARED}", json.dumps({"pictures": one.made_by.pictures}).encode()
            if one.of == "captions" and one.kind in one.pipeline.kinds:
                try:
                    judged = computing_nothing(one.pipeline).judgements(one.kind)
                except UnfinishedError:
                    # Nobody is judged, and no judge paid, to pack what a run left.
                    left.append(f"what judges said of {label}'s {one.kind}: it is not in the store")
                    continue
                judged = judged.drop(columns=["boxes", "text"], errors="ignore")
                yield f"judgements/{label}-{one.kind}.csv", _csv(judged)
        yield "prompts.csv", _csv(pd.concat(prompts, ignore_index=True))
        yield "images.csv", _csv(pd.concat(tables, ignore_index=True))
        yield "README.txt", (READ_ME + "\n- ".join(dict.fromkeys(left)) + "\n").encode()


def manifest(files: Mapping[str, str]) -> dict:
    """Return what ``bundle.json`` holds of files: by their names their SHA-256, and one digest over both."""
    lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(files.items()))
    digest = hashlib.sha256(lines.encode()).hexdigest()
    return {"format": FORMAT, "digest": digest, "files": dict(sorted(files.items()))}


def _whose(one: Asked) -> str:
    """Say why images may not be their user's to pass on; empty where a model made them here."""
    if one.pipeline.custom.folder is not None:
        return "are pictures of a folder, which somebody else may have made, or real people may be on"
    return "were bought at an endpoint, whose terms count" if one.pipeline.model.startswith(ENDPOINT) else ""


def _told(table: pd.DataFrame, prompts: pd.DataFrame) -> pd.DataFrame:
    """Return the table by which :class:`~biaslab.models.picture_folder.PictureFolder` tells a folder's images apart."""
    group = next((name for name in ("group", "occupation", "profession") if name in prompts), "text")
    rows = table[table["file"].notna()]
    asked = prompts.set_index("prompt_id").loc[rows["prompt_id"]].reset_index()
    told = asked.assign(file=list(rows["file"]), prompt=asked["text"], group=asked[group])
    told = told.loc[told.index.repeat(asked.get("people", 1)), ["file", "prompt", "group"]]
    return told.assign(position=told.groupby("file").cumcount() + 1)


def _csv(frame: pd.DataFrame) -> bytes:
    return frame.to_csv(index=False, lineterminator="\n").encode()


def _nested(settings: Mapping[str, Any]) -> dict:
    found: dict = {}
    for name, value in settings.items():
        *group, key = name.split(".", 1)
        (found.setdefault(group[0], {}) if group else found)[key] = value
    return found


# -- reading ---------------------------------------------------------------------------------------------


def is_bundle(path: str) -> bool:
    """Return whether a name of what is audited is that of a bundle, whole or not."""
    return path.lower().endswith(".zip")


def params_of(
    paths: Sequence[str], models: Sequence[str], *, outputs: str | Path, name: str = "", corpus: str = "", **more: Any
) -> dict[str, Any]:
    """Return what a parameters file holds that repeats a bundle, on its own models or others.

    The files that its settings name are written below ``outputs``. ``corpus`` are captions, which it does not hold;
    ``more`` is what else can be asked of an audit, and not of a bundle.

    Raises:
        InputError: It is no bundle, damaged, of a newer format, or names files outside of it.
        ParameterError: A model cannot be one, or is a folder that is not here.
    """
    path = paths[0]
    if len(paths) > 1 or not is_bundle(path):
        raise ParameterError("--model is of a bundle, which is named alone: biaslab audit BUNDLE.zip --model NAME.")
    if asked := [option for option in ("prompts", "benchmark", "papers") if more.get(option)]:
        raise ParameterError(f"A bundle says what is asked: leave its {asked[0]} to it, or use --set.")
    digest, files = _checked(path)
    place = Path(outputs).absolute() / ".bundles" / digest[:16]
    for one, data in files.items():
        (place / one).parent.mkdir(parents=True, exist_ok=True)
        store.replace(place / one, data)
    given, record = params.read_yaml(place / runner.PARAMS), records.read(place, fix=_AGAIN)
    settings = given.get("settings")
    settings = dotted(_to_share(settings)) if isinstance(settings, Mapping) else {}
    settings = {k: str(place / v) if isinstance(v, str) and v in files else v for k, v in settings.items()}
    if not models:
        beside, commits = settings.get("compare_with"), record.get("commits", {})
        own = [given.get("model"), *(beside if isinstance(beside, list) else [beside])]
        own = [str(one) for one in own if one not in _NO_MODELS]
        models = [f"{one}@{commits[one]}" if one in commits else _here(one, path) for one in own]
    models = audit.models_of(models)
    of, run = ", ".join(map(audit.shown, models)), str(given.get("run", "run"))
    settings |= {"compare_with": models[1:] or "none"} | ({"captions.corpus": corpus} if corpus else {})
    return {
        **given,
        "run": params.run_name(name or re.sub(r"[^A-Za-z0-9._]+", "-", f"{run}-on-{of}").strip("-.")[:80]),
        "title": f"{of}, asked as in the run {run}",
        "description": f"Repeats the bundle {digest[:12]} of the run {run}, on {of}.",
        "bundle": {"digest": digest, "record": hashlib.sha256(files[records.FILE]).hexdigest()},
        "source": "pipeline",
        "model": models[0],
        "settings": _nested(settings),
    }


def _here(name: str, path: str) -> str:
    """Return the name of a bundle's own model; a ParameterError where it is a folder that is not here."""
    folder = name.removeprefix(IMAGES)
    known = name.startswith(ENDPOINT) or "/" in name or registry.brought(name, "text-to-image")
    if os.path.isdir(folder) or (known and folder == name):
        return name
    raise ParameterError(
        f"The model of {path} is the folder {folder!r}, which is not here. Name it, or another model, with --model, "
        f"such as --model {IMAGES if folder != name else ''}FOLDER."
    )


def _checked(path: str) -> tuple[str, dict[str, bytes]]:
    """Return a whole bundle's digest, record and parameters, and of its files those right in :data:`INPUTS`."""
    try:
        with zipfile.ZipFile(Path(path).expanduser()) as packed:
            named = {e.filename.partition("/")[2]: e for e in packed.infolist() if not e.is_dir()}
            for entry in named.values():
                if _OUTSIDE.search(entry.filename) or stat.S_ISLNK(entry.external_attr >> 16):
                    raise InputError(
                        f"{path} holds {entry.filename!r}, a link or outside of its folder, as no bundle does. {_AGAIN}"
                    )
            if not {MANIFEST, *_READ} <= {*named}:
                raise InputError(
                    f"{path} is no bundle: it holds no {MANIFEST} with {' and '.join(_READ)} beside it. "
                    "'biaslab export RUN --bundle' writes one."
                )
            read = {n: e for n, e in named.items() if n in (MANIFEST, *_READ) or _INPUT.fullmatch(n)}
            if large := [name for name, entry in read.items() if entry.file_size > _MOST_BYTES]:
                raise InputError(f"{path} holds {large[0]} of more than {_MOST_BYTES:,} bytes. {_AGAIN}")
            told = json.loads(packed.read(read.pop(MANIFEST)))
            del named[MANIFEST]
            listed, version, digest = dict(told["files"]), int(told["format"]), told["digest"]
            if version > FORMAT:
                raise InputError(
                    f"{path} is a bundle of format {version}, and this version of biaslab reads {FORMAT}: update it."
                )
            sums = {}
            for name, entry in named.items():
                with packed.open(entry) as file:
                    sums[name] = hashlib.file_digest(file, "sha256").hexdigest()
            files = {name: packed.read(entry) for name, entry in read.items()}
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"There is no bundle {path}.") from None
    # A zip file may be damaged in many ways.
    except Exception as error:
        raise InputError(f"{path} is damaged, or no zip file ({error!s:.100}). {_AGAIN}") from None
    if wrong := sorted(name for name in {**sums, **listed} if sums.get(name) != listed.get(name)):
        how = "is missing" if wrong[0] not in sums else "is not the one that was put into it"
        raise InputError(f"{path} is damaged: its digest does not match, as {wrong[0]} {how}. {_AGAIN}")
    if manifest(sums)["digest"] != digest:
        raise InputError(f"{path} is damaged: its digest does not match that of its files. {_AGAIN}")
    return digest, files
