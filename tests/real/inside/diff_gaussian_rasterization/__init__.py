"""Stands in for diff-gaussian-rasterization, on the CPU, in float32 and with autograd.

TORCHYARD_VARIANT is `first` (two results, no antialiasing), `newest` (three) or `pose`;
TORCHYARD_FAULT names what it should do wrongly.
"""

import os
from typing import Any, NamedTuple

import torch

FAULT = os.environ.get("TORCHYARD_FAULT", "")
VARIANT = os.environ.get("TORCHYARD_VARIANT", "newest")
FIELDS = {
    "image_height": int, "image_width": int, "tanfovx": float, "tanfovy": float, "bg": Any,
    "scale_modifier": float, "viewmatrix": Any, "projmatrix": Any, "sh_degree": int, "campos": Any,
    "prefiltered": bool, "debug": bool,
}  # fmt: skip
MORE = {"first": {}, "newest": {"antialiasing": bool}, "pose": {"projmatrix_raw": Any}}
MORE["strange"] = {"kernel_size": float}
GaussianRasterizationSettings = NamedTuple(
    "GaussianRasterizationSettings", [*FIELDS.items(), *MORE[VARIANT].items()]
)
C0, C1 = 0.28209479177387814, 0.4886025119029199


class GaussianRasterizer(torch.nn.Module):
    def __init__(self, raster_settings):
        super().__init__()
        self.given = raster_settings

    def forward(
        self, means3D, means2D, opacities, shs=None, colors_precomp=None, scales=None,
        rotations=None, cov3D_precomp=None,
    ):  # fmt: skip
        seen = means3D @ self.given.viewmatrix[:3, :3] + self.given.viewmatrix[3, :3]
        front = seen[:, 2] > 0.2
        kept = torch.nonzero(front)[:, 0]
        colours = colors_precomp if shs is None else self.shaded(means3D, shs)
        order = kept if FAULT == "order" else kept[seen[kept, 2].argsort()]
        shape = self.footprints(seen[order], scales[order], rotations[order])
        image = self.blended(
            self.places(means3D[order]), shape, opacities[order, 0], colours[order]
        )
        radii = front.int() * 9
        return {"first": (image, radii), "pose": (image, radii, image, image, radii)}.get(
            VARIANT, (image, radii, image[:1])
        )

    def shaded(self, means, shs):
        away = torch.nn.functional.normalize(means - self.given.campos, dim=1)
        x, y, z = away[:, :, None].unbind(dim=1)
        colour = C0 * shs[:, 0] + 0.5
        if self.given.sh_degree:
            colour = colour - C1 * y * shs[:, 1] + C1 * z * shs[:, 2] - C1 * x * shs[:, 3]
        return colour.clamp_min(0)

    def places(self, means):
        ones = torch.ones(len(means), 1)
        at = torch.cat([means, ones], dim=1) @ self.given.projmatrix
        size = torch.tensor([self.given.image_width, self.given.image_height])
        return ((at[:, :2] / (at[:, 3:] + 1e-7) + 1) * size - 1) / 2

    def footprints(self, seen, scales, rotations):
        """The inverse of each footprint's covariance. No quaternion is normed."""
        given = self.given
        fx = given.image_width / (2 * given.tanfovx)
        fy = given.image_height / (2 * given.tanfovy)
        x, y, z = seen.unbind(dim=1)
        none = torch.zeros_like(z)
        slope = torch.stack([fx / z, none, -fx * x / z**2, none, fy / z, -fy * y / z**2], dim=1)
        onto = slope.reshape(-1, 2, 3) @ given.viewmatrix[:3, :3].T
        if FAULT == "gradient":  # of the footprint by the place
            onto = onto.detach()
        stretched = onto @ (turned(rotations) * scales[:, None])
        low = 0.0 if FAULT == "low pass" else 0.3
        return torch.linalg.inv(stretched @ stretched.transpose(1, 2) + low * torch.eye(2))

    def blended(self, places, shapes, opacities, colours):
        given = self.given
        y, x = torch.meshgrid(
            torch.arange(given.image_height), torch.arange(given.image_width), indexing="ij"
        )
        pixels = torch.stack([x, y], dim=-1).float()
        image, shining = torch.zeros(3, *x.shape), torch.ones(x.shape)
        more = torch.ones(x.shape, dtype=torch.bool)
        for place, shape, opacity, colour in zip(places, shapes, opacities, colours):  # noqa: B905
            apart = pixels - place
            power = ((apart @ shape) * apart).sum(dim=-1) / 2
            alpha = (opacity * torch.exp(-power)).clamp_max(0.99)
            counts = more & (alpha >= (0 if FAULT == "faint" else 1 / 255))
            left = shining * (1 - alpha)
            more = more & ~(counts & (left < 1e-4))
            counts = counts & more
            image = image + torch.where(counts, alpha * shining, 0.0) * colour[:, None, None]
            shining = torch.where(counts, left, shining)
        return image + shining * given.bg[:, None, None]


def turned(quaternions):
    w, x, y, z = quaternions.unbind(dim=1)
    rows = [
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip
    return torch.stack(rows, dim=1).reshape(-1, 3, 3)
