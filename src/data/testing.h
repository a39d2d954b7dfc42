// What the tests of this room share: a folder of their own, files in it, a job on them.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "spec/config/job.h"

namespace muster::data {

class TempFolder : public ::testing::Test {
 protected:
  TempFolder() {
    std::string pattern = (fs::temp_directory_path() / "muster-data-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    ::setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1);
  }
  ~TempFolder() override { fs::remove_all(folder_); }

  fs::path file(const std::string& name) const { return folder_ / name; }
  void write(const std::string& name, std::string_view text) const { write_text(file(name), text); }
  template <class Id>
  void write_ids(const std::string& name, const std::vector<Id>& ids) const {
    write(name, {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(Id)});
  }

  spec::Job job(const std::string& path, const std::string& format, int64_t sequence_length) const {
    spec::Job job;
    job.path = file("job.toml").string();
    job.model.vocab_size = 65536;
    if (!path.empty()) job.data.path = file(path).string();
    job.data.format = format;
    job.data.sequence_length = sequence_length;
    job.data.order = "sequential";
    return job;
  }

 private:
  fs::path folder_;
};

}  // namespace muster::data
