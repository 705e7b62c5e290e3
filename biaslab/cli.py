"""The command line: ``biaslab audit``, ``run``, ``compare``, ``annotate``, ``export``, ``settings`` and more."""

from __future__ import annotations

import argparse
import io
import math
import os
import re
import signal
import sys
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, NoReturn

from biaslab import __version__
from biaslab.errors import BiaslabError, ParameterError, name_help, near_matches, not_installed
from biaslab.schema import old_names

if TYPE_CHECKING:
    from pathlib import Path

    from biaslab.runs.params import RunParams


def main(words: list[str] | None = None, parser: argparse.ArgumentParser | None = None) -> int:
    """Run the command line and return the exit status: 0 fine, 1 a notebook failed, 2 an error, 130 stopped.

    Args:
        words: The arguments after the program's name; by default those of this process.
        parser: The parser of another program with the same error handling; it sets ``call``, and ``stop_hint``.
    """
    words = sys.argv[1:] if words is None else words
    arguments = argparse.Namespace()
    # Names in any script can be written to terminals and files of any encoding.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    # SIGTERM stops notebooks and keeps finished results, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if parser is None:
            parser = build_parser()
            _check_old_names(words)
        # A flush here finds a closed pipe before Python exits.
        try:
            arguments, unknown_options = parser.parse_known_args(words)
        finally:
            sys.stdout.flush()
        if unknown_options:
            # The error about an unknown option names the nearest one of the command.
            command = getattr(arguments, "parser", parser)
            option = unknown_options[0].partition("=")[0]
            raise ParameterError(f"{command.prog!r} has no option {option!r}. {_option_help(command, option)}")
        status = arguments.call(arguments)
        sys.stdout.flush()
        return status or 0
    except BrokenPipeError:
        # The reader has closed the pipe, as in `biaslab reference | head -1`; a shell adds 128.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + _SIGPIPE
    except (BiaslabError, OSError) as error:
        from biaslab.cache.result_cache import explain_error

        fix = "Finished results are cached. To continue, {fix}, or choose another folder, and run the command again."
        print(f"{parser.prog}: {explain_error(error, hint=fix)}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        if not (text := not_installed(error, getattr(arguments, "extras", ""))):
            raise
        print(f"{parser.prog}: {text}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        hint = getattr(arguments, "stop_hint", "")
        print(f"{parser.prog}: stopped{'; ' if hint else ''}{hint}.", file=sys.stderr)
        return 130


# The number of the signal that ends programs whose output is no longer read.
_SIGPIPE = 13
_IMAGE_EXTRA = "'biaslab[models]'"
_RESUME = "finished results are cached; to resume, run the same command again"


def _check_old_names(words: Sequence[str]) -> None:
    """Refuse commands and options of earlier versions (ParameterError)."""
    words = list(takewhile(lambda word: word != "--", words))
    command = next((word for word in words if not word.startswith("-")), "")
    old_names.check("commands", [command], text="biaslab {}")
    old_names.check("options", [word.partition("=")[0] for word in words])


def _option_help(parser: argparse.ArgumentParser, option: str) -> str:
    return name_help(option, [name for name in parser._option_string_actions if name.startswith("--")])


class _Parser(argparse.ArgumentParser):
    """A parser whose errors about choices name the nearest ones."""

    def error(self, message: str) -> NoReturn:
        """Exit with the usage and a message."""
        choice = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message)
        if choice and (matches := near_matches(choice[1], re.findall(r"[\w-]+", choice[2]))):
            message += f". Did you mean {' or '.join(map(repr, matches))}?"
        super().error(message)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands: each sets ``call``, ``stop_hint``, ``extras`` and itself as ``parser``."""
    parser = _Parser(
        prog="biaslab",
        description=_wrapped(
            "Measure social bias in text-to-image models: prompt a model or read existing images, classify the people "
            "shown, and build a report with a confidence interval for each estimate."
        ),
        epilog=_examples("biaslab audit images:photos/", "biaslab audit OWNER/MODEL --dry-run")
        + "\n\n'biaslab COMMAND --help' prints the options and examples of a command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_completion(parser)
    parser.add_argument("--version", action="version", version=f"biaslab {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    # Options shared by several commands.
    parents = (argparse.ArgumentParser(add_help=False) for _ in range(9))
    bars, params, values, starts, outputs, run, parameters, cache, grouping = parents
    repeated = {"action": "append", "default": []}
    bars.add_argument("--no-progress", action="store_true", help="hide progress bars")
    params.add_argument("params", metavar="PARAMS.yaml", help="parameters file, for example params/published.yaml")
    text = "set a parameter; with a list, notebooks run once for each value (repeatable)"
    values.add_argument("--set", dest="overrides", metavar="KEY=VALUE", help=text, **repeated)
    values.add_argument("--notebooks-dir", metavar="DIR", help="notebook directory (default: auto-detected)")
    text = "include the papers' published values for comparison"
    starts.add_argument("--baselines", choices=("published",), default="", help=text)
    text = "show models, image counts, time, disk and cost; generate nothing"
    starts.add_argument("--dry-run", action="store_true", help=text)
    text = "with --dry-run: also download missing models and test them"
    starts.add_argument("--fetch", action="store_true", help=text)
    starts.add_argument("--overwrite", action="store_true", help="replace a run folder that contains another run")
    text = "rerun notebooks even if they are up to date"
    starts.add_argument("--force", action="store_true", help=text)
    outputs.add_argument("--outputs", metavar="DIR", default="outputs", help="folder for all runs (default: outputs)")
    run.add_argument("run", metavar="RUN", help=_RUN)
    text = "set a parameter of the run, for example compute.cache=DIR (repeatable)"
    parameters.add_argument("--set", dest="overrides", metavar="KEY=VALUE", help=text, **repeated)
    text = "cache directory (default: $BIASLAB_CACHE, else outputs/.cache)"
    cache.add_argument("--cache", metavar="DIR", help=text)
    text = "groups of images:FOLDER: prompt, folder[1], a table column or a regular expression"
    grouping.add_argument("--group-by", metavar="RULE", default="", help=text)

    def command(
        call: Callable,
        text: str,
        description: str,
        *examples: str,
        parents: Sequence[argparse.ArgumentParser] = (),
        stop_hint: str = "",
        extras: str = "",
    ) -> Callable:
        """Add the command that a function ``_NAME`` executes, and return the function that adds its arguments."""
        subparser = commands.add_parser(
            call.__name__.removeprefix("_").replace("_", "-"),
            help=text,
            description=_wrapped(description),
            epilog=_examples(*examples),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            parents=parents,
        )
        subparser.set_defaults(call=call, stop_hint=stop_hint, extras=extras, parser=subparser)
        return subparser.add_argument

    add = command(
        _audit,
        "measure the bias of text-to-image models and build a report",
        "Generates images with each model (or reads those in images:FOLDER), classifies the people shown, and builds "
        "one report. To add LoRAs to a model, write NAME+LORA:WEIGHT. Before the run starts, a preflight check tests "
        "every model and classifier on one image.",
        "biaslab audit images:photos/",
        "biaslab audit OWNER/MODEL OTHER/MODEL --dry-run",
        "biaslab audit OWNER/MODEL --prompts prompts.csv --benchmark labour.csv",
        parents=(grouping, values, starts, outputs, bars),
        stop_hint=_RESUME,
        extras=_IMAGE_EXTRA,
    )
    text = "hub name, folder, .safetensors file, endpoint:NAME, images:FOLDER or name from a package"
    add("models", metavar="MODEL", nargs="+", help=text)
    text = "file of prompts; columns: prompt and, optionally, group, condition, n, people"
    add("--prompts", metavar="FILE", default="", help=text)
    text = "file of reference shares; columns: group, percent_female and, optionally, n"
    add("--benchmark", metavar="FILE", default="", help=text)
    text = "number of images: quick, standard or paper (default: standard)"
    add("--preset", metavar="PRESET", default="standard", help=text)
    add("--name", metavar="NAME", default="", help="name of the run (default: models and preset)")
    add("--title", metavar="TEXT", default="", help="title of the report (default: Audit of MODEL, …)")
    text = "training captions: file, pattern, hub dataset or name from a package"
    add("--corpus", metavar="PATTERN", default="", help=text)
    text = "human annotations of a subset of the images: a file or folder"
    add("--annotations", metavar="FILE", default="", help=text)
    text = "run only this paper's analyses: paired, dalleval, triplets or paradox (repeatable)"
    add("--paper", dest="papers", metavar="PAPER", help=text, **repeated)

    command(
        _init,
        "write notebooks, parameters files and a README into a new folder",
        "Copies the notebooks and parameters files of biaslab and of installed packages into a folder where you can "
        "edit them.",
        "biaslab init my-audit",
    )("folder", metavar="FOLDER", help="new or empty folder")

    add = command(
        _run,
        "execute notebooks from a parameters file and build the report",
        "Executes notebooks, up to 'jobs' in parallel, with the parameters in the file, and builds one report. "
        "Notebooks that are up to date are not executed again, and cached results are reused.",
        "biaslab run params/published.yaml",
        "biaslab run params/published.yaml --notebook 'paradox/*' --set run=sweep --set 'model=[SD 1.4, SD 1.5]'",
        parents=(params, values, starts, outputs, bars),
        stop_hint=_RESUME,
        extras=f"{_IMAGE_EXTRA} (or 'biaslab[report]' for published values and annotations alone)",
    )
    text = "execute only matching notebooks, for example 'paradox/*' (repeatable)"
    add("--notebook", dest="notebooks", metavar="PATTERN", help=text, **repeated)

    add = command(
        _compare,
        "compare the findings and tables of finished runs",
        "Plots the findings of all runs next to each other, and subtracts the tables of the first run from those of "
        "the other runs.",
        "biaslab compare published sweep",
        parents=(outputs,),
    )
    add("first", metavar="RUN", help=_RUN)
    add("others", metavar="RUN", nargs="+", help="runs to compare with the first")
    text = "name of the new folder (default: compare-RUN-RUN)"
    add("--name", metavar="NAME", help=text)

    add = command(
        _plan,
        "estimate the sample size for a target margin of error",
        "Uses a finished run as a pilot study. Prints the margins of error of its headline estimates, the images per "
        "prompt or group for other margins and, if a setting determines this number, the command that generates them.",
        "biaslab plan RUN --precision 5",
        parents=(run, outputs),
    )
    text = "target margin of error, in percentage points of shares (default: 5)"
    add("--precision", type=float, metavar="POINTS", default=5.0, help=text)

    add = command(
        _annotate,
        "create an offline HTML page for human annotation",
        "Selects a stratified random sample of images and writes one page with questions about each image. "
        "Annotators answer them in a browser, without a network connection, and send back a CSV file of annotations. "
        "Built-in questions: perceived gender, skin tone, attributes (or the name of one attribute), objects, number, "
        "relation, object, noun, alignment.",
        "biaslab annotate RUN --sample 200 --seed 1",
        "biaslab annotate RUN --paper dalleval --questions 'perceived gender,skin tone,attributes'",
        "biaslab annotate images:photos/ --sample 100",
        parents=(outputs, parameters, grouping),
    )
    text = "run, folder of images whose file names are image ids, or images:FOLDER"
    add("images", metavar="RUN|FOLDER", help=text)
    text = "built-in questions or YAML files, separated by commas (default: perceived gender)"
    add("--questions", metavar="NAME,…|FILE", default="", help=text)
    add("--sample", type=int, metavar="N", default=200, help="number of images to annotate (default: 200)")
    text = "random seed of the sample and of the order of images (default: 0)"
    add("--seed", type=int, metavar="S", default=0, help=text)
    text = "with a run: paradox, paired, dalleval, triplets or custom (default: the run's first)"
    add("--paper", metavar="PAPER", default="", help=text)
    text = "subset of the paper's images, for example paired (default: by questions, else one person)"
    add("--subset", metavar="SUBSET", default="", help=text)
    text = "include training images, which show the faces of real people"
    add("--show-faces", action="store_true", help=text)
    text = "output file (default: annotate-NAME.html in --outputs)"
    add("-o", "--output", metavar="FILE.html", help=text)

    add = command(
        _export,
        "pack a run into one zip file to share",
        "Packs the report, tables, figures, notebooks and parameters, and a list of the images with their seeds, so "
        "that others can read and repeat the run. Stops if a file contains an API key or a path on this machine.",
        "biaslab export RUN --output audit.zip",
        parents=(run, outputs),
    )
    add("-o", "--output", metavar="FILE.zip", help="output file (default: RUN.zip in --outputs)")

    add = command(
        _export_dataset,
        "convert a paper's released dataset for training with other libraries",
        "Writes the scenes, images and boxes of PaintSkills in the imagefolder format of Hugging Face's datasets "
        "library, with captions and boxes in metadata.jsonl, and the boxes as COCO annotations. Images are hard links "
        "where the file system supports them, and copies otherwise.",
        "biaslab export-dataset paintskills PaintSkills/ --output paintskills-dataset/",
    )
    add("dataset", metavar="DATASET", choices=("paintskills",), help="dataset to convert: paintskills")
    add("folder", metavar="FOLDER", help="folder of the release, with subfolders object, count and spatial")
    add("-o", "--output", metavar="FOLDER", required=True, help="new or empty folder")

    add = command(
        _cite,
        "print citations of biaslab, or of a run and its papers",
        "Citations are printed as text and BibTeX. With RUN, they also cover the run and the papers whose methods it "
        "used.",
        "biaslab cite",
        "biaslab cite RUN --author 'A. Auditor' --url https://example.org/report/index.html",
        parents=(outputs,),
    )
    add("run", metavar="RUN", nargs="?", help=_RUN)
    add("--author", metavar="NAME", default="", help="author of the run")
    add("--url", metavar="ADDRESS", default="", help="web address of the published report")

    add = command(
        _shard,
        "run one shard of a run's work (for job arrays)",
        "Computes shard I of N of a run's searches, images and classifications, and caches the results. When all "
        "shards have finished, 'biaslab run' with the same parameters file builds the report from these results.",
        "biaslab shard params/sd14.yaml --shard 0/10 --wait",
        parents=(params, values, bars),
        stop_hint=_RESUME,
        extras=_IMAGE_EXTRA,
    )
    add("--shard", metavar="I/N", required=True, help="shard to compute, from 0/N to N-1/N")
    text = "wait for other shards, and continue until all work is done"
    add("--wait", action="store_true", help=text)

    command(
        _settings,
        "list settings with type, bounds, unit, default and meaning",
        "Also lists the values that installed packages provide. To change a setting of a run, use --set, for example "
        "--set generation.steps=30.",
        "biaslab settings generation",
        "biaslab settings threshold",
    )("word", metavar="WORD", nargs="?", default="", help="setting, group, or word to search for (default: all)")

    command(
        _models,
        "list the models that installed packages provide",
        "For each model, prints the name, kind, image domain, folder, size and model card.",
        "biaslab models",
    )

    command(
        _reference,
        "list the papers' published tables, or print one as CSV",
        "The tables contain the values that the papers report.",
        "biaslab reference",
        "biaslab reference paradox_table_6",
    )("name", metavar="NAME", nargs="?", help="name of a table, for example paradox_table_6")

    add = command(
        _cache,
        "show cache usage, or delete selected results",
        "Without 'prune', lists the cached results by stage: their number, their size, and the earliest and latest "
        "day of last use. Purchased images, purchased answers, downloads and results in use are never deleted.",
        "biaslab cache",
        "biaslab cache prune --days 90",
        "biaslab cache prune --days 90 --yes",
        parents=(cache,),
    )
    text = "list the results to delete, selected by --days, --stage or both"
    add("action", metavar="prune", nargs="?", choices=("prune",), help=text)
    add("--days", type=float, metavar="N", help="with prune: select results not used for N days")
    add("--stage", metavar="NAME", help="with prune: select results of one stage")
    add("--yes", action="store_true", help="with prune: delete the selected results")

    add = command(
        _purchases,
        "summarize purchases from endpoints: cost, images and replies",
        "For each model behind an endpoint, prints the amount spent, the images by status, and the number of replies "
        "whose images are not saved yet. Buys nothing.",
        "biaslab purchases",
        "biaslab purchases --release",
        parents=(cache,),
    )
    text = "allow purchases from another host after a process was killed"
    add("--release", action="store_true", help=text)
    return parser


_RUN = "folder of a run, or name of a run in --outputs"


def _wrapped(text: str) -> str:
    """Return a description split into lines, which the formatter for examples does not do."""
    return textwrap.fill(text, 79)


def _examples(*lines: str) -> str:
    return "\n".join(["example:" if len(lines) == 1 else "examples:", *(f"  {line}" for line in lines)])


def _add_completion(parser: argparse.ArgumentParser) -> None:
    text = "print a completion script for a shell"
    try:
        import shtab
    except ModuleNotFoundError as error:
        parser.add_argument("--completion", metavar="SHELL", type=partial(_refuse, not_installed(error)), help=text)
    else:
        shtab.add_argument_to(parser, "--completion", help=text)


def _refuse(reason: str, _: str) -> None:
    raise argparse.ArgumentTypeError(reason)


def _init(arguments: argparse.Namespace) -> None:
    from biaslab.runs import init

    n_files = len(init.init(arguments.folder))
    print(f"Wrote {n_files} files into {arguments.folder}. Start with its README.md.")


def _run(arguments: argparse.Namespace) -> int:
    from biaslab.hub.image_folder import folders_read_once
    from biaslab.runs import params

    names = ("overrides", "notebooks", "notebooks_dir", "baselines")
    options = {name: getattr(arguments, name) for name in names}
    with folders_read_once():
        return _execute(arguments, params.load(arguments.params, **options))


def _audit(arguments: argparse.Namespace) -> int:
    from biaslab.hub.image_folder import folders_read_once

    with folders_read_once():
        checked = _audit_params(arguments)
        return _execute(arguments, checked, print_plan=True)


def _audit_params(arguments: argparse.Namespace) -> RunParams:
    """Return the parameters of an audit, and print a sentence about each default judge."""
    from biaslab.runs import audit, params, runner

    names = ("preset", "name", "title", "corpus", "papers", "prompts", "benchmark", "annotations", "group_by")
    audit_options = {name: getattr(arguments, name) for name in names}
    parameters = audit.make_parameters(
        arguments.models, set_here=params.setting_names(arguments.overrides), **audit_options
    )
    options = {name: getattr(arguments, name) for name in ("overrides", "notebooks_dir", "baselines")}
    checked = params.load(runner.PARAMS, given=parameters, **options)
    # Options without effect are refused, as with --set.
    settings = {"captions.corpus": arguments.corpus, "judging.annotations": arguments.annotations}
    if set_here := [name for name, value in settings.items() if value]:
        checked = checked.with_changes(set_here=(*checked.set_here, *set_here))
    for sentence in audit.describe_defaults(parameters):
        print(sentence)
    return checked


def _execute(arguments: argparse.Namespace, checked: RunParams, *, print_plan: bool = False) -> int:
    """Print the plan of a run if ``print_plan`` or ``--dry-run`` is set; without the latter, execute the run.

    Returns the exit status.
    """
    from biaslab.runs import jobs, runner

    plan_only, progress, planned = arguments.dry_run, not arguments.no_progress, jobs.plan(checked)

    def preflight(omissions: Sequence[str]) -> None:
        from biaslab.runs import dry_run

        options = {"fetch": arguments.fetch or not plan_only, "buy": not plan_only, "always": plan_only}
        if plan_only or print_plan:
            tried = dry_run.run_preflight(planned, progress, **options, time=True)
            print(dry_run.describe_run(tried, omissions, checked.confidence), flush=True)
        else:
            print(*omissions, sep="\n", end="\n" * bool(omissions), file=sys.stderr, flush=True)
            dry_run.run_preflight(planned, progress, **options)

    if plan_only:
        from biaslab.runs import dry_run

        jobs.read_sources(planned)
        preflight([*dry_run.describe_assumptions(planned), *dry_run.describe_omissions(planned)])
        return 0
    options = {"outputs": arguments.outputs, "overwrite": arguments.overwrite, "force": arguments.force}
    record = runner.run(checked, planned=planned, **options, preflight=preflight, progress=progress)
    notebooks = record["notebooks"]
    # Notebooks that fail for the same reason share one message.
    slugs: dict[str, list[str]] = {}
    for n in (n for n in notebooks if n["status"] != "ok"):
        slugs.setdefault(f"{n['status']}: " + re.sub(r" \(cell \d+\)$", "", n["reason"]), []).append(n["slug"])
    messages = [*(f"{', '.join(names)}: {text}" for text, names in slugs.items()), *record["problems"]]
    if record.get("up_to_date"):
        messages.append(f"Nothing has changed since {record['ended']}: all results are up to date.")
    else:
        messages += record.get("notes", ())
        if n_unchanged := sum(n["kept"] for n in notebooks):
            messages.append(f"{n_unchanged} of {len(notebooks)} notebooks are up to date and were not executed.")
    for text in messages:
        print(text, file=sys.stderr)
    print(f"{arguments.outputs}/{checked.run}/index.html")
    return 0 if record["status"] == "ok" else 1


def _shard(arguments: argparse.Namespace) -> None:
    from biaslab.runs import params, shards

    shard = re.fullmatch(r"(\d+)/(\d+)", arguments.shard)
    if shard is None:
        raise ParameterError(f"--shard is {arguments.shard!r}; it must be I/N, for example 0/10 for the first of ten.")
    checked = params.load(arguments.params, overrides=arguments.overrides, notebooks_dir=arguments.notebooks_dir)
    options = {"progress": not arguments.no_progress, "wait": arguments.wait}
    show = partial(print, sep="\n", flush=True)
    remaining = shards.compute(checked, (int(shard[1]), int(shard[2])), waiting=lambda texts: show(*texts), **options)
    message = f"All work is done. To build the report: `biaslab run {arguments.params}`."
    show(*remaining, "When all shards have finished, start all of them again." if remaining else message)


def _compare(arguments: argparse.Namespace) -> None:
    from biaslab.runs import compare

    folder = compare.compare(arguments.first, *arguments.others, outputs=arguments.outputs, name=arguments.name)
    print(f"{folder}/index.html")


def _plan(arguments: argparse.Namespace) -> None:
    from biaslab.runs import plan

    print(*plan.plan(arguments.run, arguments.outputs, arguments.precision), sep="\n")


def _export(arguments: argparse.Namespace) -> None:
    from biaslab.runs import export

    print(export.export(arguments.run, outputs=arguments.outputs, output=arguments.output))


def _export_dataset(arguments: argparse.Namespace) -> None:
    from biaslab.papers.dalleval import finetuning_dataset

    counts = finetuning_dataset.export(arguments.folder, arguments.output)
    print(counts.to_string(index=False), file=sys.stderr)
    print(arguments.output)


def _cite(arguments: argparse.Namespace) -> None:
    from pathlib import Path

    from biaslab.report import citation, records
    from biaslab.runs import collect, compare

    if arguments.run:
        record = records.read(compare.find_run(arguments.run, Path(arguments.outputs)))
        citations = citation.of_run(record, arguments.url, arguments.author)
    else:
        commit = collect.git_state(Path(__file__).parent)["git_commit"]
        citations = [citation.of_package(commit=commit or "")]
    print(citation.format_citations(citations))


def _annotate(arguments: argparse.Namespace) -> None:
    from biaslab.runs import annotation_page
    from biaslab.schema.formatting import format_count

    names = ("outputs", "seed", "questions", "paper", "subset", "show_faces", "overrides", "group_by", "output")
    options = {name: getattr(arguments, name) for name in names}
    page = annotation_page.annotate(arguments.images, n=arguments.sample, **options)
    for reason, n in sorted(page.left_out.items()):
        print(f"Excluded: {format_count(n, 'image', 'images')}, {reason}.", file=sys.stderr)
    print(f"{format_count(page.images, 'image', 'images')}, {page.bytes:,} bytes.", file=sys.stderr)
    print(page.path)


def _settings(arguments: argparse.Namespace) -> None:
    from biaslab.runs import settings_reference

    print(*settings_reference.lines(settings_reference.find_declared(arguments.word)), sep="\n")


def _reference(arguments: argparse.Namespace) -> None:
    from biaslab import reference

    if arguments.name:
        reference.load(arguments.name).to_csv(sys.stdout, index=False)
    else:
        print(reference.index().to_string(index=False))


def _models(_: argparse.Namespace) -> None:
    from biaslab.hub import registry

    models = registry.installed()
    message = "No installed package provides a model. Specify other models by folder or hub name."
    print(message if models.empty else models.to_string(index=False))


def _purchases(arguments: argparse.Namespace) -> None:
    from biaslab.endpoints import purchases

    root = _cache_root(arguments)
    if arguments.release:
        purchases.release(root)
    blocks = ("\n".join(f"{name}: {value}" for name, value in model.items()) for model in purchases.summary(root))
    print("\n\n".join(blocks))


def _cache(arguments: argparse.Namespace) -> None:
    from biaslab.cache import pruning
    from biaslab.errors import unknown_name

    prune, days, stage = arguments.action == "prune", arguments.days, arguments.stage
    if prune != (days is not None or stage is not None) or arguments.yes > prune:
        raise ParameterError("To select results to prune: biaslab cache prune with --days N, --stage NAME, or both.")
    if days is not None and not 0 <= days < math.inf:
        raise ParameterError(f"--days is {days:g}; it must be a number of days, 0 or more.")
    root = _cache_root(arguments)
    if not (results := pruning.results(root)):
        print(f"The cache {root} {'contains no results' if root.is_dir() else 'does not exist'}.")
        return
    if not prune:
        print(f"{pruning.make_table(results).to_string(index=False)}\nCache: {root}")
        return
    if stage is not None and stage not in (stages := {result.stage for result in results}):
        raise unknown_name(f"stage in the cache {root}", stage, stages)
    deleted, in_use = pruning.prune(root, days=days or 0, stage=stage or "", delete=arguments.yes)
    if deleted:
        print(pruning.make_table(deleted).drop(columns="never_pruned").to_string(index=False))
    for result in in_use:
        print(f"In use by a process, so not deleted: {result.stage}/{result.path.name}")
    verb = "Deleted" if arguments.yes else "Would delete"
    hint = "" if arguments.yes or not deleted else " Nothing is deleted yet: add --yes."
    print(f"{verb} {pruning.summarize(deleted)}, from {root}.{hint}")


def _cache_root(arguments: argparse.Namespace) -> Path:
    from pathlib import Path

    from biaslab.io import places

    return (Path(arguments.cache).expanduser() if arguments.cache else places.default_root()).absolute()


if __name__ == "__main__":
    sys.exit(main())
