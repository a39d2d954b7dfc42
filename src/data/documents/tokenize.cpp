#include "data/documents/tokenize.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

#include "data/documents/reader.h"

namespace muster::data {
namespace {

constexpr int64_t kBatchBytes = int64_t{4} << 20;  // a thread

struct Encoded {
  std::vector<int32_t> ids;
  std::string fault;  // why a piece has no ids
};

class Tokenizing {
 public:
  Tokenizing(const Place& place, const Tokenizer& tokenizer, const TokenizeOptions& options,
             const IdSink& sink)
      : place_(place), options_(options), sink_(sink), lines_(options.format == "jsonl") {
    reader_ = lines_ ? open_lines(place) : open_text(place, tokenizer.may_cut_before_spaces());
    if (lines_ && options.end_each_document) end_ = tokenizer.end_of_text();
    const auto threads = options.threads > 0 ? options.threads : int64_t{std::thread::hardware_concurrency()};
    for (int64_t thread = 0; thread < std::max<int64_t>(threads, 1); ++thread)
      encoders_.push_back(tokenizer.encoder());
  }

  TokenizeCounts run(const Progress& progress) {
    for (std::vector<Piece> batch = read_batch(); !batch.empty(); batch = read_batch()) {
      const std::vector<Encoded> encoded = encode(batch);
      for (size_t at = 0; at < batch.size(); ++at) give_out(batch[at], encoded[at]);
      if (progress) progress(bytes_read_, reader_->size_bytes());
    }
    if (!lines_) end_document();
    return counts_;
  }

 private:
  std::vector<Piece> read_batch() {
    std::vector<Piece> batch;
    const int64_t most = kBatchBytes * std::ssize(encoders_);
    Piece piece;
    for (int64_t bytes = 0; bytes < most && reader_->next(piece); batch.push_back(std::move(piece))) {
      bytes += std::ssize(piece.text) + 1;
      bytes_read_ = piece.begin + std::ssize(piece.text);
    }
    return batch;
  }

  std::vector<Encoded> encode(const std::vector<Piece>& batch) {
    std::vector<Encoded> encoded(batch.size());
    std::atomic<size_t> next{0};
    std::vector<std::exception_ptr> failures(encoders_.size());
    const auto work = [&](size_t worker) {
      try {
        for (size_t at = next++; at < batch.size(); at = next++)
          encode(batch[at], *encoders_[worker], encoded[at]);
      } catch (...) {
        failures[worker] = std::current_exception();
      }
    };
    std::vector<std::jthread> threads;
    for (size_t worker = 1; worker < std::min(encoders_.size(), batch.size()); ++worker)
      threads.emplace_back(work, worker);
    work(0);
    threads.clear();
    for (const std::exception_ptr& failure : failures)
      if (failure) std::rethrow_exception(failure);
    return encoded;
  }

  void encode(const Piece& piece, Encoder& encoder, Encoded& encoded) const {
    try {
      encoder.encode(lines_ ? text_of_line(piece.text, options_.text_key) : piece.text, encoded.ids);
      if (end_) encoded.ids.push_back(*end_);
    } catch (const WorldError& error) {
      encoded.fault = error.what();
    }
  }

  void give_out(const Piece& piece, const Encoded& encoded) {
    if (!encoded.fault.empty()) return pass_over(piece, encoded.fault);
    sink_.append(encoded.ids);
    counts_.ids += std::ssize(encoded.ids);
    if (lines_) end_document();
  }

  void pass_over(const Piece& piece, const std::string& fault) {
    if (lines_ && options_.skip_bad_lines) {
      ++counts_.skipped_lines;
      return;
    }
    if (!lines_)
      refuse(place_, fmt::format("cannot be tokenized: in what begins at byte {}, {}", piece.begin, fault),
             "convert it to UTF-8, or use the tokenizer \"bytes\"");
    throw UserError({place_.field, fmt::format("{}:{}", place_.path.string(), piece.line), fault,
                     "correct the line, or set data.on_bad_line = \"skip\" (--skip-bad-lines)"});
  }

  void end_document() {
    sink_.end_document();
    ++counts_.documents;
  }

  const Place& place_;
  const TokenizeOptions& options_;
  const IdSink& sink_;
  bool lines_;
  std::unique_ptr<Reader> reader_;
  std::optional<int32_t> end_;
  std::vector<std::unique_ptr<Encoder>> encoders_;
  TokenizeCounts counts_;
  int64_t bytes_read_ = 0;
};

}  // namespace

TokenizeCounts tokenize(const Place& place, const Tokenizer& tokenizer, const TokenizeOptions& options,
                        const IdSink& sink, const Progress& progress) {
  return Tokenizing(place, tokenizer, options, sink).run(progress);
}

}  // namespace muster::data
