"""doit's plugins under the name of the previous release, for checkouts installed with it.

The next release removes this file. `pip install -e .` registers `torchyard.doit_commands` instead.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "src"))

from torchyard.doit_commands import *  # noqa: F403
