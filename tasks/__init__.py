"""torchyard: from settings to a validated PyTorch, as a graph of doit tasks."""

__version__ = "0.1.0"
