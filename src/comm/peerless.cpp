#include "comm/peerless.h"

#include "comm/state.h"

namespace muster::comm {
namespace {

class DoneWork final : public c10d::Work {
 public:
  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds) override { return true; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return {}; }
};

class Peerless final : public c10d::Backend {
 public:
  using Works = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using Counts = std::vector<int64_t>;

  Peerless(int rank, int size) : Backend(rank, size) {}
  const std::string getBackendName() const override { return "peerless"; }

  Works allreduce(Tensors&, const c10d::AllreduceOptions&) override { return done(); }
  Works broadcast(Tensors&, const c10d::BroadcastOptions&) override { return done(); }
  Works all_gather_single(at::Tensor&, at::Tensor&, const c10d::AllgatherOptions&) override { return done(); }
  Works all_to_all_single(at::Tensor&, at::Tensor&, Counts&, Counts&, const c10d::AllToAllOptions&) override {
    return done();
  }
  Works send(Tensors&, int, int) override { return done(); }
  Works recv(Tensors&, int, int) override { return done(); }
  Works barrier(const c10d::BarrierOptions&) override { return done(); }

 private:
  static Works done() { return c10::make_intrusive<DoneWork>(); }
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_peerless(int rank, int size) {
  return c10::make_intrusive<Peerless>(rank, size);
}

Groups without_peers(const spec::Mesh& mesh, int64_t rank, const std::string& device) {
  return make_groups(mesh, rank, /*timeout=*/{}, [&device](const Group& group) {
    Wire wire;
    wire.backend = make_peerless(static_cast<int>(group.rank), static_cast<int>(group.size()));
    wire.timed = false;
    wire.is_slow_to_wake = device == "cpu";
    return wire;
  });
}

}  // namespace muster::comm
