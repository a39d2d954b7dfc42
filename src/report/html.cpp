#include "report/html.h"

#include <fmt/format.h>

namespace muster::report {

std::string escape(std::string_view text) {
  std::string safe;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += letter;
    }
  }
  return safe;
}

std::string section(std::string_view id, std::string_view title, std::string_view lead,
                    std::string_view body) {
  return fmt::format("<section id=\"{}\"><h2>{}</h2>{}{}</section>\n", escape(id), escape(title),
                     lead.empty() ? "" : fmt::format("<p class=\"lead\">{}</p>", escape(lead)), body);
}

std::string missing(std::string_view why) {
  return fmt::format("<p class=\"missing\">{}</p>", escape(why));
}

std::string badge(Verdict verdict, std::string_view text) {
  static constexpr const char* kClasses[] = {"good", "bad", "unknown"};
  static constexpr const char* kSigns[] = {"✓", "✗", "–"};
  const auto which = static_cast<size_t>(verdict);
  return fmt::format("<span class=\"badge {}\"><b>{}</b> {}</span>", kClasses[which], kSigns[which],
                     escape(text));
}

namespace {

std::string table_row(const std::vector<std::string>& cells, const char* tag, size_t text_columns) {
  std::string row = "<tr>";
  for (size_t column = 0; column < cells.size(); ++column)
    row += fmt::format("<{0}{1}>{2}</{0}>", tag, column < text_columns ? "" : " class=\"number\"",
                       cells[column]);
  return row + "</tr>";
}

}  // namespace

std::string html_table(const std::vector<std::string>& header,
                       const std::vector<std::vector<std::string>>& rows, size_t text_columns) {
  std::string body;
  for (const auto& row : rows) body += table_row(row, "td", text_columns);
  return fmt::format("<div class=\"scroll\"><table><thead>{}</thead><tbody>{}</tbody></table></div>",
                     table_row(header, "th", text_columns), body);
}

std::string percent(double fraction) {
  return fmt::format("{:.1f} %", 100 * fraction);
}

}  // namespace muster::report
