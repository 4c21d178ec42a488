"""The scene that a rasterizer has to draw, and what its image and its gradients should be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np
from projection import Camera, Floats, Gaussians  # beside this module
from splatting import Bools, Image, image

BACKGROUND = np.array([0.2, 0.5, 0.9])
STEP = 1e-5

# From the camera: x, y, z; scales; opacity. Some overlap in depth.
ROWS = (
    ((0.02, 0.01, 3.0), (0.25, 0.25, 0.25), 0.6),
    ((0.3, -0.1, 3.6), (0.5, 0.15, 0.3), 0.85),
    ((-0.9, 0.5, 4.0), (0.2, 0.6, 0.1), 0.3),
    ((0.2246, 0.0297, 2.4), (0.08, 0.08, 0.05), 0.999),  # cut to 0.99 in its middle
    ((1.5, 0.8, 5.0), (0.7, 0.3, 0.35), 0.7),  # off the axis
    ((-0.6, -0.45, 3.1), (0.35, 0.3, 0.3), 0.97),  # three that let nothing through
    ((-0.62, -0.4, 3.3), (0.3, 0.4, 0.3), 0.95),
    ((-0.55, -0.5, 3.7), (0.4, 0.4, 0.35), 0.96),
    ((-0.5, -0.5, 4.5), (0.9, 0.5, 0.5), 0.8),  # behind them
    ((-2.0, 1.2, 3.4), (0.3, 0.5, 0.4), 0.9),  # partly outside
    ((0.9, -0.9, 4.2), (0.004, 0.003, 0.002), 0.9),  # smaller than a pixel
    ((0.1, 0.1, -2.0), (0.5, 0.5, 0.5), 0.9),  # behind the camera
    ((0.01, 0.02, 0.15), (0.05, 0.05, 0.05), 0.9),  # too near
)


@dataclass(frozen=True)
class Case:
    """What is drawn and what should come of it. `weights` (3, H, W) make the image a number to
    differentiate, and are 0 where `left_out`; `slopes` are its gradients by field.
    """

    name: str
    camera: Camera
    scene: Gaussians
    expected: Image
    left_out: Bools
    weights: Floats
    slopes: dict[str, Floats]


def cases() -> Iterator[Case]:
    """Colours as they are, and spherical harmonics of degree 0 and 1."""
    random = np.random.default_rng(7)
    seen_from, plain = camera(), gaussians(random)
    yield case("colours", seen_from, plain, random)
    for degree in (0, 1):
        waves = random.uniform(-0.6, 0.6, size=(len(ROWS), (degree + 1) ** 2, 3))
        waves[:, 0] += 0.9
        waves[2, 0, 1] = -3.0  # a colour below 0 is drawn as 0
        yield case(
            f"harmonics of degree {degree}", seen_from, replace(plain, colours=waves), random
        )


def camera() -> Camera:
    """Turned, moved, with sides that are no multiple of a tile's and two focal lengths."""
    about = np.array([0.3, -0.8, 0.52])
    x, y, z = about / np.linalg.norm(about)
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    turn = np.eye(3) + np.sin(0.4) * cross + (1 - np.cos(0.4)) * cross @ cross  # Rodrigues
    return Camera(53, 38, (0.62, 0.47), turn, np.array([0.4, -0.3, -0.5]))


def gaussians(random: np.random.Generator) -> Gaussians:
    """Turned at random, in random colours. The numbers are ones that float32 holds."""
    place, scales, opacities = (np.array(column) for column in zip(*ROWS, strict=True))
    seen_from = camera()
    quaternions = random.normal(size=(len(ROWS), 4))
    given = (
        place @ seen_from.turn + seen_from.position,
        scales,
        quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True),
        opacities,
        random.uniform(0.05, 1, size=(len(ROWS), 3)),
    )
    return Gaussians(*(array.astype(np.float32).astype(np.float64) for array in given))


def case(name: str, seen_from: Camera, scene: Gaussians, random: np.random.Generator) -> Case:
    """Pixels that hang on a threshold are left out, and those that hang on the tiles alone: newer
    rasterizers cull tighter than the published one.
    """
    expected = image(seen_from, scene, BACKGROUND)
    anywhere = image(seen_from, scene, BACKGROUND, tiles=False)
    by_tiles = np.any(expected.drawn != anywhere.drawn, axis=0)
    left_out = expected.close | anywhere.close | by_tiles
    weights = random.normal(size=expected.pixels.shape)
    weights[:, left_out | expected.capped] = 0
    return Case(
        name, seen_from, scene, expected, left_out, weights,
        slopes(seen_from, scene, expected.drawn, weights),
    )  # fmt: skip


def slopes(seen_from: Camera, scene: Gaussians, drawn: Bools, weights: Floats) -> dict[str, Floats]:
    """Central differences of the weighted image in each number of each field, with what is drawn
    held as it is. They err by some 1e-9.
    """
    return {
        field.name: _slope(seen_from, scene, field.name, drawn, weights) for field in fields(scene)
    }


def _slope(seen_from: Camera, scene: Gaussians, name: str, drawn: Bools, weights: Floats) -> Floats:
    given: Floats = getattr(scene, name)
    slope = np.zeros_like(given)
    for at in np.ndindex(given.shape):
        ends = []
        for step in (STEP, -STEP):
            moved = given.copy()
            moved[at] += step
            made = image(seen_from, replace(scene, **{name: moved}), BACKGROUND, drawn=drawn)
            ends.append(float((made.pixels * weights).sum()))
        slope[at] = (ends[0] - ends[1]) / (2 * STEP)
    return slope


def across(quaternions: Floats, slope: Floats) -> Floats:
    """The part of a gradient that turns: what changes a quaternion's length alone is taken out,
    since rasterizers differ in whether they norm it. (N, 4), quaternions of length 1.
    """
    along: Floats = (quaternions * slope).sum(axis=1, keepdims=True)
    return slope - along * quaternions
