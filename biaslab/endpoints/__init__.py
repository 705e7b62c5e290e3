"""Clients of OpenAI-compatible endpoints and other servers, and the record of purchases."""
