"""The reference rasterizer, compared with closed forms, symmetries and its own gradients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.besides import CHECKS, beside, module

BLACK = np.zeros(3)
RANDOM = np.random.default_rng(3)


@pytest.fixture(scope="module")
def its() -> Iterator[SimpleNamespace]:
    with beside(CHECKS):
        yield SimpleNamespace(**{n: module(n) for n in ("projection", "splatting", "scene")})


def camera(its: SimpleNamespace, size: int = 33, **changed: Any) -> Any:
    """Return a camera at the origin, looking along z, 45 degrees to each side."""
    made = its.projection.Camera(size, size, (1.0, 1.0), np.eye(3), np.zeros(3))
    return replace(made, **changed)


def some(its: SimpleNamespace, *rows: tuple[Any, ...]) -> Any:
    """Return unrotated Gaussians of (mean, scales, opacity, colour)."""
    means, scales, opacities, colours = (
        np.array(column, float) for column in zip(*rows, strict=True)
    )
    still = np.tile([1.0, 0, 0, 0], (len(rows), 1))
    return its.projection.Gaussians(means, scales, still, opacities, colours)


def image(its: SimpleNamespace, scene: Any, background: Any = BLACK, **how: Any) -> Any:
    return its.splatting.image(how.pop("seen_from", camera(its)), scene, background, **how)


def test_isotropic_gaussian_on_axis_matches_closed_form(its: SimpleNamespace) -> None:
    scene = some(its, ((0, 0, 4), (0.5, 0.5, 0.5), 0.8, (1, 0.5, 0.25)))
    variance = (16.5 * 0.5 / 4) ** 2 + 0.3
    y, x = np.mgrid[:33, :33] - 16.0
    alpha = 0.8 * np.exp(-(x**2 + y**2) / (2 * variance))
    shown = np.where(alpha >= 1 / 255, alpha, 0)
    found = image(its, scene, np.array([0, 0, 1.0]), tiles=False).pixels
    assert found == pytest.approx(np.stack([shown, shown / 2, shown / 4 + 1 - shown]))


def test_symmetric_scene_renders_symmetrically(its: SimpleNamespace) -> None:
    scene = some(its, ((0, 0, 3), (0.4, 0.2, 0.3), 0.7, (1, 1, 1)))
    found = image(its, scene, tiles=False).pixels[0]
    assert found == pytest.approx(found[::-1])
    assert found == pytest.approx(found[:, ::-1])
    quarter = np.array([[np.cos(np.pi / 4), 0, 0, np.sin(np.pi / 4)]])
    turned = image(its, replace(scene, rotations=quarter), tiles=False).pixels[0]
    assert turned == pytest.approx(found.T)
    assert np.abs(turned - found).max() > 0.01


def test_common_rigid_motion_of_world_and_camera_changes_nothing(its: SimpleNamespace) -> None:
    scene, seen_from = its.scene.gaussians(np.random.default_rng(0)), its.scene.camera()
    axis = np.array([0.2, 0.9, -0.4, 0.1])
    turn = its.projection.turned(axis[None])[0]
    moved = replace(
        scene,
        means=scene.means @ turn.T + 5,
        rotations=np.array([product(axis, q) for q in scene.rotations]),
    )
    along = replace(seen_from, turn=seen_from.turn @ turn.T, position=turn @ seen_from.position + 5)
    first = image(its, scene, seen_from=seen_from)
    assert image(its, moved, seen_from=along).pixels == pytest.approx(first.pixels)


def product(a: Any, b: Any) -> Any:
    """Return the Hamilton product of two quaternions."""
    w = a[0] * b[0] - a[1:] @ b[1:]
    return np.array([w, *(a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:]))])


def test_input_order_does_not_matter_but_depth_does(its: SimpleNamespace) -> None:
    scene, seen_from = its.scene.gaussians(np.random.default_rng(0)), its.scene.camera()
    order = np.random.default_rng(1).permutation(len(scene.means))
    mixed = replace(scene, **{f.name: getattr(scene, f.name)[order] for f in fields(scene)})
    there = image(its, scene, seen_from=seen_from).pixels
    assert image(its, mixed, seen_from=seen_from).pixels == pytest.approx(there, abs=1e-14)
    red, blue = ((0, 0, 3), (0.5,) * 3, 0.9, (1, 0, 0)), ((0, 0, 4), (0.7,) * 3, 0.9, (0, 0, 1))
    assert np.argmax(image(its, some(its, blue, red)).pixels[:, 16, 16]) == 0


def test_opaque_gaussian_hides_those_behind_but_alpha_stays_below_one(
    its: SimpleNamespace,
) -> None:
    front = [((0, 0, 3 + i / 10), (2.0,) * 3, 1.0, (1, 0, 0)) for i in range(2)]
    behind = ((0, 0, 5), (3.0,) * 3, 1.0, (0, 0, 1))
    one = image(its, some(its, front[0]), np.array([0, 0, 1.0]))
    assert one.pixels[:, 16, 16] == pytest.approx([0.99, 0, 0.01])
    assert one.capped[16, 16]
    two = image(its, some(its, *front, behind), tiles=False)
    assert two.close[16, 16]  # 0.01 times 0.01 is the threshold itself
    scene = some(its, ((0, 0, 2.9), (2.0,) * 3, 0.5, (1, 0, 0)), *front, behind)
    hidden = image(its, scene, np.array([0, 0, 1.0]), tiles=False)
    assert hidden.drawn[:, 16, 16].tolist() == [True, True, False, False]
    assert hidden.pixels[2, 16, 16] == pytest.approx(0.005)  # only the background is visible


def test_tiling_changes_only_pixels_beyond_three_sigma(its: SimpleNamespace) -> None:
    scene, seen_from = its.scene.gaussians(np.random.default_rng(0)), its.scene.camera()
    culled, whole = (image(its, scene, seen_from=seen_from, tiles=on) for on in (True, False))
    by_tiles = (culled.drawn != whole.drawn).any(axis=0)
    assert 0 < by_tiles.sum() < 20
    assert culled.pixels[:, ~by_tiles] == pytest.approx(whole.pixels[:, ~by_tiles])
    found = its.projection.splats(seen_from, scene)
    y, x = np.mgrid[:38, :53]
    apart = np.stack([x, y], axis=-1) - found.centres[:, None, None]
    far = np.abs(apart).max(axis=-1) > found.radii[:, None, None] - 1
    assert far[culled.drawn != whole.drawn].all()
    faint = replace(scene, opacities=scene.opacities * 0.3)  # at 3 sigma: below 1 of 255
    first, second = (image(its, faint, seen_from=seen_from, tiles=on) for on in (True, False))
    assert np.array_equal(first.pixels, second.pixels)


def test_projection_jacobian_is_correct(its: SimpleNamespace) -> None:
    """The Jacobian matches finite differences of the perspective. The footprint of a far and small
    Gaussian matches the covariance of individually projected points.
    """
    projection, seen_from = its.projection, its.scene.camera()
    points = RANDOM.uniform(-1, 1, size=(9, 3)) + np.array([0, 0, 3])
    step = 1e-6 * np.eye(3)
    ahead = np.array([projection.centres(seen_from, points + one) for one in step])
    back = np.array([projection.centres(seen_from, points - one) for one in step])
    slopes = np.moveaxis((ahead - back) / 2e-6, 0, 2)
    assert projection.jacobians(seen_from, points) == pytest.approx(slopes, abs=1e-6)
    scene = some(its, ((0.9, -0.6, 4), (0.012, 0.004, 0.008), 0.5, (1, 1, 1)))
    scene = replace(scene, rotations=np.array([[0.8, 0.3, -0.4, 0.33]]))
    spread = RANDOM.normal(size=(200_000, 3)) * scene.scales
    cloud = spread @ projection.turned(scene.rotations)[0].T + scene.means
    there = projection.centres(seen_from, seen_from.seen(cloud))
    found = projection.footprints(seen_from, scene, seen_from.seen(scene.means))[0]
    assert found - 0.3 * np.eye(2) == pytest.approx(np.cov(there.T), rel=0.02)


def test_quaternion_rotation_follows_hamilton_convention(its: SimpleNamespace) -> None:
    for q in RANDOM.normal(size=(5, 4)):
        unit, v = q / np.linalg.norm(q), RANDOM.normal(size=3)
        turned = product(product(unit, np.array([0, *v])), unit * [1, -1, -1, -1])[1:]
        assert its.projection.turned(q[None])[0] @ v == pytest.approx(turned)


def test_spherical_harmonics_are_orthonormal_and_constant_one_is_a_colour(
    its: SimpleNamespace,
) -> None:
    ways = RANDOM.normal(size=(10_000, 3))
    seen_from = camera(its)
    basis = []
    for wave in range(4):
        coefficients = np.zeros((len(ways), 4, 3))
        coefficients[:, wave] = 0.5  # small enough that no colour falls below 0
        scene = its.projection.Gaussians(ways, ways, ways, ways, coefficients)
        basis.append((its.projection.shades(seen_from, scene)[:, 0] - 0.5) / 0.5)
    measured = 4 * np.pi * np.cov(np.array(basis[1:]))
    assert measured == pytest.approx(np.eye(3), abs=0.1)
    assert basis[0] == pytest.approx(np.full(len(ways), np.sqrt(1 / (4 * np.pi))))
    dark = replace(scene, colours=np.full((len(ways), 1, 3), -9.0))
    assert not its.projection.shades(seen_from, dark).any()


def test_gradients_match_known_derivatives(its: SimpleNamespace) -> None:
    """One Gaussian on the axis: at distance d from its centre, alpha = o exp(-d²/2v) with
    v = (fs/z)² + 0.3 in both directions.
    """
    scene = some(its, ((0, 0, 4), (0.5, 0.5, 0.5), 0.8, (1, 0.5, 0.25)))
    weights = np.zeros((3, 33, 33))
    weights[0, 16, 18] = 1  # two pixels to the right
    drawn = image(its, scene).drawn
    found = its.scene.slopes(camera(its), scene, drawn, weights)
    v = (16.5 * 0.5 / 4) ** 2 + 0.3
    over = 1 - its.scene.BACKGROUND[0]
    alpha = 0.8 * np.exp(-4 / (2 * v))
    assert found["opacities"] == pytest.approx([over * alpha / 0.8])
    assert found["colours"] == pytest.approx(np.array([[alpha, 0, 0]]))
    across = over * alpha * 2 / v * 16.5 / 4
    spread = over * alpha * 4 / (2 * v**2) * 2 * (16.5 / 4) ** 2 * 0.5
    assert found["means"][0] == pytest.approx([across, 0, -spread * 0.5 / 4], abs=1e-7)
    assert found["scales"][0] == pytest.approx([spread, 0, 0], abs=1e-7)
    assert found["rotations"][0] == pytest.approx(np.zeros(4), abs=1e-7)


def test_scene_has_required_cases_and_is_robust_to_rounding(its: SimpleNamespace) -> None:
    seen_from, scene = its.scene.camera(), its.scene.gaussians(np.random.default_rng(7))
    found = its.projection.splats(seen_from, scene)
    shown = image(its, scene, its.scene.BACKGROUND, seen_from=seen_from)
    in_front = np.isfinite(found.depths)
    assert in_front.tolist() == [True] * 11 + [False] * 2
    assert shown.drawn.any(axis=(1, 2)).tolist() == in_front.tolist()
    assert shown.capped.any()
    stack = shown.drawn[5:8].all(axis=0)
    hidden = its.splatting.in_tiles(seen_from, found)[8] & ~shown.drawn[8]
    strength = its.splatting.strengths(seen_from, found)
    assert (hidden & (strength[8] > 0.01)).any()  # the stack in front is opaque there
    assert stack.any()
    assert np.diff(np.sort(found.depths[in_front])).min() > 1e-2
    middles, radii = found.centres[in_front], found.radii[in_front, None]
    for edge in ((middles - radii) / 16, (middles + radii + 15) / 16):
        assert np.abs(edge - np.round(edge)).min() > 1e-3
    seen = seen_from.seen(scene.means[in_front])
    assert (np.abs(seen[:, :2] / seen[:, 2:]) < 1.3 * np.array(seen_from.half)).all()


def test_few_pixels_are_excluded_and_every_gaussian_has_gradients(
    its: SimpleNamespace,
) -> None:
    case = next(its.scene.cases())
    assert case.left_out.mean() < 0.01
    assert not case.weights[:, case.left_out | case.expected.capped].any()
    for name, slope in case.slopes.items():
        rows = np.abs(slope.reshape(len(slope), -1)).max(axis=1)
        assert (rows[1:11] > 1e-4).all(), name
        assert not rows[11:].any(), name


def test_gradient_along_quaternion_length_is_removed(its: SimpleNamespace) -> None:
    quaternions = RANDOM.normal(size=(4, 4))
    quaternions /= np.linalg.norm(quaternions, axis=1, keepdims=True)
    slope = RANDOM.normal(size=(4, 4))
    found = its.scene.across(quaternions, slope + 3 * quaternions)
    assert found == pytest.approx(its.scene.across(quaternions, slope))
    assert (found * quaternions).sum(axis=1) == pytest.approx(np.zeros(4))
