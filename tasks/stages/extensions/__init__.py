"""Extensions: one stage for each, `extensions:NAME`.

Given its source, the environment and what torch shows (surface.json); leaves extensions/NAME.json
with the wheel, its libraries and the archs that were read out of them. Reruns when its source, its
settings, the compilers, the targets or torch's surface changed, and, where it is optional and its
host did not answer, every time.
"""
