"""What moved in torch's surface since an extension was built for it, in words."""

from __future__ import annotations

from tasks.core.errors import TorchyardError
from tasks.stages import abi_fingerprint_store_io
from tasks.stages.extensions.abi_differences import find_abi_differences
from tasks.stages.extensions.model import BuiltExtension, ExtensionJob
from tasks.stages.wheel.model import AbiFingerprint
from tasks.system import manifests
from tasks.wheels import exported_symbols_io

_SYMBOL_WIDTH = 80  # of a symbol with its parameters


def list_changes(job: ExtensionJob) -> tuple[str, ...]:
    """A line for each kind of thing that moved; none where that is not known any more."""
    try:
        built, now = (
            manifests.read_manifest(job.manifest, BuiltExtension),
            manifests.read_manifest(job.abi_manifest, AbiFingerprint),
        )
    except TorchyardError:
        return ()
    if built.surface == now.name:
        return ("the environment was made anew",)
    before, after = (
        abi_fingerprint_store_io.read_stored_parts(job.abi_folder, name)
        for name in (built.surface, now.name)
    )
    return tuple(find_abi_differences(before, after, _format_symbol)) if before and after else ()


def _format_symbol(symbol: str) -> str:
    """`c10::detail::torchCheckFail(…)`; a short one with its parameters."""
    whole, short = exported_symbols_io.demangle_symbol(symbol)
    return whole if len(whole) <= _SYMBOL_WIDTH or whole == short else f"{short}(…)"
