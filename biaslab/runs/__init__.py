"""Notebooks run headless: what a run takes and costs, its parts, and what is done with runs afterwards."""
