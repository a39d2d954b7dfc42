// The few pieces of HTML that every section uses. Names in a run's files are untrusted: all text goes through
// escape().
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace muster::report {

// Safe as text and inside a quoted attribute.
std::string escape(std::string_view text);

// A titled part of the page; `lead` is one sentence under the title, `body` is HTML.
std::string section(std::string_view id, std::string_view title, std::string_view lead,
                    std::string_view body);
// What stands where a part has no data: what is missing, and what would bring it.
std::string missing(std::string_view why);
// Text in a box with a sign before it, so that colour is not all that tells.
enum class Verdict { good, bad, unknown };
std::string badge(Verdict verdict, std::string_view text);

// A table of cells that are HTML already; columns after the first `text_columns` are numbers.
std::string html_table(const std::vector<std::string>& header,
                       const std::vector<std::vector<std::string>>& rows, size_t text_columns);

// "61.2 %"
std::string percent(double fraction);

}  // namespace muster::report
