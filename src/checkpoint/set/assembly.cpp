#include "checkpoint/set/assembly.h"

#include <ATen/ATen.h>

#include <cstring>

namespace muster::checkpoint {
namespace {

int64_t maximum_on(comm::Communicator& axis, int64_t own, at::Device device) {
  const at::Tensor number = at::full({1}, own, at::TensorOptions().dtype(at::kLong).device(device));
  axis.all_reduce(number, comm::Reduce::maximum).wait();
  return number.item<int64_t>();
}

// Every rank's bytes along one axis, in rank order; ranks may differ in length.
std::vector<std::string> gather_on(comm::Communicator& axis, const std::string& own, at::Device device) {
  const int64_t room = 8 + maximum_on(axis, static_cast<int64_t>(own.size()), device);
  const uint64_t length = own.size();
  const at::Tensor in = at::zeros({room}, at::kByte);
  std::memcpy(in.data_ptr(), &length, 8);
  std::memcpy(in.data_ptr<uint8_t>() + 8, own.data(), own.size());
  const at::Tensor out = at::empty({axis.size() * room}, at::TensorOptions().dtype(at::kByte).device(device));
  axis.all_gather(out, in.to(device)).wait();
  const at::Tensor host = out.cpu();
  std::vector<std::string> texts;
  for (int64_t rank = 0; rank < axis.size(); ++rank) {
    const auto* slot = host.data_ptr<uint8_t>() + rank * room;
    uint64_t size = 0;
    std::memcpy(&size, slot, 8);
    texts.emplace_back(reinterpret_cast<const char*>(slot) + 8, size);
  }
  return texts;
}

}  // namespace

std::vector<std::string> Assembly::gather(const std::string& own) {
  std::vector<std::string> known{own};
  for (spec::Axis name : spec::kWorldAxes) {
    comm::Communicator& axis = groups_->on(name);
    if (axis.size() == 1) continue;
    std::vector<std::string> all;
    for (const std::string& bundle : gather_on(axis, Json(known).dump(), device_))
      for (const Json& text : parse_json(bundle, "what a peer tells")) all.push_back(text);
    known = std::move(all);
  }
  return known;
}

int64_t Assembly::maximum(int64_t own) {
  for (spec::Axis name : spec::kWorldAxes) {
    comm::Communicator& axis = groups_->on(name);
    if (axis.size() > 1) own = maximum_on(axis, own, device_);
  }
  return own;
}

}  // namespace muster::checkpoint
