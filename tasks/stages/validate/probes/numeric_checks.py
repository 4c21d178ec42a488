"""Compare a GPU's arithmetic with float64 on the CPU, within bounds. Part of torch_probe."""

import contextlib

# these modules are in the folder of this script
from verdicts import WRONG_HINT, WrongResultError, compute_error_share, format_error_share


@contextlib.contextmanager
def use_float32_sums(tf32=False):
    """Disable TF32 (unless `tf32` is set) and 16-bit partial sums until the context ends.

    Then all settings are restored, because torch.compile fails with those that torch 2.9 added.
    """
    import torch

    switches = list_switches(torch, tf32)
    old_values = [getattr(owner, name) for owner, name, _ in switches]
    for owner, name, value in switches:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for (owner, name, _), value in zip(switches, old_values):  # noqa: B905 (Python 3.9)
            setattr(owner, name, value)


def list_switches(torch, tf32):
    """Return the object, attribute name and new value of each precision setting.

    The settings that torch 2.9 added cannot be mixed with the older settings.
    """
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    switches = [
        (matmul, f"allow_{kind}_reduced_precision_reduction", False) for kind in ("fp16", "bf16")
    ]
    if hasattr(torch.backends, "fp32_precision"):
        word = "tf32" if tf32 else "ieee"
        return [(matmul, "fp32_precision", word), (cudnn.conv, "fp32_precision", word), *switches]
    return [(matmul, "allow_tf32", tf32), (cudnn, "allow_tf32", tf32), *switches]


def check_matmul(where):
    """Check matrix products against float64 products on the CPU, element by element.

    The bound 2 k u |A||B|, u = 2^-24, is twice that of a float32 sum of k products (Higham 2002,
    section 3.5), because tensor cores truncate. One rounding of the result is added.
    """
    import torch

    torch.manual_seed(0)
    dtypes = [torch.float32, *([torch.float16, torch.bfloat16] if where.type != "cpu" else [])]
    with use_float32_sums():
        shares = ", ".join(compare_matmul(torch, where, dtype) for dtype in dtypes)
    bound = "2 k 2^-24 |A||B| + one rounding of the result"
    return f"error {shares} of the tolerance on {where.type} ({bound}){check_tf32(torch, where)}"


def compare_matmul(torch, where, dtype):
    k = 512
    a, b = torch.randn(257, k).to(dtype), torch.randn(k, 255).to(dtype)
    reference = a.double() @ b.double()
    product = (a.to(where) @ b.to(where)).cpu()
    unit = torch.finfo(dtype).eps / 2
    bound = 2 * k * 2.0**-24 * (a.double().abs() @ b.double().abs()) + unit * reference.abs()
    return format_error_share(str(dtype).rpartition(".")[2], product, reference, bound)


def check_tf32(torch, where):
    """Check a TF32 matrix product against float64, on a GPU of compute capability 8.0 or later."""
    if where.type == "cpu":
        return ""
    major, minor = torch.cuda.get_device_capability(where)
    if major < 8:
        return f"; TF32 was not checked: it needs capability 8.0, but this GPU has {major}.{minor}"
    with use_float32_sums(tf32=True):
        share = compare_tf32(torch, lambda a, b: (a.to(where) @ b.to(where)).cpu())
    return f"; {share} of the tolerance (4 2^-11 |A||B| more)"


def compare_tf32(torch, multiply):
    """Return the error of a TF32 product as a share of the error bound.

    The inputs are rounded or truncated to 11 bits, with an error of up to 2^-10 each. A product of
    1 + 2^-12, which TF32 cannot represent, shows whether TF32 was used.
    """
    k = 512
    a, b = torch.randn(257, k), torch.randn(k, 255)
    bound = (4 * 2.0**-11 + 2 * k * 2.0**-24) * (a.double().abs() @ b.double().abs())
    share = format_error_share("TF32", multiply(a, b), a.double() @ b.double(), bound)
    near_ones, ones = torch.full((k, k), 1 + 2.0**-12), torch.ones(k, k)
    is_used = bool((multiply(near_ones, ones) != k * (1 + 2.0**-12)).any())
    return share if is_used else f"{share} (TF32 was allowed but not used)"


def check_convolution(where):
    """Check a convolution against the same convolution in float64 on the CPU.

    The error bound is 16 k 2^-24 |x||w| for sums of k products. The factor 16 covers cuDNN's
    Winograd and FFT algorithms.
    """
    import torch

    torch.manual_seed(0)
    x, w = torch.randn(4, 16, 33, 35), torch.randn(32, 16, 3, 3)
    conv = torch.nn.functional.conv2d
    reference = conv(x.double(), w.double(), padding=1)
    bound = 16 * 144 * 2.0**-24 * conv(x.double().abs(), w.double().abs(), padding=1)
    with use_float32_sums():
        result = conv(x.to(where), w.to(where), padding=1).cpu()
    library = f"cuDNN {torch.backends.cudnn.version()}" if where.type == "cuda" else "cpu"
    share = format_error_share("float32", result, reference, bound)
    return f"error {share} of the tolerance on {library} (16 k 2^-24 |x||w|)"


