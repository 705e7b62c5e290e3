"""Judge images: is one face there, is it large enough, and which gender does it show as perceived.

- :mod:`~biaslab.models.images`: what a source of images is; folders and arrays as sources.
- :mod:`~biaslab.judging.faces`: face detectors behind one contract, and the gate.
- :mod:`~biaslab.judging.zero_shot`, :mod:`~biaslab.judging.fairface`: perceived gender from pixels.
- :mod:`~biaslab.judging.judge`: gate and gender together, every image with an outcome.
- :mod:`~biaslab.judging.people`: the same for each of several people, told apart by position.
- :mod:`~biaslab.judging.vqa`: perceived gender by questions to BLIP or BLIP-2, and captions by them.
- :mod:`~biaslab.judging.skin_tone`: the tone of faces as they appear.
- :mod:`~biaslab.judging.error`: how often the judge is wrong, and shares corrected for it.
- :mod:`~biaslab.ratings.sessions`, :mod:`~biaslab.ratings.person_ratings`: people as raters of images, and of the
people
  in them.
"""
