#include "data/documents/reader.h"

#include <algorithm>
#include <optional>

#include "base/json.h"
#include "base/units.h"

namespace muster::data {
namespace {

constexpr int64_t kBlockBytes = MiB;

// The part of the file that has been read and not yet given out.
class Window {
 public:
  explicit Window(const Place& place) : place_(place), file_(open_place(place)), size_(file_.size()) {}

  std::string_view text() const { return std::string_view(buffer_).substr(begin_); }
  int64_t position() const { return read_ - std::ssize(text()); }
  int64_t size() const { return size_; }

  // False where the file has no more.
  bool grow() {
    const int64_t more = std::min(kBlockBytes, size_ - read_);
    if (more == 0) return false;
    if (std::ssize(text()) + more > kMostPieceBytes)
      refuse(place_,
             fmt::format("holds a line or text of more than {} from byte {}", format_bytes(kMostPieceBytes),
                         position()),
             "divide it into documents of a JSONL file");
    buffer_.erase(0, begin_);
    begin_ = 0;
    const size_t held = buffer_.size();
    buffer_.resize(held + static_cast<size_t>(more));
    file_.read_at(buffer_.data() + held, static_cast<size_t>(more), read_);
    read_ += more;
    return true;
  }

  std::string take(size_t bytes) {
    std::string taken(text().substr(0, bytes));
    begin_ += bytes;
    return taken;
  }

 private:
  Place place_;
  File file_;
  int64_t size_, read_ = 0;
  std::string buffer_;
  size_t begin_ = 0;
};

// Grows the window until `find(text, from)` gives the end of a piece, `from` being what was searched before;
// at the end of the file the rest is the last piece.
template <class Find>
size_t piece_end(Window& window, Find&& find) {
  size_t searched = 0;
  while (true) {
    if (const std::optional<size_t> end = find(window.text(), searched)) return *end;
    searched = window.text().size();
    if (!window.grow()) return searched;
  }
}

class LineReader : public Reader {
 public:
  explicit LineReader(const Place& place) : window_(place) {}
  int64_t size_bytes() const override { return window_.size(); }

  bool next(Piece& piece) override {
    const size_t end = piece_end(window_, [](std::string_view text, size_t from) -> std::optional<size_t> {
      const size_t found = text.find('\n', from);
      return found == text.npos ? std::nullopt : std::optional(found + 1);
    });
    if (end == 0) return false;
    piece.begin = window_.position();
    piece.line = ++line_;
    piece.text = window_.take(end);
    if (piece.text.ends_with('\n')) piece.text.pop_back();
    if (piece.text.ends_with('\r')) piece.text.pop_back();
    return true;
  }

 private:
  Window window_;
  int64_t line_ = 0;
};

bool is_letter(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

class TextReader : public Reader {
 public:
  TextReader(const Place& place, bool may_cut, int64_t least_bytes)
      : window_(place), may_cut_(may_cut), least_bytes_(static_cast<size_t>(least_bytes)) {}
  int64_t size_bytes() const override { return window_.size(); }

  bool next(Piece& piece) override {
    const size_t end =
        piece_end(window_, [this](std::string_view text, size_t from) { return find_cut(text, from); });
    if (end == 0) return false;
    piece = {"", window_.position(), 0};
    piece.text = window_.take(end);
    return true;
  }

 private:
  std::optional<size_t> find_cut(std::string_view text, size_t from) const {
    if (!may_cut_) return std::nullopt;
    for (size_t at = std::max({from, least_bytes_, size_t{2}}) - 1; at + 1 < text.size(); ++at)
      if (text[at] == ' ' && is_letter(text[at - 1]) && is_letter(text[at + 1])) return at;
    return std::nullopt;
  }

  Window window_;
  bool may_cut_;
  size_t least_bytes_;
};

[[noreturn]] void bad(const std::string& why) {
  throw WorldError(WorldError::Kind::data, why);
}

}  // namespace

std::unique_ptr<Reader> open_lines(const Place& place) {
  return std::make_unique<LineReader>(place);
}

std::unique_ptr<Reader> open_text(const Place& place, bool may_cut, int64_t least_bytes) {
  return std::make_unique<TextReader>(place, may_cut, least_bytes);
}

std::string text_of_line(std::string_view line, const std::string& key) {
  const Json json = parse_json(line, "the line");
  if (!json.is_object()) bad("the line is not an object");
  const auto text = json.find(key);
  if (text == json.end()) bad(fmt::format("the object has no \"{}\"", key));
  if (!text->is_string()) bad(fmt::format("\"{}\" is not a string", key));
  if (text->get_ref<const std::string&>().empty()) bad(fmt::format("\"{}\" is empty", key));
  return text->get<std::string>();
}

}  // namespace muster::data
