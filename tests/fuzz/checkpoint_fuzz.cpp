// Gives damaged files to every reader of a checkpoint, under the address and undefined-behaviour sanitizers.
// The files are those of a run of the program. Each input must be refused by a WorldError or be read, within
// a second and without an allocation above 64 MB; a checkpoint one of whose files has changed must be
// refused. RELIABILITY scenarios 19, 20 and 42.
//
//   fuzz_checkpoint [SECONDS [FIRST]]     10 s; 600 with MUSTER_SOAK=1. FIRST: the number of the first input.
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <map>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/set/catalog.h"
#include "checkpoint/set/note.h"
#include "checkpoint/weight_index.h"
#include "tests/fuzz/mutation.h"
#include "tests/program.h"

extern "C" const char* __asan_default_options() {
  return "max_allocation_size_mb=64:detect_stack_use_after_return=1";
}

namespace muster::checkpoint {
namespace {

const Log kQuiet("", LogLevel::error, -1);

// A promise about a reader that an input broke.
struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void expect(bool holds, const std::string& what) {
  if (!holds) throw Broken(what);
}

// In place of the other files' lasting writes, which would take all the time.
void put(const fs::path& path, const std::string& bytes) {
  FILE* file = std::fopen(path.c_str(), "wb");
  expect(file && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size() && std::fclose(file) == 0,
         "cannot write " + path.string());
}

class Fuzzer {
 public:
  Fuzzer() {
    test::small_job(folder_, "llama");
    std::string text = read_text(folder_ / "job.toml");
    for (const auto& [from, to] : {std::pair("hidden_size = 32", "hidden_size = 8"),
                                   {"num_hidden_layers = 3", "num_hidden_layers = 1"},
                                   {"intermediate_size = 48", "intermediate_size = 8"},
                                   {"steps = 6", "steps = 2"}})
      text.replace(text.find(from), std::string(from).size(), to);
    write_text(folder_ / "job.toml", text + "[checkpoint]\nevery = 1\n");
    const test::Outcome run = test::muster(fmt::format("train {}/job.toml --procs 2 --run {}/run",
                                                       folder_.path().string(), folder_.path().string()));
    expect(run.status == 0, "the run that makes the files failed: " + run.err);
    set_ = root_ / "step-00000002.g1";
    files_ = files_in(set_);
    before_ = files_in(root_ / "step-00000001.g1");
    shard_ = files_.rbegin()->first;
    expect(files_.size() == 4 && shard_.ends_with(".st"), "two shards, a manifest and a COMMIT");
    manifest_ = files_.at(kManifest);
    const std::string& shard = files_.at(shard_);
    uint64_t bytes = 0;
    std::memcpy(&bytes, shard.data(), sizeof bytes);
    header_ = shard.substr(8, bytes);
    claim_ = read_text(root_ / "claims/g1.json");
    verify_contents(set_, open_checkpoint(set_).manifest);
    fs::create_directory(scratch_);
  }

  const char* reader(uint64_t number) const { return kReaders[number % std::size(kReaders)].first; }
  // Input `number`, always the same. Throws what the reader throws, and Broken.
  void run(uint64_t number) {
    test::Mutation mutation(number);
    (this->*kReaders[number % std::size(kReaders)].second)(mutation);
  }

 private:
  static std::map<std::string, std::string> files_in(const fs::path& folder) {
    std::map<std::string, std::string> files;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
      files[entry.path().filename().string()] = read_text(entry.path());
    return files;
  }

  std::string harmed_json(test::Mutation& mutation, const std::string& text, const std::string& other) {
    return mutation.one_in(2) ? mutation.harm_json(text) : mutation.harm(text, other);
  }

  void manifest(test::Mutation& mutation) { parse_manifest(harmed_json(mutation, manifest_, header_), "m"); }
  void header(test::Mutation& mutation) {
    const auto bytes = static_cast<int64_t>(files_.at(shard_).size() - 8 - header_.size());
    parse_safetensors_header(harmed_json(mutation, header_, manifest_), bytes, "h");
  }
  void shard(test::Mutation& mutation) {
    const fs::path path = scratch_ / "shard.safetensors";
    put(path, mutation.harm(files_.at(shard_), manifest_));
    const SafetensorsFile file(path);
    for (const TensorEntry& tensor : file.tensors()) {
      std::string bytes(static_cast<size_t>(tensor.bytes()), '\0');
      file.read(tensor, 0, tensor.bytes(), bytes.data());
    }
  }
  void note(test::Mutation& mutation) {
    std::string json = Json::parse(manifest_).dump();
    const bool is_hashed = mutation.one_in(2);
    if (is_hashed) json = harmed_json(mutation, json, header_);
    std::erase(json, '\n');
    std::string text = json + "\n" + hash_text(hash64(json)) + "\n";
    if (!is_hashed) text = mutation.harm(text, header_);
    put(scratch_ / note_name(0), text);
    read_note(scratch_, 0);
  }
  void claim(test::Mutation& mutation) {
    const fs::path claims = scratch_ / "claims";
    fs::create_directories(claims);
    put(claims / "g1.json", harmed_json(mutation, claim_, manifest_));
    in_lineage({2, 1}, read_claims(scratch_, kQuiet));
  }
  void names(test::Mutation& mutation) {
    const std::string name = mutation.harm(mutation.one_in(2) ? "step-00000002.g1" : shard_, claim_);
    const auto parsed = parse_set_name(name);
    expect(!parsed || to_string(*parsed) == name, "a name of two spellings: " + name);
    expect(!is_plain_name(name) || (name.find('/') == name.npos && name[0] != '.'),
           "a name that leaves: " + name);
  }
  void index(test::Mutation& mutation) {
    const WeightIndex index{{{"a", "model-1.safetensors"}, {"b", "model-2.safetensors"}}};
    parse_weight_index(harmed_json(mutation, weight_index_text(index, 12), header_), "i");
  }