FLOAT32_UNIT = 2.0**-24


def check_autograd(where):
    """Compare the gradients of a small net, tanh(x V) W, with gradients computed in float64."""
    import torch

    torch.manual_seed(0)
    x, target = torch.randn(61, 33), torch.randn(61, 17)
    weights = torch.randn(33, 47) / 6, torch.randn(47, 17) / 7
    inputs = x, target, *weights
    exact = [t.double() for t in inputs]
    references, bounds = compute_gradients(torch, *exact), compute_gradient_bounds(torch, *exact)
    with use_float32_sums():
        gradients = compute_gradients(torch, *(t.to(where) for t in inputs))
    shares = [
        format_error_share(name, gradient.cpu(), reference, bound)
        for name, gradient, reference, bound in zip("VW", gradients, references, bounds)  # noqa: B905 (Python 3.9)
    ]
    bound = f"of the tolerance on {where.type} (each step's rounding, to first order, twice)"
    return f"gradients of tanh(x V) W: error {', '.join(shares)} {bound}"


def compute_gradients(torch, x, target, v, w):
    """Return the gradients of both weights by autograd, on the device of the inputs."""
    v, w = v.clone().requires_grad_(), w.clone().requires_grad_()
    loss = ((torch.tanh(x @ v) @ w - target) ** 2).sum() / 2
    return torch.autograd.grad(loss, (v, w))


def compute_gradient_bounds(torch, x, target, v, w):
    """Return the bounds of the float32 rounding errors of both gradients.

    The first-order errors of all steps are added (Higham 2002, sections 3.1 and 3.5), and doubled
    to cover higher orders. A sum of k products has the error 2 k u |A||B|; tanh adds 4 u.
    """
    h = torch.tanh(x @ v)
    r = h @ w - target
    back = r @ w.t()
    dh = compute_product_error(x, v) + 4 * FLOAT32_UNIT
    dr = dh @ w.abs() + compute_product_error(h, w) + FLOAT32_UNIT * r.abs()
    dback = dr @ w.t().abs() + compute_product_error(r, w.t())
    slope = 1 - h * h
    dslope = 2 * h.abs() * dh + 3 * FLOAT32_UNIT
    inner, dinner = back * slope, dback * slope + back.abs() * (dslope + FLOAT32_UNIT)
    dv = x.t().abs() @ dinner + compute_product_error(x.t(), inner)
    dw = dh.t() @ r.abs() + h.t().abs() @ dr + compute_product_error(h.t(), r)
    return 2 * dv, 2 * dw


def compute_product_error(a, b):
    """Return the error bound 2 k u |a||b| of the product a @ b for exact inputs."""
    return 2 * a.shape[1] * FLOAT32_UNIT * (a.abs() @ b.abs())


def check_reduction(where):
    """Check sums, means and maxima of tensor views, and report the largest error."""
    import torch

    torch.manual_seed(0)
    # no size is a multiple of the warp size; one view has an offset
    line, matrix = torch.randn(1_000_003).to(where), torch.randn(257, 1023).to(where)
    views = (
        ("vector", line, (0,)),
        ("strided vector", line[1::3], (0,)),
        ("matrix", matrix, (0, 1, (0, 1))),
        ("transposed matrix", matrix.t(), (0, 1)),
        ("strided matrix", matrix[::2, 5::7], (0, 1, (0, 1))),
    )
    shares = [
        compare_reduction(torch, name, view, dim) for name, view, dims in views for dim in dims
    ]
    worst = f"err by at most {max(shares):.2g} of the tolerance (n 2^-24 sum|x|)"
    return f"{len(shares)} views on {where.type}: sums and means {worst}, maxima are exact"


def compare_reduction(torch, name, view, dim):
    """Return the largest error of sum and mean as a share of the error bound.

    Raises `WrongResultError` if the maximum is not exact. In any order, a sum of n numbers errs by
    at most (n - 1) u sum|x|, u = 2^-24 (Higham 2002, section 4.2). A mean is rounded once or twice
    more.
    """
    reference = view.cpu().double()
    size, total = reference.abs().sum(dim), reference.sum(dim)
    n = reference.numel() // total.numel()
    where = f"the {name} over {dim}"
    if not torch.equal(view.amax(dim).cpu().double(), reference.amax(dim)):
        raise WrongResultError(f"the maximum of {where} is wrong", WRONG_HINT)
    sums, means = view.sum(dim).cpu(), view.mean(dim).cpu()
    unit = FLOAT32_UNIT * size
    return max(
        compute_error_share(f"the sum of {where}", sums, total, n * unit),
        compute_error_share(f"the mean of {where}", means, total / n, (n + 2) * unit / n),
    )
