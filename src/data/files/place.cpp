#include "data/files/place.h"

namespace muster::data {

File open_place(const Place& place) {
  std::error_code error;
  const fs::file_status status = fs::status(place.path, error);
  if (!fs::exists(status))
    refuse(place, "there is no such file",
           "name a file that is there: in a job, paths start from the job's folder; on the command line, "
           "from the current one");
  if (!fs::is_regular_file(status)) refuse(place, "is not a plain file", "give the path of one file");
  return File::open_read(place.path);
}

}  // namespace muster::data
