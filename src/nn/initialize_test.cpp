// A part gets the bits that the whole has there (CASES B013), blocks of a fused matrix too (B085).
#include "nn/initialize.h"

#include "nn/rig.h"
#include "nn/test_support.h"

namespace muster::nn {
namespace {

// Three uneven pieces of a part hold its bits.
void expect_pieces_alike(Executor& run, const at::Tensor& part_value, const spec::ParameterRow& row,
                         const spec::LocalPart& part) {
  const int64_t third = part_value.numel() / 3;
  for (const FlatRange range :
       {FlatRange{0, third}, FlatRange{third, 1}, FlatRange{third + 1, part_value.numel() - third - 1}}) {
    const at::Tensor piece = at::empty({range.size}, at::kFloat);
    initialize(run, piece, row, part, range, 7);
    EXPECT_TRUE(piece.equal(part_value.view(-1).narrow(0, range.first, range.size))) << row.name;
  }
}

TEST(Initialize, B013_B085_PartsHaveTheBitsOfTheWhole) {
  const Clock clock;
  Executor run(at::kCPU, at::kFloat, clock);
  for (spec::Family family : {spec::Family::llama, spec::Family::gpt2}) {
    spec::ModelSpec model = small_model(family);
    model.vocab_size = 40;
    model.num_attention_heads = model.num_key_value_heads = 4;
    const spec::ParameterTable table(model);
    const spec::Mesh split({1, 2, 1, 1, 1}, one_rank().order());
    for (const spec::ParameterRow& row : table.rows()) {
      const at::Tensor whole = at::empty(row.shape, at::kFloat);
      initialize(run, whole, row, spec::local_part(row, one_rank(), 0), {0, whole.numel()}, 7);
      for (int64_t rank : {0, 1}) {
        const spec::LocalPart part = spec::local_part(row, split, rank);
        const at::Tensor mine = at::empty(spec::local_shape(row, split), at::kFloat);
        initialize(run, mine, row, part, {0, mine.numel()}, 7);
        expect_pieces_alike(run, mine, row, part);
        for (const spec::IndexRun& at : part.runs)
          EXPECT_TRUE(
              mine.narrow(part.dim, at.local, at.size).equal(whole.narrow(part.dim, at.global, at.size)))
              << row.name << " on rank " << rank;
      }
    }
  }
}

}  // namespace
}  // namespace muster::nn
