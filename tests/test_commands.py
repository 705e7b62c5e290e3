"""The help of the command line, and the old names that it refuses."""

import argparse
import re
import shlex
from pathlib import Path

import pytest

from biaslab import cli
from biaslab.errors import ParameterError, not_installed
from biaslab.schema import old_names

ROOT = Path(__file__).parents[1]


def commands():
    """Return the parser of each command by its name, and its line in the list of commands."""
    (subparsers,) = (a for a in cli.build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    lines = {choice.dest: choice.help for choice in subparsers._choices_actions}
    return subparsers.choices, lines


PARSERS, LINES = commands()
OPTIONS = {text for parser in PARSERS.values() for text in parser._option_string_actions}
# Words and phrases that are not standard terms. Names of settings, files and variables do not count.
BANNED = (
    r"beside|lay(s|ing)?|lean(s|ing)?|floors?|gates?|nearby|somebody|nobody|whoever|whom|what|told|tells?|says?|"
    r"said|stores?|ledgers?|pictures?|rat(e|es|er|ers|ings)|data set|rehears\w+|side by side|look(s|ed)? up|a share of|"
    r"a part of|by chance|that are (t)?here|goes? on|of which|so many|taken off|made"
)


def helps(parser):
    """Return the help of each of a parser's arguments by its name."""
    visible_actions = (action for action in parser._actions if action.dest != "help")
    return {
        action.option_strings[-1] if action.option_strings else action.dest: action.help for action in visible_actions
    }


def examples(parser):
    return [line.strip() for line in parser.epilog.splitlines() if line.startswith("  ")]


@pytest.mark.parametrize("name", PARSERS)
def test_commands_have_description_and_valid_examples(name):
    parser, lines = PARSERS[name], examples(PARSERS[name])
    assert 1 <= len(re.findall(r"\.(?=\s|$)", parser.description)) <= 3 and len(parser.description) >= 40
    assert lines
    for line in lines:
        program, *words = shlex.split(line)
        assert program == "biaslab" and words[0] == name
        arguments = cli.build_parser().parse_args(words)
        assert arguments.call.__name__ == f"_{name.replace('-', '_')}"
        if file := getattr(arguments, "params", ""):
            assert (ROOT / file).is_file()


def test_program_examples_parse():
    lines = examples(cli.build_parser())
    assert lines
    for line in lines:
        cli.build_parser().parse_args(shlex.split(line)[1:])


@pytest.mark.parametrize("name", PARSERS)
def test_help_is_short_and_in_standard_terms(name):
    texts = helps(PARSERS[name])
    assert all(texts.values())
    for option, text in texts.items():
        assert len(text.split()) <= 16, (option, text)
    assert len(LINES[name].split()) <= 12 and LINES[name][0].islower()
    for text in (*texts.values(), LINES[name], PARSERS[name].description):
        assert not re.search(rf"(?<![\w.$])({BANNED})(?![\w.=])", text, re.IGNORECASE), text


@pytest.mark.parametrize(
    "old",
    [
        "beside the results",
        "where the notebooks are (default: nearby)",
        "look up all that is used",
        "what people said of a part",
        "say what the store holds",
        "write a page on which people rate images",
    ],
)
def test_banned_words_match_earlier_help(old):
    assert re.search(rf"(?<![\w.$])({BANNED})(?![\w.=])", old)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["run", "params/published.yaml", "--overw"],
            "'biaslab run' has no option '--overw'. Did you mean '--overwrite'?",
        ),
        (
            ["audit", "images:a", "--benchmrk", "b.csv"],
            "'biaslab audit' has no option '--benchmrk'. Did you mean '--benchmark'?",
        ),
        (
            ["audit", "--benchmrk=b.csv", "images:a"],
            "'biaslab audit' has no option '--benchmrk'. Did you mean '--benchmark'?",
        ),
        (
            ["compare", "a", "b", "--outptus", "c"],
            "'biaslab compare' has no option '--outptus'. Did you mean '--outputs'?",
        ),
    ],
)
def test_main_unknown_option_suggests_nearest(words, message, capsys):
    assert cli.main(words) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        (["audt", "images:a"], "audit"),
        (["cache", "prne"], "prune"),
        (["audit", "a", "--baselines", "publishd"], "published"),
    ],
)
def test_main_unknown_choice_suggests_nearest(words, nearest, capsys):
    with pytest.raises(SystemExit) as exit_info:
        cli.main(words)
    assert exit_info.value.code == 2 and f"Did you mean {nearest!r}?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["audit", "images:a"], "'biaslab[models]'"),
        (["run", "a.yaml"], "'biaslab[models]' (or 'biaslab[report]' for published values and annotations alone)"),
        (["compare", "a", "b"], "'biaslab[report]'"),
    ],
)
def test_not_installed_names_extra_of_command(words, extra):
    extras = cli.build_parser().parse_args(words).extras
    assert not_installed(ModuleNotFoundError(name="yaml"), extras).endswith(f"pip install {extra}")
    # A package of one extra alone is in no other.
    assert not_installed(ModuleNotFoundError(name="openpyxl"), extras).endswith("pip install 'biaslab[excel]'")


