"""Compares diff_gaussian_rasterization with splatting in float64: the image and its gradients.

The last line tells; exit 0 or 1. The known variants differ in what their settings hold and in what
follows the image; one that needs more is named as unknown.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from diff_gaussian_rasterization import GaussianRasterizationSettings, GaussianRasterizer
from projection import Camera, Floats  # in the folder of this script
from scene import BACKGROUND, Case, across, cases
from splatting import splats

IMAGE = 1e-4  # a step of 8 bits is 39 times as much
GRADIENT = 1e-3  # of a Gaussian's largest, and a hundredth of that of the field's
FAR, NEAR = 100.0, 0.01


class UnknownVariantError(Exception):
    """Settings that this script does not know."""


def tensor(array: Floats, device: str) -> torch.Tensor:
    """By way of a list: a torch may have been built without NumPy."""
    return torch.tensor(array.tolist(), dtype=torch.float32, device=device)


def array(tensor: torch.Tensor | None) -> Floats:
    """What is not there at all is NaN."""
    found = np.nan if tensor is None else tensor.detach().cpu().tolist()
    return np.array(found, dtype=np.float64)


def matrices(camera: Camera) -> tuple[Floats, Floats]:
    """World to camera, and the perspective; both act on rows, as the rasterizer wants them."""
    view, perspective = np.eye(4), np.zeros((4, 4))
    view[:3, :3], view[:3, 3] = camera.turn, -camera.turn @ camera.position
    perspective[0, 0], perspective[1, 1] = 1 / np.array(camera.half)
    perspective[2, 2:] = FAR / (FAR - NEAR), -FAR * NEAR / (FAR - NEAR)
    perspective[3, 2] = 1
    return view.T, perspective.T


def settings(case: Case, device: str) -> GaussianRasterizationSettings:
    """What this variant's settings ask for, of all that is known."""
    camera = case.camera
    view, perspective = matrices(camera)
    known = {
        "image_height": camera.height,
        "image_width": camera.width,
        "tanfovx": camera.half[0],
        "tanfovy": camera.half[1],
        "bg": tensor(BACKGROUND, device),
        "scale_modifier": 1.0,
        "viewmatrix": tensor(view, device),
        "projmatrix": tensor(view @ perspective, device),
        "projmatrix_raw": tensor(perspective, device),
        "sh_degree": 1 if case.scene.colours.shape[1:] == (4, 3) else 0,
        "campos": tensor(camera.position, device),
        "prefiltered": False,
        "debug": False,
        "antialiasing": False,
    }
    fields = GaussianRasterizationSettings
    if unknown := set(fields._fields) - set(known) - set(fields._field_defaults):
        raise UnknownVariantError(f"GaussianRasterizationSettings asks for {sorted(unknown)}")
    return fields(**{name: known[name] for name in fields._fields if name in known})


def drawn(case: Case, device: str) -> tuple[Floats, dict[str, Floats], torch.Tensor | None]:
    """The image, its gradients by the field of `Gaussians`, and the radii if there are any."""
    given = {
        name: tensor(getattr(case.scene, name), device).requires_grad_() for name in case.slopes
    }
    colours = "colors_precomp" if given["colours"].ndim == 2 else "shs"
    out = GaussianRasterizer(raster_settings=settings(case, device))(
        means3D=given["means"],
        means2D=torch.zeros_like(given["means"], requires_grad=True),
        opacities=given["opacities"][:, None],
        scales=given["scales"],
        rotations=given["rotations"],
        **{colours: given["colours"]},
    )
    image, *others = out if isinstance(out, (tuple, list)) else (out,)
    (image * tensor(case.weights, device)).sum().backward()
    gradients = {name: array(leaf.grad) for name, leaf in given.items()}
    return array(image), gradients, others[0] if others else None


def compared(case: Case, device: str) -> dict[str, float]:
    """What each error is as a share of what is allowed. What is seen at all is right or is not."""
    image, gradients, radii = drawn(case, device)
    off = np.abs(image - case.expected.pixels)[:, ~case.left_out]
    wanted = dict(case.slopes)
    for slopes in (wanted, gradients):
        slopes["rotations"] = across(case.scene.rotations, slopes["rotations"])
    shares = {"the image": float(off.max()) / IMAGE}
    if radii is not None and radii.ndim == 1:
        seen = (splats(case.camera, case.scene).radii > 0).tolist()
        shares["what is seen"] = 0.0 if (radii > 0).tolist() == seen else np.inf
    return shares | {
        f"the gradient of {name}": worst(gradients[name], wanted[name]) for name in wanted
    }


def worst(found: Floats, wanted: Floats) -> float:
    """The largest error as a share of what is allowed; NaN where there is one."""
    rows = (len(wanted), -1)
    size = np.abs(wanted.reshape(rows)).max(axis=1, keepdims=True)
    allowed = GRADIENT * (size + size.max() / 100)
    return float((np.abs(found - wanted).reshape(rows) / allowed).max())


def main(device: str) -> int:
    """NaN is wrong, too."""
    drawings = tuple(cases())
    found = {
        f"{what} with {case.name}": share
        for case in drawings
        for what, share in compared(case, device).items()
    }
    wrong = [f"{what} ({share:.2g} times)" for what, share in found.items() if not share <= 1]
    if wrong:
        some = f"{', '.join(wrong[:3])}{' …' * (len(wrong) > 3)}"
        print(f"{len(wrong)} of {len(found)} are WRONG beyond what is allowed: {some}")
        return 1
    pixels, out = drawings[0].left_out.size, max(int(case.left_out.sum()) for case in drawings)
    print(
        f"{len(drawings)} images of {pixels} pixels and their gradients on {device}: "
        f"{max(found.values()):.2g} of what is allowed ({IMAGE:g}, {GRADIENT:g} of a slope); "
        f"{out} pixels at a threshold left out: right"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:] or ["cuda"]))
