// `muster data`: text into files of ids, and a look into such files.
#include <cstdio>

#include "base/json.h"
#include "base/table.h"
#include "base/units.h"
#include "cli/front/verbs.h"
#include "cli/job_options.h"
#include "cli/progress_bar.h"
#include "cli/verb.h"
#include "data/documents/tokenize.h"
#include "data/files/megatron.h"
#include "data/order/window_order.h"
#include "data/source.h"

namespace muster::cli {
namespace {

struct TokenizeCommand {
  std::string in, out;
  std::string tokenizer = "bytes";
  std::string to = "megatron";
  data::TokenizeOptions options{.format = ""};
  bool json = false;
};

struct InfoCommand {
  std::string path;
  std::string format;
  std::string tokenizer;
  int64_t sequence_length = spec::DataConfig().sequence_length;
  bool json = false;
};

// What a file holds by its name, where --format does not say.
std::string format_of(const fs::path& path, const std::string& given) {
  if (!given.empty()) return given;
  if (path.extension() == ".jsonl") return "jsonl";
  if (path.extension() == ".txt") return "text";
  if (fs::is_regular_file(data::megatron_pair({path, "PATH"}).idx.path)) return "megatron";
  throw UserError({"--format", path.string(), "does not follow from the name of the file",
                   "give text, jsonl, megatron, uint16 or uint32"});
}

struct Written {
  data::TokenizeCounts counts;
  data::IdType type;
  std::vector<std::string> files;
};

Written write_megatron(const TokenizeCommand& command, const data::Tokenizer& tokenizer,
                       const data::Progress& progress) {
  const std::string prefix =
      data::megatron_pair({command.out, "OUT"}).bin.path.replace_extension("").string();
  data::MegatronWriter writer(prefix, tokenizer.vocabulary() - 1);
  const data::IdSink sink{[&](std::span<const int32_t> ids) { writer.append(ids); },
                          [&] { writer.end_document(); }};
  const auto counts = data::tokenize({command.in, "IN"}, tokenizer, command.options, sink, progress);
  writer.commit();
  return {counts, writer.bin().type(), {prefix + ".bin", prefix + ".idx"}};
}

Written write_flat(const TokenizeCommand& command, const data::Tokenizer& tokenizer,
                   const data::Progress& progress) {
  data::IdWriter writer(command.out, data::narrowest(tokenizer.vocabulary() - 1, data::IdType::u16));
  const data::IdSink sink{[&](std::span<const int32_t> ids) { writer.append(ids); }, [] {}};
  const auto counts = data::tokenize({command.in, "IN"}, tokenizer, command.options, sink, progress);
  writer.commit();
  return {counts, writer.type(), {command.out}};
}

// {"files", "documents", "ids", "id_bytes", "vocabulary", "skipped_lines", "seconds"}
void print_written(const TokenizeCommand& command, const Written& written, int64_t vocabulary,
                   double seconds) {
  const data::TokenizeCounts& counts = written.counts;
  if (command.json) {
    const Json json = {{"files", written.files},   {"documents", counts.documents},
                       {"ids", counts.ids},        {"id_bytes", data::bytes_of(written.type)},
                       {"vocabulary", vocabulary}, {"skipped_lines", counts.skipped_lines},
                       {"seconds", seconds}};
    std::printf("%s\n", json.dump().c_str());
    return;
  }
  std::printf("%s: %s documents, %s ids of %ld bytes, in %s\n", written.files[0].c_str(),
              format_exact(counts.documents).c_str(), format_exact(counts.ids).c_str(),
              static_cast<long>(data::bytes_of(written.type)), format_seconds(seconds).c_str());
  if (counts.skipped_lines > 0)
    std::printf("%s bad lines skipped\n", format_exact(counts.skipped_lines).c_str());
}

int tokenize(TokenizeCommand command) {
  command.options.format = format_of(command.in, command.options.format);
  const auto tokenizer = data::load_tokenizer(command.tokenizer);
  const Clock clock;
  const double started = clock.seconds();
  ProgressBar bar("tokenize");
  const auto progress = [&](int64_t done, int64_t all) { bar.show(done, all); };
  const Written written = command.to == "flat" ? write_flat(command, *tokenizer, progress)
                                               : write_megatron(command, *tokenizer, progress);
  bar.clear();
  print_written(command, written, tokenizer->vocabulary(), clock.seconds() - started);
  return 0;
}

spec::Job job_of(const InfoCommand& command) {
  spec::Job job;
  job.data.path = command.path;
  job.data.format = format_of(command.path, command.format);
  if (!command.tokenizer.empty()) job.data.tokenizer = command.tokenizer;
  job.data.sequence_length = command.sequence_length;
  return job;
}

std::optional<int64_t> documents_in(const spec::Job& job, const data::Sources& sources,
                                    const data::Place& place) {
  if (job.data.format == "megatron") return data::check_megatron(place).documents;
  if (sources.is_tokenized()) return sources.tokenized(place, {}).documents;
  return job.data.format == "text" ? std::optional<int64_t>(1) : std::nullopt;
}

// The first ids as text; files of ids need --tokenizer for it.
std::optional<std::string> excerpt(const InfoCommand& command, const spec::Job& job,
                                   const data::TokenFile& file) {
  constexpr int64_t kExcerptIds = 64;
  const bool is_text = job.data.format == "text" || job.data.format == "jsonl";
  if (!is_text && command.tokenizer.empty()) return std::nullopt;
  std::vector<int32_t> ids(static_cast<size_t>(std::min(kExcerptIds, file.ids())));
  file.read(0, ids);
  return data::load_tokenizer(job.data.tokenizer)->decode(ids);
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

// {"path", "format", "ids", "id_bytes", "documents", "sequence_length", "windows", "largest_id", "checksum",
//  "excerpt"}; null for what the file does not tell.
Json describe(const InfoCommand& command) {
  const spec::Job job = job_of(command);
  const data::Sources sources(job);
  const data::Place place = data::training_places(job).front();
  const data::TokenFile file = sources.open(place);
  return {{"path", command.path},
          {"format", job.data.format},
          {"ids", file.ids()},
          {"id_bytes", data::bytes_of(file.type())},
          {"documents", or_null(documents_in(job, sources, place))},
          {"sequence_length", command.sequence_length},
          {"windows", data::window_count(file.ids(), command.sequence_length)},
          {"largest_id", or_null(file.largest())},
          {"checksum", fmt::format("xxh3-{:016x}", file.checksum())},
          {"excerpt", or_null(excerpt(command, job, file))}};
}

// Text from a file may hold anything: bytes that are not UTF-8 are replaced, controls escaped.
std::string shown(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

int info(const InfoCommand& command) {
  const Json facts = describe(command);
  if (command.json) {
    std::printf("%s\n", shown(facts).c_str());
    return 0;
  }
  Table table({"what", "value"});
  for (const auto& [key, value] : facts.items())
    table.add({key, value.is_null()                         ? "unknown"
                    : value.is_string() && key != "excerpt" ? value.get<std::string>()
                                                            : shown(value)});
  std::printf("%s", table.text().c_str());
  return 0;
}

CLI::App* add_tokenize(CLI::App& app, TokenizeCommand& command) {
  CLI::App* verb = app.add_subcommand("tokenize", "text or JSONL into a Megatron pair or a flat file of ids");
  verb->add_option("IN", command.in, "the text")->required();
  verb->add_option("OUT", command.out, "PREFIX of PREFIX.bin and PREFIX.idx, or the flat file")->required();
  verb->add_option("--tokenizer", command.tokenizer, "bytes, or the path of a tokenizer.json")
      ->capture_default_str();
  verb->add_option("--format", command.options.format, "text | jsonl; else by the name of IN")
      ->check(CLI::IsMember({"text", "jsonl"}));
  verb->add_option("--to", command.to, "megatron | flat (uint16, or uint32 where ids need it)")
      ->check(CLI::IsMember({"megatron", "flat"}))
      ->capture_default_str();
  verb->add_option("--text-key", command.options.text_key, "the key of the text in a line of JSONL")
      ->capture_default_str();
  verb->add_flag("--skip-bad-lines", command.options.skip_bad_lines,
                 "count bad lines of JSONL instead of stopping");
  verb->add_flag("!--no-end", command.options.end_each_document,
                 "no end token after the documents of a JSONL file");
  verb->add_option("--threads", command.options.threads, "0: one a core")->check(CLI::NonNegativeNumber);
  verb->add_flag("--json", command.json, "one JSON object on stdout");
  verb->footer("example: muster data tokenize corpus.jsonl corpus --tokenizer llama3/tokenizer.json");
  return verb;
}

CLI::App* add_info(CLI::App& app, InfoCommand& command) {
  CLI::App* verb =
      app.add_subcommand("info", "what a data set holds: ids, documents, windows, largest id, checksum");
  verb->add_option("PATH", command.path, "text, JSONL, a Megatron pair or a flat file of ids")->required();
  verb->add_option("--format", command.format,
                   "text | jsonl | megatron | uint16 | uint32; else by the name of PATH")
      ->check(CLI::IsMember({"text", "jsonl", "megatron", "uint16", "uint32"}));
  verb->add_option("--tokenizer", command.tokenizer,
                   "tokenizes text, and shows the first ids of any file as text");
  verb->add_option("--sequence-length", command.sequence_length, "of the windows that are counted")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb->add_flag("--json", command.json, "one JSON object on stdout");
  verb->footer("example: muster data info corpus.bin --tokenizer llama3/tokenizer.json");
  return verb;
}

}  // namespace

int data(int argc, char** argv) {
  CLI::App app("tokenize and look into data sets", "muster data");
  TokenizeCommand tokenize_command;
  InfoCommand info_command;
  const CLI::App* tokenize_verb = add_tokenize(app, tokenize_command);
  add_info(app, info_command);
  app.require_subcommand(1);
  app.footer("example: muster data tokenize book.txt book");
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  return guarded("data",
                 [&] { return tokenize_verb->parsed() ? tokenize(tokenize_command) : info(info_command); });
}

}  // namespace muster::cli
