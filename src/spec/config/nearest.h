// The name that a misspelt one probably meant.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

namespace muster::spec {

// The candidate with the fewest edits (insert, delete, replace a letter), if no more than a third of the
// word's letters change.
std::optional<std::string_view> nearest(std::string_view word,
                                        const std::vector<std::string_view>& candidates);

}  // namespace muster::spec
