#include "device/ledger.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstdlib>

namespace muster::device {
namespace {

constexpr size_t kHeaderBytes = 64;  // keeps the data on a cache line of its own
// A thread's own category while it holds a guard. Threads that never do, such as those of a parallel loop
// inside an operator, allocate for whoever set the process's category last.
thread_local std::optional<Category> t_category;
std::atomic<Category> g_category{Category::other};

// Stands in front of the data (cpu) or instead of it (meta).
struct Header {
  int64_t bytes;
  Category category;
};
static_assert(sizeof(Header) <= kHeaderBytes);

Ledger& cpu_ledger() {
  static Ledger ledger;
  return ledger;
}
Ledger& meta_ledger() {
  static Ledger ledger;
  return ledger;
}

Header* header_of(void* data) {
  return reinterpret_cast<Header*>(static_cast<char*>(data) - kHeaderBytes);
}

void free_cpu(void* data) {
  if (!data) return;
  Header* header = header_of(data);
  cpu_ledger().book(-header->bytes, header->category);
  std::free(header);
}

class CpuAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &free_cpu, c10::Device(c10::kCPU)};
    void* block = nullptr;
    if (posix_memalign(&block, kHeaderBytes, kHeaderBytes + bytes) != 0)
      throw c10::OutOfMemoryError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
                                  "cannot allocate " + std::to_string(bytes) + " bytes of host memory");
    const auto* header = new (block) Header{static_cast<int64_t>(bytes), current_category()};
    cpu_ledger().book(static_cast<int64_t>(bytes), header->category);
    void* data = static_cast<char*>(block) + kHeaderBytes;
    return {data, data, &free_cpu, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_cpu; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

void free_meta(void* context) {
  if (!context) return;
  auto* header = static_cast<Header*>(context);
  meta_ledger().book(-header->bytes, header->category);
  delete header;
}

// Shapes without storage: the data pointer is null, the context is the header, so that the deleter runs.
class MetaAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &free_meta, c10::Device(c10::kMeta)};
    auto* header = new Header{static_cast<int64_t>(bytes), current_category()};
    meta_ledger().book(header->bytes, header->category);
    return {nullptr, header, &free_meta, c10::Device(c10::kMeta)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, size_t) const override {}
};

}  // namespace

int64_t Ledger::live(Category category) const {
  std::lock_guard lock(mutex_);
  return live_[static_cast<size_t>(category)];
}
int64_t Ledger::live() const {
  std::lock_guard lock(mutex_);
  return total_;
}
int64_t Ledger::peak() const {
  std::lock_guard lock(mutex_);
  return peak_;
}
int64_t Ledger::scratch_peak() const {
  std::lock_guard lock(mutex_);
  return scratch_peak_;
}
void Ledger::reset_peak() {
  std::lock_guard lock(mutex_);
  peak_ = total_;
  scratch_peak_ = live_[static_cast<size_t>(Category::scratch)];
}
void Ledger::start_recording(std::vector<telemetry::MemoryEvent>* events) {
  std::lock_guard lock(mutex_);
  events_ = events;
}
void Ledger::stop_recording() {
  start_recording(nullptr);
}

void Ledger::book(int64_t bytes, Category category) {
  std::lock_guard lock(mutex_);
  apply(bytes, category);
}

void Ledger::move(int64_t bytes, Category from, Category to) {
  if (from == to) return;
  std::lock_guard lock(mutex_);
  apply(-bytes, from);
  apply(bytes, to);
}

void Ledger::apply(int64_t bytes, Category category) {
  int64_t& live = live_[static_cast<size_t>(category)];
  live += bytes;
  if (category == Category::scratch) scratch_peak_ = std::max(scratch_peak_, live);
  if (telemetry::is_on_device(category)) {
    total_ += bytes;
    peak_ = std::max(peak_, total_);
  }
  if (events_) events_->push_back({bytes, category});
}

void install_ledgers() {
  static CpuAllocator cpu;
  static MetaAllocator meta;
  static const bool done = [] {
    c10::SetCPUAllocator(&cpu, /*priority=*/1);
    c10::SetAllocator(c10::kMeta, &meta, /*priority=*/1);
    return true;
  }();
  (void)done;
}

Ledger& ledger(at::DeviceType type) {
  return type == at::kMeta ? meta_ledger() : cpu_ledger();
}

CategoryGuard::CategoryGuard(Category category) : before_(t_category), process_before_(g_category) {
  t_category = category;
  g_category = category;
}
CategoryGuard::~CategoryGuard() {
  t_category = before_;
  g_category = process_before_;
}
Category current_category() {
  return t_category.value_or(g_category);
}

void retag(const at::Tensor& tensor, Category category) {
  const c10::DataPtr& pointer = tensor.storage().data_ptr();
  Header* header = nullptr;
  if (pointer.get_deleter() == &free_cpu && pointer.get()) header = header_of(pointer.get_context());
  if (pointer.get_deleter() == &free_meta) header = static_cast<Header*>(pointer.get_context());
  if (!header) return;
  ledger(tensor.device().type()).move(header->bytes, header->category, category);
  header->category = category;
}

}  // namespace muster::device
