"""A group of keys: extra ones are refused, values are frozen, docstrings are the reference.

pydantic can read these docstrings itself, and would parse every model's source in each run for it;
`tasks.settings.jsonschema` reads them where they are asked for. Annotations of models are no texts
(`from __future__ import annotations`): it would compile each of them in each run.
"""

from pydantic import BaseModel, ConfigDict


class StrictModel(BaseModel):
    """A group of keys, of the settings or of another file that a person may write."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Section(StrictModel):
    """A group of keys of the settings."""


class InvalidKeyError(ValueError):
    """What a section as a whole finds wrong with one of its keys: `keys` lead there from it."""

    def __init__(self, keys: tuple[str | int, ...], why: str) -> None:
        super().__init__(why)
        self.keys = keys
