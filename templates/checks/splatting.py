"""Splats blended into an image, in NumPy and float64: what a rasterizer is held against.

Written from Kerbl et al., "3D Gaussian Splatting for Real-Time Radiance Field Rendering" (2023),
section 6 and appendix C. The image is 3 x H x W.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from projection import Camera, Floats, Gaussians, Splats, splats  # beside this module

Bools = NDArray[np.bool_]

MOST, LEAST = 0.99, 1 / 255  # opacity of a splat at a pixel: more is cut, less is left out
OPAQUE = 1e-4  # where less than this would shine through, nothing more is drawn
SLACK = 1e-3  # relative: far more than float32 errs by
TILE = 16  # pixels


@dataclass(frozen=True)
class Image:
    """`drawn` (N, H, W) is which splat counted at which pixel. `close` (H, W) are the pixels where
    a threshold was met or missed by so little that float32 may do otherwise, `capped` those with
    an opacity that was cut.
    """

    pixels: Floats
    drawn: Bools
    close: Bools
    capped: Bools


def image(
    camera: Camera,
    scene: Gaussians,
    background: Floats,
    *,
    tiles: bool = True,
    drawn: Bools | None = None,
) -> Image:
    """The scene as it is seen. Without `tiles` a splat reaches every pixel.

    `drawn` are decisions that were taken before, in place of this scene's own: the image is then
    smooth in everything, which differences need.
    """
    found = splats(camera, scene)
    strength = strengths(camera, found)
    alpha = np.minimum(MOST, strength)
    order = np.argsort(found.depths, kind="stable")
    close = np.zeros(alpha.shape[1:], dtype=bool)
    if drawn is None:
        reached = in_tiles(camera, found) if tiles else True
        drawn, close = decided(np.where(reached, strength, 0.0), order)
    pixels = blended(np.where(drawn, alpha, 0.0)[order], found.colours[order], background)
    return Image(pixels, drawn, close, np.any(drawn & (strength > MOST * (1 - SLACK)), axis=0))


def blended(alpha: Floats, colours: Floats, background: Floats) -> Floats:
    """Front to back, (N, H, W) and (N, 3) → (3, H, W): equation 3."""
    shining = np.cumprod(np.concatenate([np.ones((1, *alpha.shape[1:])), 1 - alpha]), axis=0)
    drawn: Floats = np.tensordot(colours.T, alpha * shining[:-1], axes=1)
    through: Floats = background[:, None, None] * shining[-1]
    return drawn + through


def decided(strength: Floats, order: NDArray[np.intp]) -> tuple[Bools, Bools]:
    """Which splat is drawn at which pixel, and where that was close."""
    drawn, close = np.zeros(strength.shape, bool), np.zeros(strength.shape[1:], bool)
    shining, more = np.ones(close.shape), np.ones(close.shape, bool)
    for one in order:
        left = shining * (1 - np.minimum(MOST, strength[one]))
        counts = more & (strength[one] >= LEAST)
        close |= more & near(strength[one], LEAST) | counts & near(left, OPAQUE)
        drawn[one] = counts & (left >= OPAQUE)
        more &= ~counts | drawn[one]
        shining = np.where(drawn[one], left, shining)
    return drawn, close


def near(value: Floats, threshold: float) -> Bools:
    return np.abs(value / threshold - 1) < SLACK


def strengths(camera: Camera, found: Splats) -> Floats:
    """The opacity of each at the middle of each pixel, (N, H, W): equation 4."""
    y, x = np.mgrid[: camera.height, : camera.width].astype(np.float64)
    dx, dy = x - found.centres[:, 0, None, None], y - found.centres[:, 1, None, None]
    xx, xy, yy = (found.shapes[:, i, j, None, None] for i, j in ((0, 0), (0, 1), (1, 1)))
    power = xx * dx * dx + 2 * xy * dx * dy + yy * dy * dy
    strength: Floats = found.opacities[:, None, None] * np.exp(-power / 2)
    return np.where(found.radii[:, None, None] > 0, strength, 0.0)


def in_tiles(camera: Camera, found: Splats) -> Bools:
    """Whether a pixel is in a tile that the square around a splat touches, (N, H, W).

    A tile that the square overlaps by less than a pixel does not count.
    """
    low = np.trunc((found.centres - found.radii[:, None]) / TILE)[:, :, None, None]
    high = np.trunc((found.centres + found.radii[:, None] + TILE - 1) / TILE)[:, :, None, None]
    y, x = np.mgrid[: camera.height, : camera.width] // TILE
    across = (x >= low[:, 0]) & (x < high[:, 0])
    touched: Bools = across & (y >= low[:, 1]) & (y < high[:, 1])
    return touched & (found.radii > 0)[:, None, None]
