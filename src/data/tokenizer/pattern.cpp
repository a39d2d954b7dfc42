#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/tokenizer/pattern.h"

#include <pcre2.h>

#include <algorithm>

#include "base/error.h"

namespace muster::data {
namespace {

constexpr size_t kMostExpressionBytes = 16384;
constexpr uint32_t kMostSteps = 10'000'000;
constexpr uint32_t kMostHeapKibibytes = 65536;
constexpr size_t kJitStackBytes = 1 << 20;

// Unicode 15, PropList.txt, White_Space.
constexpr std::string_view kSpaces =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

template <auto Free>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};

[[noreturn]] void refuse_pattern(std::string_view expression, const std::string& why) {
  throw UserError({"data.tokenizer", std::string(expression.substr(0, 200)),
                   "its pre-tokenizer's pattern is not one that can be run: " + why,
                   "use another tokenizer"});
}

std::string message_of(int code) {
  unsigned char text[256] = {};
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

// Of the next escape, named class such as [:alpha:], or single byte.
size_t unit_length(std::string_view expression, bool in_class) {
  if (expression[0] == '\\') return std::min<size_t>(2, expression.size());
  const size_t end =
      in_class && expression.starts_with("[:") ? expression.find(":]") : std::string_view::npos;
  return end == std::string_view::npos ? 1 : end + 2;
}

PCRE2_SPTR units(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

}  // namespace

std::string spell_out_spaces(std::string_view expression) {
  std::string out;
  bool in_class = false;
  while (!expression.empty()) {
    const size_t length = unit_length(expression, in_class);
    const std::string_view unit = expression.substr(0, length);
    if (unit == "\\s") {
      out += in_class ? std::string(kSpaces) : fmt::format("[{}]", kSpaces);
    } else if (unit == "\\S" && !in_class) {
      out += fmt::format("[^{}]", kSpaces);
    } else {
      out += unit;
    }
    in_class = unit == "[" || (in_class && unit != "]");
    expression.remove_prefix(length);
  }
  return out;
}

struct Pattern::Compiled {
  std::unique_ptr<pcre2_code, Freed<pcre2_code_free>> code;
};

Pattern::Pattern(std::string_view expression) : compiled_(std::make_unique<Compiled>()) {
  if (expression.size() > kMostExpressionBytes) refuse_pattern(expression, "it is too long");
  const std::string spelled = spell_out_spaces(expression);
  int error = 0;
  size_t at = 0;
  compiled_->code.reset(pcre2_compile(units(spelled), spelled.size(),
                                      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr));
  if (!compiled_->code) refuse_pattern(expression, message_of(error));
  // Where there is no JIT the interpreter gives the same matches.
  pcre2_jit_compile(compiled_->code.get(), PCRE2_JIT_COMPLETE);
}

Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;

struct Pattern::Search::State {
  const pcre2_code* code;
  std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data_free>> match;
  std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context_free>> context;
  std::unique_ptr<pcre2_jit_stack, Freed<pcre2_jit_stack_free>> stack;
};

Pattern::Search::Search(const Pattern& pattern) : state_(std::make_unique<State>()) {
  state_->code = pattern.compiled_->code.get();
  state_->match.reset(pcre2_match_data_create(1, nullptr));
  state_->context.reset(pcre2_match_context_create(nullptr));
  state_->stack.reset(pcre2_jit_stack_create(32768, kJitStackBytes, nullptr));
  pcre2_set_match_limit(state_->context.get(), kMostSteps);
  pcre2_set_depth_limit(state_->context.get(), kMostSteps);
  pcre2_set_heap_limit(state_->context.get(), kMostHeapKibibytes);
  pcre2_jit_stack_assign(state_->context.get(), nullptr, state_->stack.get());
}

Pattern::Search::~Search() = default;
Pattern::Search::Search(Search&&) noexcept = default;

bool Pattern::Search::find(std::string_view text, size_t from, size_t& begin, size_t& end) {
  constexpr uint32_t kOptions = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
  int result = pcre2_match(state_->code, units(text), text.size(), from, kOptions, state_->match.get(),
                           state_->context.get());
  if (result == PCRE2_ERROR_JIT_STACKLIMIT)
    result = pcre2_match(state_->code, units(text), text.size(), from, kOptions | PCRE2_NO_JIT,
                         state_->match.get(), state_->context.get());
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result < 0)
    throw WorldError(
        WorldError::Kind::data,
        fmt::format("the tokenizer's pattern fails at byte {} of a text: {}", from, message_of(result)));
  const size_t* bounds = pcre2_get_ovector_pointer(state_->match.get());
  begin = bounds[0];
  end = bounds[1];
  return true;
}

}  // namespace muster::data
