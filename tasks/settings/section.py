"""A group of keys: extra ones are refused, values are frozen, docstrings are the reference."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A group of keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)
