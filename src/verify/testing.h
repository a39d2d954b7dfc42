// What the tests of this room share: a folder with ids below 61, gone with its test.
#pragma once
#include <gtest/gtest.h>
#include <stdlib.h>

#include "base/file.h"
#include "device/ledger.h"

namespace muster::verify {

[[maybe_unused]] inline const bool kLedgers = (device::install_ledgers(), true);

class IdsFolder : public ::testing::Test {
 protected:
  IdsFolder() {
    std::string pattern = "/tmp/muster-verify-test-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    std::string ids;
    for (int at = 0; at < 1000; ++at) ids += {static_cast<char>(at * 7 % 61), '\0'};
    write_text(folder_ / "ids.bin", ids);
  }
  ~IdsFolder() override { fs::remove_all(folder_); }

  fs::path folder_;
};

}  // namespace muster::verify
