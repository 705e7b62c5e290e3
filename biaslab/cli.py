"""The command line: ``biaslab audit``, ``run``, ``compare``, ``rate``, ``export``, ``settings``, ``cite`` and more."""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from biaslab import __version__
from biaslab.errors import BiaslabError, not_installed

if TYPE_CHECKING:
    from biaslab.runs.params import RunParams


def main(arguments: list[str] | None = None, parser: argparse.ArgumentParser | None = None) -> int:
    """Run the command line and return the exit status: 0 fine, 1 a notebook failed, 2 wrong input.

    ``parser`` is that of another command, which is to end as this one's do: it sets ``call`` and ``kept``.
    """
    given, parser = None, parser or parser_of_commands()
    # A run that is told to end stops its notebooks and keeps what had finished, as with Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        # What nobody reads any more is known by a flush, and not when Python ends.
        try:
            given = parser.parse_args(arguments)
        finally:
            sys.stdout.flush()
        status = given.call(given)
        sys.stdout.flush()
        return status or 0
    except BrokenPipeError:
        # Nothing is left to say to whom it was said, as for `biaslab published | head -1`; a shell adds 128.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + _SIGPIPE
    except (BiaslabError, OSError) as error:
        from biaslab.cache.result_cache import explain_error

        kept = "What had finished is kept: {fix}, or choose another folder, and run it again."
        print(f"{parser.prog}: {explain_error(error, kept=kept)}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        if not (text := not_installed(error)):
            raise
        print(f"{parser.prog}: {text}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        kept = getattr(given, "kept", "")
        print(f"{parser.prog}: stopped{'; ' if kept else ''}{kept}.", file=sys.stderr)
        return 130


# The number of the signal that ends programs which write to nobody.
_SIGPIPE = 13
_GOES_ON = "what had finished is kept, and the same command goes on from there"


def parser_of_commands() -> argparse.ArgumentParser:
    """Return what reads the commands: each sets ``call``, and ``kept``."""
    parser = argparse.ArgumentParser(prog="biaslab", description="Audit text-to-image models for social bias.")
    _add_completion(parser)
    parser.add_argument("--version", action="version", version=f"biaslab {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    # Options that several commands have.
    parents = (argparse.ArgumentParser(add_help=False) for _ in range(7))
    bars, of_run, values, starts, outputs, finished, replaced = parents
    bars.add_argument("--no-progress", action="store_true", help="show no progress bar")
    of_run.add_argument("params", metavar="PARAMS.yaml", help="the file, for example params/published.yaml")
    repeated = {"action": "append", "default": []}
    values.add_argument(
        "--set",
        dest="overrides",
        metavar="KEY=VALUE",
        help="replace a parameter (repeatable); a list such as model='[SD 1.4, SD 1.5]' reruns per value",
        **repeated,
    )
    text = "lay the papers' printed numbers beside, where tables have their counterparts"
    starts.add_argument("--beside", choices=("published",), default="", help=text)
    values.add_argument("--notebooks-dir", metavar="DIR", help="where the notebooks are (default: nearby)")
    text = "look up all that is used, try what is here, say what would be made and what it takes, and stop"
    starts.add_argument("--dry-run", action="store_true", help=text)
    text = "with --dry-run: fetch models that are not here, to try them, too"
    starts.add_argument("--fetch", action="store_true", help=text)
    starts.add_argument("--overwrite", action="store_true", help="replace a folder that holds another run")
    text = "execute also notebooks of which nothing has changed since"
    starts.add_argument("--again", action="store_true", help=text)
    outputs.add_argument("--outputs", metavar="DIR", default="outputs", help="where runs are")
    finished.add_argument("run", metavar="RUN", help="a run's folder, or its name below --outputs")
    text = "replace a parameter of the run, such as compute.store=FOLDER (repeatable)"
    replaced.add_argument("--set", dest="overrides", metavar="KEY=VALUE", help=text, **repeated)

    def command(name: str, call: Callable, text: str, *parents: argparse.ArgumentParser, kept: str = ""):
        added = commands.add_parser(name, help=text, parents=parents)
        added.set_defaults(call=call, kept=kept)
        return added.add_argument

    add = command("init", _init, "write notebooks, parameters files and a README into a new folder, to work in")
    add("folder", metavar="FOLDER", help="the folder, new or empty")

    text = "execute notebooks from a parameters file and build the report"
    add = command("run", _run, text, of_run, values, starts, outputs, bars, kept=_GOES_ON)
    text = "execute only notebooks that match, for example 'paradox/*' (repeatable)"
    add("--notebook", dest="notebooks", metavar="PATTERN", help=text, **repeated)

    text = "audit models by their names, side by side"
    add = command("audit", _audit, text, values, starts, outputs, bars, kept=_GOES_ON)
    text = (
        "a folder or hub name of diffusers, or a .safetensors file, each also as NAME+LORA:WEIGHT; 'endpoint:NAME', "
        "'images:FOLDER' (pictures that are there), or a name that an installed package brings"
    )
    add("models", metavar="MODEL", nargs="+", help=text)
    text = "prompts of your own, in place of the papers': a file with prompt, and perhaps group, n and people"
    add("--prompts", metavar="FILE", default="", help=text)
    text = "shares to hold yours against, such as labour statistics: group, percent_female, and perhaps n"
    add("--benchmark", metavar="FILE", default="", help=text)
    add("--size", metavar="SIZE", default="standard", help="how much: quick, standard (default) or paper")
    add("--name", metavar="NAME", default="", help="name of the run (default: of models and size)")
    text = "captions, for the paradox too: files, or a name that an installed package brings"
    add("--corpus", metavar="PATTERN", default="", help=text)
    text = "what people said of a part of the images ('biaslab rate'): a file, or a folder of files"
    add("--ratings", metavar="FILE", default="", help=text)
    text = "execute the notebooks of a paper alone: paired, dalleval, triplets or paradox (repeatable; default: all)"
    add("--paper", dest="papers", metavar="PAPER", help=text, **repeated)

    text = "compute a share of what a run searches, makes and judges, for an array of jobs"
    add = command("shard", _shard, text, of_run, values, bars, kept=_GOES_ON)
    add("--of", dest="share", metavar="I/N", required=True, help="which share: 0/10 to 9/10 make the whole")
    add("--wait", action="store_true", help="wait for other shares, and go on, until nothing is left")

    add = command("compare", _compare, "lay runs side by side: findings, and tables with differences", outputs)
    add("first", metavar="RUN", help="a run's folder, or its name below --outputs")
    add("others", metavar="RUN", nargs="+", help="the runs that are compared with the first")
    add("--name", metavar="NAME", help="name of the comparison's folder")

    text = "say how many images narrower intervals take, by what the images of a run tell of their variance"
    add = command("plan", _plan, text, finished, outputs)
    text = "the half-width that is wanted, in percentage points of shares (default: 5)"
    add("--precision", type=float, metavar="POINTS", default=5.0, help=text)

    text = "put a run into one zip file, which a colleague can read and repeat"
    add = command("export", _export, text, finished, outputs)
    add("--to", metavar="FILE.zip", help="where it goes (default: the run's name.zip in --outputs)")

    add = command("cite", _cite, "say how to cite biaslab, or a run and the papers whose methods it used", outputs)
    add("run", metavar="RUN", nargs="?", help="a run's folder, or its name below --outputs")
    add("--author", metavar="NAME", default="", help="who made the run")
    add("--url", metavar="ADDRESS", default="", help="where its report can be read")

    add = command("rate", _rate, "write a page on which people rate images", outputs, replaced)
    text = "a run's folder, its name below --outputs, a folder of images, each named by its id, or 'images:FOLDER' as "
    text += "'biaslab audit' takes it, whose people are asked about one by one"
    add("images", metavar="RUN|FOLDER", help=text)
    add("--sample", type=int, metavar="N", default=200, help="images to rate (default: 200)")
    add("--seed", type=int, metavar="S", default=0, help="seed of the sample and of the orders (default: 0)")
    text = "whose images of a run: paradox, paired or dalleval (default: the first that it has)"
    add("--paper", metavar="PAPER", default="", help=text)
    add("--kind", metavar="KIND", default="", help="which of its images: of paired also those of two people, 'paired'")
    add("--show-faces", action="store_true", help="training images too, whose faces are real people's")
    add("--to", metavar="FILE.html", help="where it goes (default: rate-NAME.html in --outputs)")

    text = "list what a run can set: kind, bounds, unit, default and meaning, and what installed packages bring"
    add = command("settings", _settings, text)
    text = "a setting or group, such as generation, or a word of names and meanings (default: all)"
    add("word", metavar="WORD", nargs="?", default="", help=text)

    add = command("published", _published, "list the papers' printed tables, or print one as CSV")
    add("name", metavar="NAME", nargs="?", help="a table's name, for example paradox_table_6")

    command("models", _models, "list the models that installed packages bring, with their folders and cards")

    add = command("ledger", _purchases, "summarize what was bought at endpoints: cost, images by outcome, replies")
    add("folder", metavar="FOLDER", nargs="?", help="the store's folder (default: $BIASLAB_STORE, else outputs/.store)")
    add("--release", action="store_true", help="let another host buy, after a process that bought was killed")

    text = "say what the store of computed results holds, by stage, or delete results that are not used"
    add = command("store", _store, text)
    text = "list the computed results that --days, --stage or both select for deletion; images that were bought, "
    text += "answers, downloads and results in use by a process are never deleted"
    add("action", metavar="prune", nargs="?", choices=("prune",), help=text)
    add("--store", metavar="DIR", help="the store's folder (default: $BIASLAB_STORE, else outputs/.store)")
    add("--days", type=float, metavar="N", help="with prune: select results that were not used for N days")
    add("--stage", metavar="NAME", help="with prune: select results of a stage")
    add("--yes", action="store_true", help="with prune: delete the selected results")
    return parser


def _add_completion(parser: argparse.ArgumentParser) -> None:
    text = "print what completes commands in a shell: bash, zsh or tcsh"
    try:
        import shtab
    except ModuleNotFoundError as error:
        parser.add_argument("--completion", metavar="SHELL", type=partial(_refused, not_installed(error)), help=text)
    else:
        shtab.add_argument_to(parser, "--completion", help=text)


def _refused(reason: str, _: str) -> None:
    raise argparse.ArgumentTypeError(reason)


def _init(given: argparse.Namespace) -> None:
    from biaslab.runs import init

    print(f"{len(init.init(given.folder))} files in {given.folder}: README.md says how to begin.")


def _run(given: argparse.Namespace) -> int:
    from biaslab.runs import params

    options = {name: getattr(given, name) for name in ("overrides", "notebooks", "notebooks_dir", "beside")}
    return _execute(given, params.load(given.params, **options))


def _audit(given: argparse.Namespace) -> int:
    from biaslab.runs import audit, params, runner

    names = ("size", "name", "corpus", "papers", "prompts", "benchmark", "ratings")
    how = {name: getattr(given, name) for name in names}
    asked = audit.params_of(given.models, **how)
    how = {name: getattr(given, name) for name in ("overrides", "notebooks_dir", "beside")}
    checked = params.load(runner.PARAMS, given=asked, **how)
    # What has no effect is refused, as with --set.
    options = {"captions.corpus": given.corpus, "judging.ratings": given.ratings}
    if given_here := [name for name, value in options.items() if value]:
        checked = checked.changed(set_here=(*checked.set_here, *given_here))
    return _execute(given, checked, say_plan=True)


def _execute(given: argparse.Namespace, checked: RunParams, *, say_plan: bool = False) -> int:
    """Say what a run will make, where that is wanted, and unless that is all, make it; return the exit status."""
    from biaslab.runs import jobs, runner

    stops, progress = given.dry_run, not given.no_progress
    if stops or say_plan:
        from biaslab.runs import dry_run

        options = {"fetch": given.fetch or not stops, "buy": not stops, "always": stops, "time": True}
        preflight = dry_run.run_preflight(jobs.plan(checked), progress, **options)
        print(dry_run.describe_run(preflight, checked.confidence), flush=True)
    if stops:
        return 0
    options = {name: getattr(given, name) for name in ("outputs", "overwrite", "again")}
    record = runner.run(checked, **options, preflight=not say_plan, progress=progress)
    notebooks = record["notebooks"]
    said = [f"{n['slug']}: {n['status']}: {n['reason']}" for n in notebooks if n["status"] != "ok"]
    said += record["problems"]
    if record.get("up_to_date"):
        said.append(f"Nothing has changed since {record['ended']}: all results are kept.")
    else:
        said += record.get("notes", ())
        if kept := sum(n["kept"] for n in notebooks):
            said.append(f"{kept} of {len(notebooks)} notebooks are kept: nothing has changed for them.")
    for text in said:
        print(text, file=sys.stderr)
    print(f"{given.outputs}/{checked.run}/index.html")
    return 0 if record["status"] == "ok" else 1


def _shard(given: argparse.Namespace) -> None:
    import re

    from biaslab.errors import ParameterError
    from biaslab.runs import params, shards

    share = re.fullmatch(r"(\d+)/(\d+)", given.share)
    if share is None:
        raise ParameterError(f"--of is {given.share!r}; it must be a share of a number, for example 0/10.")
    checked = params.load(given.params, overrides=given.overrides, notebooks_dir=given.notebooks_dir)
    options = {"progress": not given.no_progress, "wait": given.wait}
    told = partial(print, sep="\n", flush=True)
    left = shards.compute(checked, (int(share[1]), int(share[2])), waiting=lambda left: told(*left), **options)
    there = f"Nothing is left: `biaslab run {given.params}` reads it all."
    told(*left, "Start all shares once more when they have ended." if left else there)


def _compare(given: argparse.Namespace) -> None:
    from biaslab.runs import compare

    folder = compare.compare(given.first, *given.others, outputs=given.outputs, name=given.name)
    print(f"{folder}/index.html")


def _plan(given: argparse.Namespace) -> None:
    from biaslab.runs import plan

    print(*plan.plan(given.run, given.outputs, given.precision), sep="\n")


def _export(given: argparse.Namespace) -> None:
    from biaslab.runs import export

    print(export.export(given.run, outputs=given.outputs, to=given.to))


def _cite(given: argparse.Namespace) -> None:
    from pathlib import Path

    from biaslab.report import citation, records
    from biaslab.runs import collect, compare

    if given.run:
        record = records.read(compare.find_run(given.run, Path(given.outputs)))
        found = citation.of_run(record, given.url, given.author)
    else:
        commit = collect.git_state(Path(__file__).parent)["git_commit"]
        found = [citation.of_package(commit=commit or "")]
    print(citation.format_citations(found))


def _rate(given: argparse.Namespace) -> None:
    from biaslab.runs import annotation_page
    from biaslab.schema.formatting import format_count

    names = ("outputs", "seed", "paper", "kind", "show_faces", "overrides", "to")
    page = annotation_page.rate(given.images, n=given.sample, **{name: getattr(given, name) for name in names})
    for reason, n in sorted(page.left_out.items()):
        print(f"Left out: {format_count(n, 'image', 'images')}, {reason}.", file=sys.stderr)
    print(f"{format_count(page.images, 'image', 'images')}, {page.bytes:,} bytes.", file=sys.stderr)
    print(page.path)


def _settings(given: argparse.Namespace) -> None:
    from biaslab.runs import settings_reference

    print(*settings_reference.lines(settings_reference.find_declared(given.word)), sep="\n")


def _published(given: argparse.Namespace) -> None:
    from biaslab import reference

    if given.name:
        reference.load(given.name).to_csv(sys.stdout, index=False)
    else:
        print(reference.index().to_string(index=False))


def _models(_: argparse.Namespace) -> None:
    from biaslab.hub import registry

    found = registry.installed()
    none = "No installed package brings a model. Those of others are named by folder or hub name."
    print(none if found.empty else found.to_string(index=False))


def _purchases(given: argparse.Namespace) -> None:
    from pathlib import Path

    from biaslab.endpoints import purchases
    from biaslab.io import places

    cache = Path(given.folder).expanduser() if given.folder else places.default_root()
    if given.release:
        purchases.release(cache)
    blocks = ("\n".join(f"{name}: {value}" for name, value in of.items()) for of in purchases.summary(cache))
    print("\n\n".join(blocks))


def _store(given: argparse.Namespace) -> None:
    from pathlib import Path

    from biaslab.cache import pruning
    from biaslab.errors import ParameterError, unknown_name
    from biaslab.io import places

    if bool(given.action) != (given.days is not None or given.stage is not None) or given.yes > bool(given.action):
        raise ParameterError("Select the results to prune: biaslab store prune --days N, --stage NAME, or both.")
    if given.days is not None and not 0 <= given.days < math.inf:
        raise ParameterError(f"--days is {given.days:g}; it must be a number of days, 0 or more.")
    root = (Path(given.store).expanduser() if given.store else places.default_root()).absolute()
    if not (results := pruning.results(root)):
        print(f"The store {root} {'holds no results' if root.is_dir() else 'is not there'}.")
        return
    if not given.action:
        print(f"{pruning.make_table(results).to_string(index=False)}\nStore: {root}")
        return
    if given.stage is not None and given.stage not in (stages := {result.stage for result in results}):
        raise unknown_name(f"stage in the store {root}", given.stage, stages)
    deleted, in_use = pruning.prune(root, days=given.days or 0, stage=given.stage or "", delete=given.yes)
    if deleted:
        print(pruning.make_table(deleted).drop(columns="never_pruned").to_string(index=False))
    for result in in_use:
        print(f"Left, in use by a process: {result.stage}/{result.path.name}")
    did = "Deleted" if given.yes else "Would delete"
    options = "" if given.yes or not deleted else " Nothing is deleted yet: add --yes."
    print(f"{did} {pruning.summarize(deleted)}, from {root}.{options}")


if __name__ == "__main__":
    sys.exit(main())
