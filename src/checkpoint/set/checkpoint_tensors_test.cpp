// A checkpoint as a source of weights, cut by whatever layout.
#include "checkpoint/set/checkpoint_tensors.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "checkpoint/convert.h"
#include "checkpoint/set/claims.h"
#include "checkpoint/set/save.h"
#include "checkpoint/testing.h"

namespace muster::checkpoint {
namespace {

using ::testing::HasSubstr;

const Log kQuiet("", LogLevel::error, -1);

// A checkpoint whose parameters two ranks of a tensor axis would have written: halves of the last dim.
class Halves {
 public:
  Halves(const std::map<std::string, at::Tensor>& parameters, std::map<std::string, std::string> job = {})
      : folder_(root_ / "step-00000002.g1") {
    fs::create_directory(folder_);
    PosixStorage storage;
    manifest_.name = {2, 1};
    manifest_.world = 2;
    manifest_.job = std::move(job);
    for (int64_t rank : {0, 1}) {
      State state;
      for (const auto& [name, whole] : parameters) add_half(state, name, whole, rank);
      const WrittenShard shard = write_shard(storage, folder_, fmt::format("r{}.x.st", rank), state, rank);
      Manifest part;
      part.files = {shard.file};
      part.tensors = shard.tensors;
      add_part(manifest_, part);
    }
    commit();
  }
  const fs::path& folder() const { return folder_; }
  fs::path operator/(const std::string& name) const { return root_ / name; }

 private:
  static void add_half(State& state, const std::string& name, const at::Tensor& whole, int64_t rank) {
    const int dim = static_cast<int>(whole.dim()) - 1;
    const int64_t size = whole.size(dim), first = rank == 0 ? 0 : size / 2;
    const int64_t count = rank == 0 ? size / 2 : size - size / 2;
    const spec::Piece piece(whole.sizes().vec(), {dim, {{0, first, count}}});
    state.tensors.push_back({name, piece, whole.narrow(dim, first, count).contiguous(), rank});
  }
  void commit() {
    const std::string text = to_json(manifest_).dump();
    write_file(folder_ / kManifest, text);
    write_file(folder_ / kCommit, commit_text(manifest_.name, text));
  }

  TestFolder root_;
  fs::path folder_;
  Manifest manifest_;
};

std::map<std::string, at::Tensor> with_prefix(const std::string& prefix,
                                              const std::map<std::string, at::Tensor>& tensors) {
  std::map<std::string, at::Tensor> named;
  for (const auto& [name, tensor] : tensors) named[prefix + name] = tensor;
  return named;
}

TEST(CheckpointTensors, AreWeightsUnderTheirOwnNames) {
  for (spec::Family family : {spec::Family::llama, spec::Family::gpt2}) {
    const spec::ModelSpec model = tiny_model(family);
    const auto weights = random_weights(model);
    const Halves saved(with_prefix("parameters/", weights));
    expect_same(loaded(saved.folder(), model), weights);
    const std::string slash = saved.folder().string() + "/";
    expect_same(loaded(slash, model), weights);
  }
}

TEST(CheckpointTensors, MasterParametersAreTheWeights) {
  const spec::ModelSpec model = tiny_model(spec::Family::llama);
  const auto weights = random_weights(model);
  auto all = with_prefix("master_parameters/", weights);
  all.merge(with_prefix("parameters/", random_weights(model)));
  all.merge(with_prefix("optimizer.first/", random_weights(model)));
  const Halves saved(all);
  expect_same(loaded(saved.folder(), model), weights);
}

// Issue 7, export: what was saved in pieces is a folder that transformers reads, to the bit.
TEST(CheckpointTensors, AreConverted) {
  for (spec::Family family : {spec::Family::llama, spec::Family::gpt2}) {
    const spec::ModelSpec model = tiny_model(family);
    const auto weights = random_weights(model);
    const Halves saved(with_prefix("parameters/", weights));
    convert_weights(saved.folder(), saved / "out", model, {.save = {.max_shard_bytes = 2000}});
    EXPECT_TRUE(fs::exists(saved / "out/model.safetensors.index.json"));
    expect_same(loaded(saved / "out", model), weights);
    EXPECT_EQ(read_model(saved / "out"), model);
  }
}

TEST(CheckpointTensors, AnotherModelIsRefusedByTensor) {
  const spec::ModelSpec model = tiny_model(spec::Family::llama);
  auto weights = random_weights(model);
  weights["model.norm.weight"] = at::ones({17});
  const Halves saved(with_prefix("parameters/", weights));
  EXPECT_THAT(message_of([&] { check_weights(saved.folder(), spec::ParameterTable(model)); }),
              HasSubstr("model.norm.weight = [17]: its shape must be [16]"));
}

// B024: what was damaged is named, before it is used.
TEST(CheckpointTensors, DamageIsNamed) {
  const spec::ModelSpec model = tiny_model(spec::Family::llama);
  const Halves saved(with_prefix("parameters/", random_weights(model)));
  const fs::path shard = saved.folder() / "r1.x.st";
  std::string text = read_text(shard);
  text[text.size() / 2] ^= 4;
  write_file(shard, text);
  EXPECT_THAT(message_of([&] { loaded(saved.folder(), model); }), HasSubstr("r1.x.st: bytes 0 to"));
  fs::resize_file(shard, 10);
  try {
    check_weights(saved.folder(), spec::ParameterTable(model));
    FAIL() << "a shard was cut";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("r1.x.st: has 10 bytes"));
  }
}

TEST(CheckpointTensors, KnowTheirModel) {
  const Halves saved({{"parameters/x", at::ones({2})}}, {{"model.family", "\"gpt2\""},
                                                         {"model.vocab_size", "20"},
                                                         {"model.hidden_size", "16"},
                                                         {"model.num_hidden_layers", "2"},
                                                         {"model.num_attention_heads", "4"},
                                                         {"model.max_position_embeddings", "32"},
                                                         {"model.intermediate_size", "24"},
                                                         {"data.tokenizer", "\"/a/tokenizer.json\""}});
  EXPECT_EQ(read_model(saved.folder()), tiny_model(spec::Family::gpt2));
  const CheckpointTensors set(saved.folder(), CheckpointTensors::Which::all);
  EXPECT_EQ(job_of(set.manifest(), "m").data.tokenizer, "/a/tokenizer.json");
  EXPECT_THAT(set.id(), HasSubstr("step-00000002.g1 (manifest "));
  const Halves strange({{"parameters/x", at::ones({2})}}, {{"model.no_such_key", "1"}});
  EXPECT_THAT(message_of([&] { read_model(strange.folder()); }), HasSubstr("model.no_such_key"));
}

}  // namespace
}  // namespace muster::checkpoint
