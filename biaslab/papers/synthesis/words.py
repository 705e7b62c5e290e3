"""What the specification curve and models side by side answer (``answers.yaml``)."""

from pathlib import Path

from biaslab.papers.answers import read

answers = read(Path(__file__).parent)
