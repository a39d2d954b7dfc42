// A file that the job names, with the setting that named it, for messages.
#pragma once
#include <string>

#include "base/error.h"
#include "base/file.h"

namespace muster::data {

struct Place {
  fs::path path;
  std::string field;  // "data.path"
};

// Opens it for reading; a UserError says that it is not there, or not a plain file.
File open_place(const Place& place);

[[noreturn]] inline void refuse(const Place& place, std::string rule, std::string remedy) {
  throw UserError({place.field, place.path.string(), std::move(rule), std::move(remedy)});
}

}  // namespace muster::data
