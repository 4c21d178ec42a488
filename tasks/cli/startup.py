"""Prepare the process before the other modules are imported."""

import gc
import os
import signal


def prepare_process() -> None:
    """Let SIGINT end the process while it loads, and make loading faster."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Until the reporter handles SIGINT there is nothing to clean up: a traceback does not help
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Otherwise pydantic reads the metadata of every installed package for plugins, and loads them
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    gc.disable()  # objects created at load live until exit: a collection would free nothing


def finish_loading() -> None:
    """Collect garbage again, once the tasks are loaded."""
    gc.enable()
