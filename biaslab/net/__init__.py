"""Other people's servers: what is asked of them, what is taken from them, and what was paid.

- :mod:`~biaslab.net.retry`: when a request is sent again, the same for all.
- :mod:`~biaslab.net.connection`: waits that end in time, bodies up to a limit.
- :mod:`~biaslab.net.fetch`: a URL from a server that nobody trusts, at the address that was checked.
- :mod:`~biaslab.net.endpoint`: what all models behind OpenAI-compatible endpoints have in common.
- :mod:`~biaslab.net.chat`, :mod:`~biaslab.net.images`: models that answer, and models that draw.
- :mod:`~biaslab.net.ledger`: what was paid for images, and what came of it.
"""
