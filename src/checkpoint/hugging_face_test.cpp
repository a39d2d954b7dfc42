#include "checkpoint/hugging_face.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/testing.h"
#include "checkpoint/weight_files.h"

namespace muster::checkpoint {
namespace {

using spec::Family;
using ::testing::HasSubstr;
using ::testing::Not;
using Weights = std::map<std::string, at::Tensor>;

constexpr Family kFamilies[] = {Family::llama, Family::gpt2};

void save(const fs::path& folder, const spec::ModelSpec& model, const Weights& weights,
          const SaveOptions& options = {}, at::ScalarType dtype = at::kFloat) {
  save_weights(
      folder, model, dtype, [&](const spec::ParameterRow& row) { return weights.at(row.name); }, options);
}

// Every refusal is a UserError, found from headers alone.
std::string complaint(const fs::path& path, const spec::ModelSpec& model) {
  try {
    check_weights(path, spec::ParameterTable(model));
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST(HuggingFace, ARoundTripIsBitwiseInOneFileAndInShards) {
  for (Family family : kFamilies)
    for (int64_t max_shard_bytes : {int64_t{1} << 40, int64_t{3000}, int64_t{1}}) {
      SCOPED_TRACE(fmt::format("{} {}", to_string(family), max_shard_bytes));
      const TestFolder folder;
      const spec::ModelSpec model = tiny_model(family);
      const Weights weights = random_weights(model);
      save(folder / "out", model, weights, {.max_shard_bytes = max_shard_bytes});
      expect_same(loaded(folder / "out", model), weights);
      EXPECT_EQ(read_hf_config(folder / "out"), model);
      EXPECT_EQ(fs::exists(folder / "out/model.safetensors"), max_shard_bytes > 1'000'000);
      EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1) << "nothing is left beside it";
    }
}

TEST(HuggingFace, ShardsStayUnderTheirLimitAndAreNamedAsTransformersDoes) {
  const TestFolder folder;
  const spec::ModelSpec model = tiny_model(Family::llama);
  save(folder / "out", model, random_weights(model), {.max_shard_bytes = 4000});
  const Json index = parse_json(read_text(folder / "out/model.safetensors.index.json"), "index");
  EXPECT_EQ(index["metadata"]["total_size"], 4 * spec::ParameterTable(model).elements());
  EXPECT_EQ(index["weight_map"].size(), spec::ParameterTable(model).rows().size());
  const WeightFiles files(folder / "out");
  const std::string count = fmt::format("-of-{:05}.safetensors", files.files().size());
  EXPECT_EQ(index["weight_map"]["model.embed_tokens.weight"], "model-00001" + count);
  for (const SafetensorsFile& file : files.files()) {
    EXPECT_LE(file.tensors().back().end, 4000);
    EXPECT_EQ(file.metadata().at("format"), "pt");
  }
}

TEST(HuggingFace, ConvertsWhileWritingAndWhileReading) {
  const TestFolder folder;
  const spec::ModelSpec model = tiny_model(Family::gpt2);
  Weights weights = random_weights(model);
  save(folder / "out", model, weights, {}, at::kBFloat16);
  for (auto& [name, tensor] : weights) tensor = tensor.to(at::kBFloat16).to(at::kDouble);
  expect_same(loaded(folder / "out", model, at::kDouble), weights);
  EXPECT_EQ(parse_json(read_text(folder / "out/config.json"), "c")["torch_dtype"], "bfloat16");
}

TEST(HuggingFace, ReadsTheSliceThatIsAskedAndNothingElse) {
  const TestFolder folder;
  const spec::ModelSpec model = tiny_model(Family::llama);
  const Weights weights = random_weights(model);
  save(folder / "out", model, weights);
  const std::string name = "model.layers.1.mlp.down_proj.weight";
  const at::Tensor columns = at::zeros({16, 12});
  load_weights(folder / "out", spec::ParameterTable(model),
               [&](const spec::ParameterRow& row) -> std::optional<Destination> {
                 if (row.name != name) return std::nullopt;
                 return Destination(columns, spec::Piece(row.shape, {1, {{0, 12, 12}}}));
               });
  EXPECT_TRUE(at::equal(columns, weights.at(name).narrow(1, 12, 12)));
}

TEST(HuggingFace, ReadsWhatOtherWritersCallIt) {
  const TestFolder folder;
  const spec::ModelSpec model = tiny_model(Family::gpt2);
  const Weights weights = random_weights(model);
  Weights bare;  // OpenAI's own gpt2 file: no prefix, and the causal mask as buffers
  for (const auto& [name, tensor] : weights) bare[name.substr(std::string("transformer.").size())] = tensor;
  bare["h.0.attn.bias"] = at::ones({1, 1, 32, 32}, at::kByte);
  bare["h.1.attn.masked_bias"] = at::scalar_tensor(-1e4);
  write_tensors(folder / "gpt2.safetensors", bare);
  expect_same(loaded(folder / "gpt2.safetensors", model), weights);
}

TEST(HuggingFace, ATiedHeadMayBeStoredIfItIsTheEmbedding) {
  const TestFolder folder;
  spec::ModelSpec model = tiny_model(Family::llama);
  model.tie_word_embeddings = true;
  Weights weights = random_weights(model);
  const Weights table_only = weights;
  weights["lm_head.weight"] = weights.at("model.embed_tokens.weight").clone();
  write_tensors(folder / "a", weights);
  expect_same(loaded(folder / "a", model), table_only);

  weights["lm_head.weight"][3][4] += 1;
  write_tensors(folder / "a", weights);
  EXPECT_EQ(complaint(folder / "a", model), "") << "no data is read before the load";
  EXPECT_THAT(message_of([&] { loaded(folder / "a", model); }),
              HasSubstr("lm_head.weight: differs from the embedding"));
  weights["lm_head.weight"] = at::ones({19, 16});
  write_tensors(folder / "a", weights);
  EXPECT_THAT(complaint(folder / "a", model),
              HasSubstr("lm_head.weight = [19, 16]: its shape must be [20, 16]"));
}

TEST(HuggingFace, ReportsMissingUnexpectedAndMisshapenTogether) {
  const TestFolder folder;
  const spec::ModelSpec model = tiny_model(Family::llama);
  Weights weights = random_weights(model);
  weights.erase("model.norm.weight");
  weights["model.layers.0.self_attn.q_norm.weight"] = at::ones({4});
  weights["model.layers.0.mlp.up_proj.weight"] = at::ones({16, 24});
  weights["model.layers.1.mlp.up_proj.weight"] = at::ones({24, 16}, at::kInt);
  write_tensors(folder / "a", weights);
  const std::string said = complaint(folder / "a", model);
  EXPECT_THAT(said, HasSubstr("/a: model.norm.weight: is missing"));
  EXPECT_THAT(said, HasSubstr("/a: model.layers.0.self_attn.q_norm.weight: is no parameter of this model"));
  EXPECT_THAT(said, HasSubstr("model.layers.0.mlp.up_proj.weight = [16, 24]: its shape must be [24, 16]"));
  EXPECT_THAT(said, HasSubstr("model.layers.1.mlp.up_proj.weight = I32: must be F64, F32, F16 or BF16"));
  EXPECT_EQ(std::ranges::count(said, '\n'), 3);
}

TEST(HuggingFace, OfManyProblemsOfAKindTheFirstSayIt) {
  const TestFolder folder;
  spec::ModelSpec model = tiny_model(Family::llama);
  save(folder / "out", model, random_weights(model));
  model.num_hidden_layers = 40;
  const std::string said = complaint(folder / "out", model);
  EXPECT_THAT(said, HasSubstr("model.layers.2.input_layernorm.weight: is missing"));
  EXPECT_THAT(said, HasSubstr("and 322 more: is missing"));
  EXPECT_EQ(std::ranges::count(said, '\n'), 20);
}

TEST(HuggingFace, AFailedExportLeavesNothing) {
  const TestFolder folder;
  const spec::ModelSpec model = tiny_model(Family::llama);
  EXPECT_THROW(save_weights(folder / "out", model, at::kFloat,
                            [](const spec::ParameterRow& row) -> at::Tensor {
                              if (row.unit == 2) throw WorldError(WorldError::Kind::disk, "gone");
                              return at::zeros(row.shape);
                            }),
               WorldError);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(HuggingFace, WritesOverNothing) {
  const TestFolder folder;
  const spec::ModelSpec model = tiny_model(Family::llama);
  const Weights weights = random_weights(model);
  fs::create_directory(folder / "out");
  save(folder / "out/", model, weights);
  EXPECT_THAT(message_of([&] { save(folder / "out", model, weights); }), HasSubstr("is there already"));
  expect_same(loaded(folder / "out", model), weights);
}

TEST(HuggingFace, ReadsTheReferenceModel) {
  spec::ModelSpec model;
  model.vocab_size = 512;
  model.hidden_size = 64;
  model.num_hidden_layers = 4;
  model.num_attention_heads = 4;
  model.num_key_value_heads = 2;
  model.intermediate_size = 176;
  spec::complete(model);
  const fs::path path = SOURCE_ROOT "/../shared/reference/A/model.safetensors";
  ASSERT_TRUE(fs::exists(path)) << path << " is missing";
  const Weights weights = loaded(path, model);
  EXPECT_EQ(weights.size(), spec::ParameterTable(model).rows().size());
  EXPECT_FALSE(at::all(weights.at("lm_head.weight") == 77).item<bool>());
}

}  // namespace
}  // namespace muster::checkpoint
