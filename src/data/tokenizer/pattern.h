// The regular expression that cuts text into words before byte pairs are merged.
#pragma once
#include <memory>
#include <string>
#include <string_view>

namespace muster::data {

// Compiled once, shared by threads. The expression is untrusted: its length, nesting and the work of one
// match are limited. `\s` is Unicode's White_Space, as in Oniguruma, which the `tokenizers` package uses.
class Pattern {
 public:
  // Throws UserError on data.tokenizer.
  explicit Pattern(std::string_view expression);
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;

  // One thread's search.
  class Search {
   public:
    explicit Search(const Pattern& pattern);
    ~Search();
    Search(Search&&) noexcept;
    // The first match at or after `from`: [begin, end). False where there is none. An empty match is none.
    // Throws WorldError(data) where it costs more than the limits.
    bool find(std::string_view text, size_t from, size_t& begin, size_t& end);

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

// `\s` and `\S` spelled out, so that every engine reads them alike.
std::string spell_out_spaces(std::string_view expression);

}  // namespace muster::data
