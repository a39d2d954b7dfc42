// What the tests of this room share.
#pragma once
#include <gtest/gtest.h>

#include "base/file.h"
#include "checkpoint/hugging_face.h"

namespace muster::checkpoint {

// A folder of this test alone, gone with it.
class TestFolder {
 public:
  TestFolder() {
    std::string name = (fs::temp_directory_path() / "muster-test-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("cannot make " + name);
    path_ = name;
  }
  ~TestFolder() { fs::remove_all(path_); }
  fs::path operator/(const std::string& name) const { return path_ / name; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// The message of whatever `body` throws; "" where it throws nothing.
template <class Body>
std::string message_of(Body&& body) {
  try {
    body();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

inline void write_file(const fs::path& path, std::string_view bytes) {
  File file = File::create(path);
  file.write_all(bytes);
  file.close();
}

// A safetensors file of a header as it stands and so many bytes of data.
inline void write_raw(const fs::path& path, std::string_view header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string text(reinterpret_cast<const char*>(&length), 8);
  write_file(path, text + std::string(header) + std::string(data_bytes, '\0'));
}

// A file with these tensors.
inline void write_tensors(const fs::path& path, const std::map<std::string, at::Tensor>& tensors) {
  std::vector<TensorEntry> entries;
  for (const auto& [name, tensor] : tensors)
    entries.push_back({name, to_dtype(tensor.scalar_type()), tensor.sizes().vec(), 0, 0});
  SafetensorsWriter writer(path, entries, {});
  for (const TensorEntry& entry : writer.tensors()) {
    const at::Tensor& tensor = tensors.at(entry.name);
    write_tensor(writer, tensor, tensor.scalar_type());
  }
  writer.finish();
}

inline spec::ModelSpec tiny_model(spec::Family family) {
  spec::ModelSpec model;
  model.family = family;
  model.vocab_size = 20;
  model.hidden_size = 16;
  model.num_hidden_layers = 2;
  model.num_attention_heads = 4;
  model.num_key_value_heads = family == spec::Family::llama ? 2 : 0;
  model.intermediate_size = 24;
  model.max_position_embeddings = 32;
  spec::complete(model);
  return model;
}

// A value for every parameter, different from each other.
inline std::map<std::string, at::Tensor> random_weights(const spec::ModelSpec& model) {
  const spec::ParameterTable table(model);
  std::map<std::string, at::Tensor> weights;
  for (const spec::ParameterRow& row : table.rows()) weights[row.name] = at::randn(row.shape);
  return weights;
}

// Everything a table's load gives, in the dtype asked.
inline std::map<std::string, at::Tensor> loaded(const fs::path& path, const spec::ModelSpec& model,
                                                at::ScalarType dtype = at::kFloat) {
  std::map<std::string, at::Tensor> weights;
  load_weights(path, spec::ParameterTable(model), [&](const spec::ParameterRow& row) {
    return weights[row.name] = at::full(row.shape, 77, dtype);
  });
  return weights;
}

inline void expect_same(const std::map<std::string, at::Tensor>& a,
                        const std::map<std::string, at::Tensor>& b) {
  EXPECT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    EXPECT_TRUE(at::equal(tensor, b.at(name))) << name;
  }
}

}  // namespace muster::checkpoint
