"""What full_cpp computes is what torch computes."""

import torch  # noqa: I001 - it loads the libraries that full_cpp needs
import full_cpp

x, y = torch.arange(7.0), torch.ones(7)
found = full_cpp.axpy(2.0, x, y)
assert torch.equal(found, 2 * x + y), found
print(f"axpy of 7 numbers on the CPU: {found.tolist()}")
