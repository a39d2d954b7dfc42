#include "checkpoint/weight_match.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_set>

#include "base/error.h"

namespace muster::checkpoint {
namespace {

constexpr std::string_view kPrefixes[] = {"transformer.", "model."};
constexpr std::string_view kBufferEndings[] = {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"};
constexpr std::string_view kEmbeddings[] = {"transformer.wte.weight", "model.embed_tokens.weight"};
constexpr const char* kHead = "lm_head.weight";
constexpr DType kFloats[] = {DType::f64, DType::f32, DType::f16, DType::bf16};
// A wrong model makes thousands of problems; the first of each kind say it.
constexpr size_t kMostListed = 20;

template <class List, class Value>
bool contains(const List& list, const Value& value) {
  return std::ranges::find(list, value) != std::end(list);
}

class Matcher {
 public:
  explicit Matcher(const TensorSet& weights) : weights_(weights) {}

  WeightMatch run(const std::vector<ExpectedTensor>& expected) {
    for (const ExpectedTensor& tensor : expected) take(tensor);
    if (!claimed_.contains(kHead)) take_tied_head();
    for (const StoredTensor& tensor : weights_.tensors())
      if (!claimed_.contains(tensor.name) && !is_buffer(tensor.name)) unexpected_.push_back(tensor.name);
    report();
    return std::move(match_);
  }

 private:
  static bool is_buffer(const std::string& name) {
    return std::ranges::any_of(kBufferEndings, [&](auto ending) { return name.ends_with(ending); });
  }

  const StoredTensor* find(const std::string& name) const {
    if (const StoredTensor* found = weights_.find(name)) return found;
    for (std::string_view prefix : kPrefixes)
      if (name.starts_with(prefix))
        if (const StoredTensor* found = weights_.find(name.substr(prefix.size()))) return found;
    return nullptr;
  }

  void take(const ExpectedTensor& expected) {
    const StoredTensor* found = find(expected.name);
    if (!found) return missing_.push_back(expected.name);
    claimed_.insert(found->name);
    check(*found, expected.shape);
    match_.found.push_back(found);
    if (contains(kEmbeddings, expected.name)) match_.embedding = found;
  }

  void take_tied_head() {
    const StoredTensor* head = weights_.find(kHead);
    if (!head || !match_.embedding) return;
    claimed_.insert(kHead);
    check(*head, match_.embedding->shape);
    match_.tied_head = head;
  }

  void check(const StoredTensor& tensor, const std::vector<int64_t>& shape) {
    if (tensor.shape != shape)
      wrong_.push_back({where(tensor.name), fmt::format("[{}]", fmt::join(tensor.shape, ", ")),
                        fmt::format("its shape must be [{}]", fmt::join(shape, ", ")),
                        "give the [model] that these weights belong to"});
    if (!contains(kFloats, tensor.dtype))
      wrong_.push_back({where(tensor.name), std::string(to_string(tensor.dtype)),
                        "must be F64, F32, F16 or BF16", "use the unquantised weights"});
  }

  std::string where(const std::string& tensor) const { return weights_.id() + ": " + tensor; }

  void list(Problems& problems, const std::vector<std::string>& names, const char* rule, const char* remedy) {
    for (size_t i = 0; i < std::min(names.size(), kMostListed); ++i)
      problems.add(where(names[i]), "", rule, remedy);
    if (names.size() > kMostListed)
      problems.add(where(fmt::format("and {} more", names.size() - kMostListed)), "", rule, remedy);
  }

  void report() {
    Problems problems;
    list(problems, missing_, "is missing", "give the [model] that these weights belong to");
    list(problems, unexpected_, "is no parameter of this model",
         "give the [model] that these weights belong to");
    for (size_t i = 0; i < std::min(wrong_.size(), kMostListed); ++i) problems.add(UserError(wrong_[i]));
    if (wrong_.size() > kMostListed)
      problems.add(where(fmt::format("and {} more", wrong_.size() - kMostListed)), "",
                   "have another shape or type", "");
    problems.throw_if_any();
  }

  const TensorSet& weights_;
  WeightMatch match_;
  std::unordered_set<std::string> claimed_;
  std::vector<std::string> missing_, unexpected_;
  std::vector<Problem> wrong_;
};

}  // namespace

std::vector<ExpectedTensor> expected_tensors(const spec::ParameterTable& table) {
  std::vector<ExpectedTensor> expected;
  for (const spec::ParameterRow& row : table.rows()) expected.push_back({row.name, row.shape});
  return expected;
}

WeightMatch match_weights(const TensorSet& weights, const std::vector<ExpectedTensor>& expected) {
  return Matcher(weights).run(expected);
}

}  // namespace muster::checkpoint
