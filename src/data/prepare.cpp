#include "data/dataset.h"
#include "data/source.h"

namespace muster::data {

void prepare(const spec::Job& job, const Log&, const Progress&) {
  for (const Place& place : training_places(job)) open_ids(job, place);
  if (const auto place = validation_place(job)) open_ids(job, *place);
}

}  // namespace muster::data
