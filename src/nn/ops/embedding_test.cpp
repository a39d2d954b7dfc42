#include "nn/ops/embedding.h"

#include "nn/test_support.h"

namespace muster::nn {
namespace {

Weight weight_of(at::IntArrayRef shape, at::ScalarType gradient) {
  return {.value = normal(shape, at::kBFloat16, 1),
          .gradient = at::ones(shape, gradient),
          .gradient_written = true};
}

// CASES B068: tokens and positions that come in many rows of a micro-batch, in both formats of gradients.
TEST(EmbedBackward, B068SmallContributionsDoNotVanish) {
  constexpr int64_t kSequences = 512, kLength = 3, kHidden = 8;
  const Clock clock;
  Executor run(at::kCPU, at::kBFloat16, clock);
  const at::Tensor dy = at::full({kSequences * kLength, kHidden}, 0x1p-9, at::kBFloat16);
  const at::Tensor ids = at::arange(kSequences * kLength, at::kInt).remainder(kLength);
  for (const at::ScalarType gradient : gradient_types<c10::BFloat16>()) {
    Weight token = weight_of({5, kHidden}, gradient), position = weight_of({4, kHidden}, gradient);
    embed_backward(run, {}, dy, ids, token, &position, whole_sequences(kSequences, kLength));
    for (const Weight* weight : {&token, &position}) {
      EXPECT_TRUE(weight->gradient.narrow(0, 0, kLength).eq(2).all().item<bool>()) << weight->gradient;
      EXPECT_TRUE(weight->gradient.narrow(0, kLength, 1).eq(1).all().item<bool>()) << weight->gradient;
    }
  }
}

}  // namespace
}  // namespace muster::nn
