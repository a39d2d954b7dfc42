#include "checkpoint/convert.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "checkpoint/layouts.h"
#include "checkpoint/testing.h"
#include "checkpoint/weight_files.h"

namespace muster::checkpoint {
namespace {

using spec::Family;
using ::testing::HasSubstr;
using Weights = std::map<std::string, at::Tensor>;

spec::ModelSpec biased_llama() {
  spec::ModelSpec model = tiny_model(Family::llama);
  model.attention_bias = true;
  return model;
}

TEST(Convert, KeepsEveryBitWhereNothingIsAsked) {
  for (const spec::ModelSpec& model : {biased_llama(), tiny_model(Family::gpt2)}) {
    const TestFolder folder;
    Weights weights = random_weights(model);
    weights.begin()->second = weights.begin()->second.to(at::kHalf);  // mixed dtypes are kept as they are
    write_tensors(folder / "in", weights);
    const ConvertSummary summary =
        convert_weights(folder / "in", folder / "out", model, {.save = {.max_shard_bytes = 2000}});
    EXPECT_EQ(summary.tensors, static_cast<int64_t>(weights.size()));
    const WeightFiles files(folder / "out");
    int64_t bytes = 0;
    for (const auto& [name, tensor] : weights) {
      const at::Tensor back = at::zeros_like(tensor);
      ASSERT_TRUE(files.find(name)) << name;
      EXPECT_EQ(files.find(name)->dtype, to_dtype(tensor.scalar_type()));
      files.read(*files.find(name), back);
      EXPECT_TRUE(at::equal(back, tensor)) << name;
      bytes += static_cast<int64_t>(tensor.nbytes());
    }
    EXPECT_EQ(summary.bytes, bytes);
  }
}

TEST(Convert, WritesTheDtypeThatIsAsked) {
  const TestFolder folder;
  const spec::ModelSpec model = tiny_model(Family::llama);
  Weights weights = random_weights(model);
  write_tensors(folder / "in", weights);
  convert_weights(folder / "in", folder / "out", model, {.dtype = at::kBFloat16});
  const WeightFiles files(folder / "out");
  for (const SafetensorsFile& file : files.files())
    for (const TensorEntry& tensor : file.tensors()) EXPECT_EQ(tensor.dtype, DType::bf16);
  for (auto& [name, tensor] : weights) tensor = tensor.to(at::kBFloat16);
  expect_same(loaded(folder / "out", model, at::kBFloat16), weights);
}

TEST(Convert, B083PairwiseSourcesAreWrittenHalfSplit) {
  const TestFolder folder;
  const spec::ModelSpec model = biased_llama();
  const Weights weights = random_weights(model);
  Weights pairwise = weights;
  for (auto& [name, tensor] : pairwise)
    if (name.find("q_proj") != name.npos || name.find("k_proj") != name.npos)
      tensor = half_split_to_pairwise(tensor, model.head_dim);
  write_tensors(folder / "in", pairwise);
  convert_weights(folder / "in", folder / "out", model, {.source_rotary = RotaryLayout::pairwise});
  expect_same(loaded(folder / "out", model), weights);
}

TEST(Convert, B085FusedAndBackIsBitwise) {
  const TestFolder folder;
  const spec::ModelSpec model = biased_llama();
  const Weights weights = random_weights(model);
  write_tensors(folder / "in", weights);
  convert_weights(folder / "in", folder / "fused", model, {.qkv = QkvLayout::fused});
  const WeightFiles fused(folder / "fused");
  const std::string layer = "model.layers.1.self_attn.";
  EXPECT_FALSE(fused.find(layer + "q_proj.weight"));
  const StoredTensor* found = fused.find(layer + "qkv_proj.weight");
  ASSERT_TRUE(found);
  const at::Tensor matrix = at::empty({32, 16});
  fused.read(*found, matrix);
  EXPECT_TRUE(at::equal(matrix.narrow(0, 0, 8), weights.at(layer + "q_proj.weight").narrow(0, 0, 8)));
  EXPECT_TRUE(at::equal(matrix.narrow(0, 8, 4), weights.at(layer + "k_proj.weight").narrow(0, 0, 4)));
  EXPECT_TRUE(fused.find(layer + "qkv_proj.bias"));

  convert_weights(folder / "fused", folder / "back", model, {.source_qkv = QkvLayout::fused});
  expect_same(loaded(folder / "back", model), weights);
}

TEST(Convert, TakesTheTokenizerAlongAndReadsTheModelFromItsConfig) {
  const TestFolder folder;
  const spec::ModelSpec model = tiny_model(Family::gpt2);
  fs::create_directory(folder / "in");
  write_tensors(folder / "in/model.safetensors", random_weights(model));
  write_file(folder / "in/config.json", spec::to_hf_config(model));
  write_file(folder / "in/tokenizer.json", "{}");
  write_file(folder / "in/notes.txt", "");
  convert_weights(folder / "in", folder / "out", read_hf_config(folder / "in"), {});
  EXPECT_EQ(read_text(folder / "out/tokenizer.json"), "{}");
  EXPECT_FALSE(fs::exists(folder / "out/notes.txt"));
  EXPECT_EQ(read_hf_config(folder / "out/config.json"), model);
  EXPECT_THAT(message_of([&] { read_hf_config(folder.path()); }), HasSubstr("there is no such file"));
}

TEST(Convert, RefusesBeforeItWrites) {
  const TestFolder folder;
  const spec::ModelSpec gpt2 = tiny_model(Family::gpt2);
  write_tensors(folder / "in", random_weights(gpt2));
  const auto complaint = [&](const spec::ModelSpec& model, const ConvertOptions& options) {
    return message_of([&] { convert_weights(folder / "in", folder / "out", model, options); });
  };
  write_file(folder / "out", "in the way");
  const std::string said =
      complaint(gpt2, {.source_rotary = RotaryLayout::pairwise, .qkv = QkvLayout::fused});
  EXPECT_THAT(said, HasSubstr("is there already"));
  EXPECT_THAT(said, HasSubstr("--rotary = pairwise: has no effect"));
  EXPECT_THAT(said, HasSubstr("--fused-qkv: has no effect"));
  fs::remove(folder / "out");
  EXPECT_THAT(complaint(tiny_model(Family::llama), {}), HasSubstr("model.norm.weight: is missing"));
  EXPECT_FALSE(fs::exists(folder / "out"));
}

}  // namespace
}  // namespace muster::checkpoint
