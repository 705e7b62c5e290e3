"""What pictures and prompts of one's own answer (``answers.yaml``)."""

from pathlib import Path

from biaslab.papers.answers import read

answers = read(Path(__file__).parent)
