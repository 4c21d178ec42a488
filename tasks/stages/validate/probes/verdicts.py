"""Define the exceptions that end a check, and compare numeric errors with error bounds."""

WRONG_HINT = "update the GPU driver, then run doit validate; if it fails again, the GPU is faulty"


class WrongResultError(Exception):
    """A check has failed. The message says what is wrong, and `remedy` says what to do."""

    def __init__(self, detail, remedy=""):
        super().__init__(detail)
        self.remedy = remedy


class NothingToTryError(Exception):
    """A check cannot run on this machine. The message is the reason."""


def format_error_share(name, found, exact, bound):
    """Return the name and the largest error divided by the bound, such as `matmul 0.0022`."""
    return f"{name} {compute_error_share(name, found, exact, bound):.2g}"


def compute_error_share(name, found, exact, bound):
    """Return the largest error divided by the bound. Raises WrongResultError if it exceeds 1."""
    error = (found.double() - exact).abs()
    largest = (error / bound.clamp_min(2.0**-1000)).max().item()
    if not largest <= 1:  # NaN is wrong, too
        message = f"{name} deviates from the exact result by {largest:.3g} times the tolerance"
        raise WrongResultError(message, WRONG_HINT)
    return largest
