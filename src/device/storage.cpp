#include "device/storage.h"

#include "base/error.h"
#include "device/ledger.h"

namespace muster::device {

// The storage keeps its size, against which views are checked.
void drop(const at::Tensor& tensor) {
  tensor.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(c10::DataPtr(nullptr, tensor.device()));
}

void regrow(const at::Tensor& tensor, telemetry::Category category) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  MUSTER_CHECK(!storage->data_ptr().get_context(), "a buffer of {} bytes is there already",
               storage->nbytes());
  const CategoryGuard guard(category);
  storage->set_data_ptr_noswap(c10::GetAllocator(tensor.device().type())->allocate(storage->nbytes()));
}

}  // namespace muster::device
