// One product in float32 against float64; ATen alone, since torch/torch.h takes several times as long to compile.
#include <ATen/ATen.h>

#include <cmath>
#include <iostream>

int main() {
  const int64_t k = 64;
  const at::Tensor a = at::randn({k, k});
  const at::Tensor b = at::randn({k, k});
  const at::Tensor exact = a.to(at::kDouble).matmul(b.to(at::kDouble));
  // k products in float32 err by at most k 2^-24 |A||B| (Higham 2002, section 3.5); twice that
  const at::Tensor bound = 2.0 * k * std::pow(2.0, -24) * a.to(at::kDouble).abs().matmul(b.to(at::kDouble).abs());
  const double share = ((a.matmul(b).to(at::kDouble) - exact).abs() / bound).max().item<double>();
  const bool good = share <= 1.0;
  std::cout << "matmul in C++: " << share << " of the bound: " << (good ? "right" : "WRONG") << std::endl;
  return good ? 0 : 1;
}
