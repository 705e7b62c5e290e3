"""Headless runs of notebooks: parameters, plans, costs, execution and results, and commands on finished runs."""
