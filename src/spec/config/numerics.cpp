// Number formats by the names of [numerics].
#include "base/error.h"
#include "spec/config/job.h"

namespace muster::spec {

int64_t bytes_of_format(const std::string& format) {
  struct Size {
    const char* name;
    int64_t bytes;
  };
  for (const Size& size : {Size{"float64", 8}, {"float32", 4}, {"bfloat16", 2}, {"float16", 2}})
    if (format == size.name) return size.bytes;
  throw Bug("no format " + format);
}

}  // namespace muster::spec