  // The whole folder: what is not as written must be found.
  void folder(test::Mutation& mutation) {
    switch (mutation.below(4)) {
      case 0:
        return forged_manifest(mutation);
      case 1:
        return strange_entry(mutation);
      default:
        return changed_file(mutation);
    }
  }

  // A manifest that may say anything, and the COMMIT that fits it.
  void forged_manifest(test::Mutation& mutation) {
    const std::string text = harmed_json(mutation, manifest_, header_);
    put(set_ / kManifest, text);
    put(set_ / kCommit, commit_text({2, 1}, text));
    is_taken();
    restore();
  }

  // Any file harmed, or with another's bytes: of this checkpoint or of the one before it.
  void changed_file(test::Mutation& mutation) {
    const auto pick = [&](const std::map<std::string, std::string>& files) {
      auto file = files.begin();
      std::advance(file, static_cast<std::ptrdiff_t>(mutation.below(files.size())));
      return *file;
    };
    const auto [name, bytes] = pick(files_);
    const std::string other = pick(mutation.one_in(2) ? files_ : before_).second;
    const std::string now = mutation.one_in(4) ? other : mutation.harm(bytes, other);
    put(set_ / name, now);
    const bool taken = is_taken();
    restore();
    expect(!taken || now == bytes, "damage to " + name + " was not found");
  }

  // A file, a folder or a link that is not of the checkpoint, or in place of one of its files.
  void strange_entry(test::Mutation& mutation) {
    const bool in_place = mutation.one_in(2);
    const fs::path path = set_ / (in_place ? shard_ : ".r0" + std::to_string(mutation.below(100)));
    const fs::path outside = folder_ / "outside";
    put(outside, files_.at(shard_));
    fs::remove(path);
    const size_t kind = mutation.below(3);
    if (kind == 0) fs::create_directory(path);
    if (kind == 1) fs::create_symlink(outside, path);
    if (kind == 2 && !in_place) put(path, "");
    const bool taken = is_taken();
    fs::remove(path);
    restore();
    expect(!taken, "a strange entry was not found: " + path.filename().string());
    expect(read_text(outside) == files_.at(shard_), "a file outside was changed");
  }

  // Whether a reader takes the checkpoint for whole.
  bool is_taken() const {
    for (const Listed& listed : list_checkpoints(root_, kQuiet)) {
      if (listed.name != SetName{2, 1} || listed.standing != Standing::valid) continue;
      try {
        verify_contents(set_, listed.opened->manifest);
        return true;
      } catch (const WorldError&) {
        return false;
      }
    }
    return false;
  }
  void restore() const {
    for (const auto& [name, bytes] : files_) put(set_ / name, bytes);
  }

  // In turn; what costs little comes more often.
  static constexpr std::pair<const char*, void (Fuzzer::*)(test::Mutation&)> kReaders[] = {
      {"header", &Fuzzer::header}, {"manifest", &Fuzzer::manifest}, {"shard", &Fuzzer::shard},
      {"index", &Fuzzer::index},   {"header", &Fuzzer::header},     {"claim", &Fuzzer::claim},
      {"note", &Fuzzer::note},     {"header", &Fuzzer::header},     {"manifest", &Fuzzer::manifest},
      {"shard", &Fuzzer::shard},   {"names", &Fuzzer::names},       {"folder", &Fuzzer::folder}};

  test::Folder folder_;
  fs::path root_ = folder_ / "run/checkpoints", scratch_ = folder_ / "scratch", set_;
  std::map<std::string, std::string> files_, before_;  // of step 2 and of step 1
  std::string shard_, manifest_, header_, claim_;
};

constexpr uint64_t kFewestInputs = 1000;  // however slow the machine is

struct Count {
  uint64_t inputs = 0, refused = 0;
  double seconds = 0;
};

int fuzz(double seconds, uint64_t first) {
  Fuzzer fuzzer;
  std::map<std::string, Count> counts;
  const auto start = std::chrono::steady_clock::now();
  const auto since = [](auto then) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
  };
  for (uint64_t number = first; since(start) < seconds || number < first + kFewestInputs; ++number) {
    Count& count = counts[fuzzer.reader(number)];
    ++count.inputs;
    const auto before = std::chrono::steady_clock::now();
    try {
      fuzzer.run(number);
    } catch (const WorldError&) {
      ++count.refused;
    } catch (const std::exception& error) {
      fmt::print(stderr, "input {} of {}: {}\n", number, fuzzer.reader(number), error.what());
      return 1;
    }
    const double took = since(before);
    count.seconds += took;
    if (took > 1) {
      fmt::print(stderr, "input {} of {}: it took {:.1f} s\n", number, fuzzer.reader(number), took);
      return 1;
    }
  }
  for (const auto& [reader, count] : counts)
    fmt::print("{:10} {:8} inputs, {:8} refused, {:.1f} s\n", reader, count.inputs, count.refused,
               count.seconds);
  return 0;
}

}  // namespace
}  // namespace muster::checkpoint

int main(int arguments, char** argument) {
  const double seconds = arguments > 1 ? std::stod(argument[1]) : muster::test::is_soak() ? 600 : 10;
  return muster::checkpoint::fuzz(seconds, arguments > 2 ? std::stoull(argument[2]) : 0);
}
