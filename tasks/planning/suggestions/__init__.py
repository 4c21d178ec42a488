"""What would help where a choice cannot be: other settings, each tried before it is named. Pure.

Nothing is advised that the facts know to be bad. `trial` tries; `pythons`, `toolkits`, `torches`
and `cards` know of one kind of change each, and `advice` puts them into a sentence.
"""

from __future__ import annotations

from tasks.planning.suggestions.advice import (
    format_suggestions,
    format_wheel_alternatives,
    list_suggestions,
)
from tasks.planning.suggestions.trial import Suggestion, is_known_bad

__all__ = [
    "Suggestion",
    "format_suggestions",
    "format_wheel_alternatives",
    "is_known_bad",
    "list_suggestions",
]
