"""What a camera sees of 3D Gaussians, in NumPy and float64: slow and plain, to compare with.

Written from Kerbl et al., "3D Gaussian Splatting for Real-Time Radiance Field Rendering" (2023),
sections 4 and 6, and Zwicker et al., "EWA Splatting" (2002). A camera looks along +z, with x to the
right and y down. There are N Gaussians.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LOW_PASS = 0.3  # pixels², added to each footprint
NEAR = 0.2  # what is nearer is left out
C0, C1 = np.sqrt(1 / np.pi) / 2, np.sqrt(3 / np.pi) / 2  # spherical harmonics of degree 0 and 1


@dataclass(frozen=True)
class Camera:
    """`half` are the tangents of half the field of view in x and y; `turn` takes the world's axes
    to the camera's, which stands at `position`.
    """

    width: int
    height: int
    half: tuple[float, float]
    turn: Floats
    position: Floats

    @property
    def focal(self) -> Floats:
        """In pixels, (2,)."""
        focal: Floats = np.array([self.width, self.height]) / (2 * np.array(self.half))
        return focal

    def seen(self, points: Floats) -> Floats:
        """(N, 3) in the world → (N, 3) from the camera."""
        seen: Floats = (points - self.position) @ self.turn.T
        return seen


@dataclass(frozen=True)
class Gaussians:
    """`rotations` are quaternions (w, x, y, z) of any length. `colours` are (N, 3) as they are, or
    (N, 1 or 4, 3) coefficients of spherical harmonics.
    """

    means: Floats
    scales: Floats
    rotations: Floats
    opacities: Floats
    colours: Floats


@dataclass(frozen=True)
class Splats:
    """What is seen of each Gaussian: `centres` in pixels, `shapes` the inverse of each footprint's
    covariance, `radii` how far it is drawn, 0 for what is not.
    """

    depths: Floats
    centres: Floats
    shapes: Floats
    radii: Floats
    opacities: Floats
    colours: Floats


def turned(quaternions: Floats) -> Floats:
    """(N, 4) → (N, 3, 3)."""
    w, x, y, z = (quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True)).T
    rows = [
        [w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z],
    ]
    return np.moveaxis(np.array(rows), 2, 0)


def covariances(scene: Gaussians) -> Floats:
    """R S S R', (N, 3, 3): equation 6 of Kerbl et al."""
    stretched = turned(scene.rotations) * scene.scales[:, None, :]
    return stretched @ np.swapaxes(stretched, 1, 2)


def centres(camera: Camera, seen: Floats) -> Floats:
    """Where points are in the image, (N, 2); the middle of the first pixel is (0, 0)."""
    return (
        camera.focal * seen[:, :2] / seen[:, 2:] + (np.array([camera.width, camera.height]) - 1) / 2
    )


def jacobians(camera: Camera, seen: Floats) -> Floats:
    """How `centres` moves with a point, (N, 2, 3): equation 29 of Zwicker et al."""
    fx, fy = camera.focal
    x, y, z = seen.T
    zero = np.zeros_like(z)
    rows = [[fx / z, zero, -fx * x / z**2], [zero, fy / z, -fy * y / z**2]]
    return np.moveaxis(np.array(rows), 2, 0)


def footprints(camera: Camera, scene: Gaussians, seen: Floats) -> Floats:
    """The covariance in the image, (N, 2, 2): equation 31 of Zwicker et al., and the low pass."""
    onto = jacobians(camera, seen) @ camera.turn
    spread: Floats = onto @ covariances(scene) @ np.swapaxes(onto, 1, 2)
    return spread + LOW_PASS * np.eye(2)


def reach(footprint: Floats) -> Floats:
    """Three standard deviations of the longer axis, in whole pixels, (N,). The published
    implementation takes the two eigenvalues to be at least 2 sqrt(0.1) apart.
    """
    middle = np.trace(footprint, axis1=1, axis2=2) / 2
    apart = np.sqrt(np.maximum(0.1, middle**2 - np.linalg.det(footprint)))
    far: Floats = np.ceil(3 * np.sqrt(middle + apart))
    return far


def shades(camera: Camera, scene: Gaussians) -> Floats:
    """The colour in which the camera sees each, (N, 3)."""
    if scene.colours.ndim == 2:
        return scene.colours
    away = scene.means - camera.position
    x, y, z = (away / np.linalg.norm(away, axis=1, keepdims=True)).T[:, :, None]
    waves = [np.full_like(x, C0), -C1 * y, C1 * z, -C1 * x]
    used = np.array(waves[: scene.colours.shape[1]])[..., 0]
    shaded: Floats = 0.5 + np.einsum("wn,nwc->nc", used, scene.colours)
    return np.maximum(0.0, shaded)


def splats(camera: Camera, scene: Gaussians) -> Splats:
    """Every Gaussian in front of the camera, as it is drawn."""
    seen = camera.seen(scene.means)
    front = seen[:, 2] > NEAR
    seen = np.where(front[:, None], seen, [0.0, 0.0, 1.0])
    footprint = footprints(camera, scene, seen)
    return Splats(
        depths=np.where(front, seen[:, 2], np.inf),
        centres=centres(camera, seen),
        shapes=np.asarray(np.linalg.inv(footprint), dtype=np.float64),
        radii=np.where(front, reach(footprint), 0),
        opacities=scene.opacities,
        colours=shades(camera, scene),
    )