OLD = [
    (["rate", "RUN"], "biaslab rate is now biaslab annotate."),
    (["store", "prune", "--days", "7"], "biaslab store is now biaslab cache."),
    (["ledger"], "biaslab ledger is now biaslab purchases."),
    (["published", "paradox_table_6"], "biaslab published is now biaslab reference."),
    (["run", "mine.yaml", "--again"], "--again is now --force."),
    (["run", "mine.yaml", "--beside=published"], "--beside is now --baselines."),
    (["shard", "mine.yaml", "--of", "0/2"], "--of is now --shard."),
    (["audit", "mini", "--size", "quick"], "--size is now --preset."),
    (["audit", "mini", "--ratings", "r.csv"], "--ratings is now --annotations."),
    (["annotate", "RUN", "--kind", "paired"], "--kind is now --subset."),
    (["annotate", "RUN", "--to", "a.html"], "--to is now --output."),
    (["export", "RUN", "--to=a.zip"], "--to is now --output."),
    (["cache", "--store", "DIR"], "--store is now --cache."),
]


@pytest.mark.parametrize(("words", "message"), OLD)
def test_main_old_name_suggests_new_name(words, message, capsys):
    assert cli.main(words) == 2
    assert capsys.readouterr() == ("", f"biaslab: {message}\n")


def test_old_names_map_to_existing_commands_and_options():
    assert {message for _, message in OLD} == {
        *(f"biaslab {old} is now biaslab {new}." for old, new in old_names.table("commands").items()),
        *(f"{old} is now {new}." for old, new in old_names.table("options").items()),
    }
    assert set(old_names.table("commands").values()) <= set(PARSERS) and not set(old_names.table("commands")) & set(
        PARSERS
    )
    assert set(old_names.table("options").values()) <= OPTIONS and not set(old_names.table("options")) & OPTIONS


def test_old_names_and_new_names_are_disjoint():
    for section in old_names.SECTIONS:
        table = old_names.table(section)
        assert not set(table) & set(table.values()), section


def test_check_accepts_current_names():
    old_names.check("commands", ["annotate", "", "anything"])
    with pytest.raises(ParameterError, match=r"^the command rate is now the command annotate\.$"):
        old_names.check("commands", ["annotate", "rate"], text="the command {}")


def test_main_value_after_double_dash_is_no_option(monkeypatch):
    # A table may have any name; that of an option is one.
    monkeypatch.setattr("biaslab.reference.load", lambda name: pytest.fail(name) if name != "--to" else _Table())
    assert cli.main(["reference", "--", "--to"]) == 0


class _Table:
    def to_csv(self, *_, **__):
        pass
