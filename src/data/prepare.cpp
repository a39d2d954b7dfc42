#include "base/units.h"
#include "data/dataset.h"
#include "data/source.h"

namespace muster::data {
namespace {

void report(const Log& log, const Place& place, const CacheEntry& entry) {
  log.info("{}: {} documents, {} ids", place.path.string(), format_exact(entry.documents),
           format_exact(entry.ids.ids()));
  if (entry.skipped_lines > 0)
    log.warning("{}: {} bad lines skipped, as data.on_bad_line = \"skip\" asks", place.path.string(),
                format_exact(entry.skipped_lines));
}

}  // namespace

Prepared prepare(const spec::Job& job, const Log& log, const Progress& progress) {
  Prepared prepared;
  const Sources sources(job);
  if (!sources.is_tokenized()) return prepared;
  const auto take = [&](const Place& place, bool holds_out) {
    const CacheEntry entry = sources.tokenized(place, progress);
    const int64_t ids = entry.ids.ids();
    report(log, place, entry);
    require_window(job.data, place, ids,
                   holds_out ? split(job.data, ids).training : window_count(ids, job.data.sequence_length));
    prepared.skipped_lines += entry.skipped_lines;
  };
  for (const Place& place : training_places(job)) take(place, true);
  if (const auto place = validation_place(job)) take(*place, false);
  return prepared;
}

}  // namespace muster::data
