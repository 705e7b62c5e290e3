"""The training side's texts: where captions come from, which mention an occupation, which name a gender.

``corpus`` opens captions, ``search`` finds those that mention an occupation, ``indicators`` labels those that say
a gender, ``neighbours`` measures how near they are to a prompt and picks the nearest, and ``paraphrase`` says them in
other words.
"""
