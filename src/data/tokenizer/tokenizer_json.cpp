#include "data/tokenizer/tokenizer_json.h"

#include "base/hash.h"
#include "base/json.h"
#include "data/tokenizer/byte_alphabet.h"

namespace muster::data {
namespace {

constexpr int64_t kMostBytes = int64_t{64} << 20;
constexpr size_t kMostTokens = 1 << 22;
constexpr size_t kMostAdded = 1 << 16;
constexpr size_t kMostPatterns = 16;
constexpr const char* kRemedy = "use \"bytes\" or a byte-level BPE tokenizer.json, as GPT-2 and Llama 3 have";

constexpr const char* kEndNames[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};

// One JSON object of the file, with what refusals need.
class Reader {
 public:
  Reader(const Place& place, const Json& json, std::string name)
      : place_(place), json_(json), name_(std::move(name)) {}

  [[noreturn]] void refuse_this(const std::string& why) const { refuse(place_, name_ + " " + why, kRemedy); }

  bool has(const char* key) const {
    const auto found = json_.is_object() ? json_.find(key) : json_.end();
    return found != json_.end() && !found->is_null();
  }
  Reader at(const char* key) const {
    if (!has(key)) refuse_this(fmt::format("has no \"{}\"", key));
    return {place_, json_.at(key), name_ + "." + key};
  }
  bool flag(const char* key, bool otherwise) const {
    if (!has(key)) return otherwise;
    if (!json_.at(key).is_boolean()) refuse_this(fmt::format("needs true or false as \"{}\"", key));
    return json_.at(key).get<bool>();
  }
  std::string text() const {
    if (!json_.is_string()) refuse_this("must be a string");
    return json_.get<std::string>();
  }
  std::string text(const char* key) const { return at(key).text(); }
  int32_t id() const {
    if (!json_.is_number_integer() || json_.get<int64_t>() < 0 || json_.get<int64_t>() >= INT32_MAX)
      refuse_this("must be an id from 0 to 2^31 - 2");
    return json_.get<int32_t>();
  }
  const Json& array(size_t most) const {
    if (!json_.is_array() || json_.size() > most)
      refuse_this(fmt::format("must be a list of at most {}", most));
    return json_;
  }
  const Json& object(size_t most) const {
    if (!json_.is_object() || json_.size() > most)
      refuse_this(fmt::format("must be an object of at most {} keys", most));
    return json_;
  }
  Reader element(const Json& json) const { return {place_, json, name_}; }
  // A setting that would change ids and is not read must be absent, null, false, empty or 0.
  void must_be_idle(const char* key) const {
    if (!has(key)) return;
    const Json& value = json_.at(key);
    const bool idle = value == false || value == "" || value == 0 || (value.is_array() && value.empty());
    if (!idle) refuse_this(fmt::format("sets \"{}\", which is not supported", key));
  }

