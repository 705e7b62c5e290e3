"""Judge images: is one face there, is it large enough, and which gender does it show as perceived.

- :mod:`~biaslab.judging.images`: what a source of images is; folders and arrays as sources.
- :mod:`~biaslab.judging.faces`: face detectors behind one contract, and the gate.
- :mod:`~biaslab.judging.zero_shot`, :mod:`~biaslab.judging.fairface`: perceived gender from pixels.
- :mod:`~biaslab.judging.judge`: gate and gender together, every image with an outcome.
- :mod:`~biaslab.judging.error`: how often the judge is wrong, and shares corrected for it.
- :mod:`~biaslab.judging.rating`: people as raters of a sample of the same images.
"""
