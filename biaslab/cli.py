"""The command line: ``biaslab run``, ``biaslab compare``, ``biaslab published``."""

from __future__ import annotations

import argparse
import signal
import sys

from biaslab import __version__
from biaslab.errors import BiaslabError


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status: 0 fine, 1 a notebook failed, 2 wrong input."""
    parser = _parser()
    given = parser.parse_args(arguments)
    # A run that is told to end stops its notebooks and keeps what had finished, as with Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return given.call(given)
    except (BiaslabError, OSError) as error:
        print(f"biaslab: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("biaslab: stopped; what had finished is kept.", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="biaslab", description="Audit text-to-image models for social bias."
    )
    parser.add_argument("--version", action="version", version=f"biaslab {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="execute notebooks from a parameters file and build the report")
    run.add_argument(
        "params", metavar="PARAMS.yaml", help="the parameters file, for example params/published.yaml"
    )
    run.add_argument(
        "--set",
        dest="overrides",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="replace a parameter (repeatable); a list such as model='[SD 1.4, SD 1.5]' reruns per value",
    )
    run.add_argument(
        "--notebook",
        dest="notebooks",
        metavar="PATTERN",
        action="append",
        default=[],
        help="execute only notebooks that match, for example 'paradox/*' (repeatable)",
    )
    run.add_argument("--outputs", metavar="DIR", default="outputs", help="where runs go (default: outputs)")
    run.add_argument("--notebooks-dir", metavar="DIR", help="where the notebooks are (default: found nearby)")
    run.add_argument("--overwrite", action="store_true", help="replace a folder that holds another run")
    run.add_argument("--no-progress", action="store_true", help="show no progress bar")
    run.set_defaults(call=_run)

    compare = commands.add_parser("compare", help="lay two runs' tables side by side, with differences")
    compare.add_argument("first", metavar="RUN", help="a run's folder, or its name below --outputs")
    compare.add_argument("second", metavar="RUN", help="the run that is compared with the first")
    compare.add_argument(
        "--outputs", metavar="DIR", default="outputs", help="where runs are (default: outputs)"
    )
    compare.add_argument("--name", metavar="NAME", help="name of the comparison's folder")
    compare.set_defaults(call=_compare)

    published = commands.add_parser("published", help="list the papers' printed tables, or print one as CSV")
    published.add_argument(
        "name", metavar="NAME", nargs="?", help="a table's name, for example paradox_table_6"
    )
    published.set_defaults(call=_published)
    return parser


def _run(given: argparse.Namespace) -> int:
    from biaslab import params, runs

    checked = params.load(
        given.params, overrides=given.overrides, notebooks=given.notebooks, notebooks_dir=given.notebooks_dir
    )
    record = runs.run(
        checked, outputs=given.outputs, overwrite=given.overwrite, progress=not given.no_progress
    )
    for notebook in record["notebooks"]:
        if notebook["status"] != "ok":
            print(f"{notebook['slug']}: {notebook['status']}: {notebook['reason']}", file=sys.stderr)
    for problem in record["problems"]:
        print(problem, file=sys.stderr)
    print(f"{given.outputs}/{checked.run}/index.html")
    return 0 if record["status"] == "ok" else 1


def _compare(given: argparse.Namespace) -> int:
    from biaslab import compare

    folder = compare.compare(given.first, given.second, outputs=given.outputs, name=given.name)
    print(f"{folder}/index.html")
    return 0


def _published(given: argparse.Namespace) -> int:
    from biaslab import published

    if given.name:
        published.load(given.name).to_csv(sys.stdout, index=False)
    else:
        print(published.index().to_string(index=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