 private:
  const Place& place_;
  const Json& json_;
  std::string name_;
};

void read_vocabulary(const Reader& model, TokenizerFile& file) {
  const Reader vocabulary = model.at("vocab");
  for (const auto& [token, id] : vocabulary.object(kMostTokens).items())
    file.vocabulary.emplace_back(bytes_of_token(token), vocabulary.element(id).id());
}

TokenizerFile::Merge read_merge(const Reader& merge, const Json& json) {
  if (json.is_array() && json.size() == 2)
    return {bytes_of_token(merge.element(json[0]).text()), bytes_of_token(merge.element(json[1]).text())};
  const std::string both = merge.text();
  const size_t space = both.find(' ');
  if (space == std::string::npos || both.find(' ', space + 1) != std::string::npos)
    merge.refuse_this("needs two tokens in each merge");
  return {bytes_of_token(both.substr(0, space)), bytes_of_token(both.substr(space + 1))};
}

void read_model(const Reader& model, TokenizerFile& file) {
  if (model.has("type") && model.text("type") != "BPE") model.refuse_this("is not a BPE");
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"})
    model.must_be_idle(key);
  file.ignore_merges = model.flag("ignore_merges", false);
  read_vocabulary(model, file);
  const Reader merges = model.at("merges");
  for (const Json& merge : merges.array(kMostTokens))
    file.merges.push_back(read_merge(merges.element(merge), merge));
}

void read_added(const Reader& root, TokenizerFile& file) {
  if (!root.has("added_tokens")) return;
  const Reader list = root.at("added_tokens");
  for (const Json& json : list.array(kMostAdded)) {
    const Reader token = list.element(json);
    for (const char* key : {"lstrip", "rstrip", "single_word"}) token.must_be_idle(key);
    file.added.push_back({token.at("id").id(), token.text("content"), token.flag("normalized", false)});
  }
}

void read_split(const Reader& split, TokenizerFile& file) {
  if (split.text("behavior") != "Isolated") split.refuse_this("is a Split that is not \"Isolated\"");
  split.must_be_idle("invert");
  file.patterns.push_back(split.at("pattern").text("Regex"));
}

void read_byte_level(const Reader& byte_level, TokenizerFile& file) {
  byte_level.must_be_idle("add_prefix_space");
  if (byte_level.flag("use_regex", true)) file.patterns.emplace_back(kGpt2Pattern);
}

void read_pre_tokenizer(const Reader& pre, TokenizerFile& file) {
  if (pre.text("type") == "ByteLevel") return read_byte_level(pre, file);
  if (pre.text("type") != "Sequence") pre.refuse_this("is neither ByteLevel nor a Sequence that ends in it");
  const Reader steps = pre.at("pretokenizers");
  const Json& list = steps.array(kMostPatterns);
  for (size_t at = 0; at < list.size(); ++at) {
    const Reader step = steps.element(list[at]);
    const std::string type = step.text("type");
    const bool last = at + 1 == list.size();
    if (last != (type == "ByteLevel") || (!last && type != "Split"))
      step.refuse_this("must be Split patterns and then ByteLevel");
    last ? read_byte_level(step, file) : read_split(step, file);
  }
  if (list.empty()) steps.refuse_this("must end in ByteLevel");
}

// post_processor.single is a template: a special token before the text begins it.
std::optional<std::string> beginning(const Json& processor) {
  if (!processor.is_object()) return std::nullopt;
  if (const auto steps = processor.find("processors"); steps != processor.end())
    for (const Json& step : *steps)
      if (auto found = beginning(step)) return found;
  const auto single = processor.find("single");
  if (single == processor.end() || !single->is_array() || single->empty() || !single->front().is_object())
    return std::nullopt;
  const Json special = single->front().value("SpecialToken", Json());
  if (!special.is_object() || !special.contains("id") || !special["id"].is_string()) return std::nullopt;
  return special["id"].get<std::string>();
}

std::optional<int32_t> added_id(const TokenizerFile& file, const std::string& content) {
  for (const AddedToken& token : file.added)
    if (token.content == content) return token.id;
  return std::nullopt;
}

std::optional<std::string> configured_end(const Place& place) {
  const fs::path beside = place.path.parent_path() / "tokenizer_config.json";
  if (!fs::is_regular_file(beside)) return std::nullopt;
  const Json config = parse_json(read_text(beside), beside.string());
  const Json end = config.is_object() ? config.value("eos_token", Json()) : Json();
  if (end.is_string()) return end.get<std::string>();
  if (end.is_object() && end.contains("content") && end["content"].is_string())
    return end["content"].get<std::string>();
  return std::nullopt;
}

std::optional<int32_t> find_end(const Place& place, const TokenizerFile& file) {
  if (const auto name = configured_end(place)) return added_id(file, *name);
  for (const char* name : kEndNames)
    if (const auto id = added_id(file, name)) return id;
  return std::nullopt;
}

TokenizerFile read_all(const Place& place, const Json& json) {
  const Reader root(place, json, "the tokenizer");
  TokenizerFile file;
  root.must_be_idle("normalizer");
  read_model(root.at("model"), file);
  read_added(root, file);
  read_pre_tokenizer(root.at("pre_tokenizer"), file);
  if (const auto name = json.contains("post_processor") ? beginning(json["post_processor"]) : std::nullopt)
    file.begin_of_text = added_id(file, *name);
  file.end_of_text = find_end(place, file);
  return file;
}

}  // namespace

TokenizerFile read_tokenizer_json(const Place& place) {
  open_place(place);
  try {
    const std::string text = read_text(place.path, kMostBytes);
    TokenizerFile file = read_all(place, parse_json(text, place.path.filename().string()));
    file.fingerprint = hash64(text);
    return file;
  } catch (const WorldError& error) {
    refuse(place, error.what(), kRemedy);
  }
}

}  // namespace muster::data
