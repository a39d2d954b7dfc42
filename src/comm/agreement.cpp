#include "comm/agreement.h"

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"

namespace muster::comm {
namespace {

std::string key_of(uint64_t sequence, int64_t rank) {
  return fmt::format("{}/{}", sequence, rank);
}

// A call as a peer tells it: what must agree, and the whole of it as a person reads it.
Json to_json(const Call& call) {
  return {{"op", call.op},          {"detail", call.detail}, {"tensor", call.tensor},
          {"out", call.out_counts}, {"in", call.in_counts},  {"text", describe(call)}};
}

// Whether rank `a` sends rank `b` what `b` expects of it.
bool counts_agree(const Json& from, int64_t a, const Json& to, int64_t b) {
  if (from["in"].empty()) return true;
  return from["in"].at(b) == to["out"].at(a);
}

bool agree(const Json& one, int64_t a, const Json& other, int64_t b) {
  for (const char* field : {"op", "detail", "tensor"})
    if (one[field] != other[field]) return false;
  return counts_agree(one, a, other, b) && counts_agree(other, b, one, a);
}

}  // namespace

void Agreement::confirm(const Group& group, const Call& mine) {
  const Json own = to_json(mine);
  store_->set(key_of(mine.sequence, group.rank), own.dump());
  for (int64_t peer = 0; peer < group.size(); ++peer) {
    if (peer == group.rank) continue;
    const Json other = read(group, mine, peer);
    if (agree(own, group.rank, other, peer)) continue;
    throw WorldError(WorldError::Kind::mismatch,
                     fmt::format("{} axis, operation {}: rank {} calls {}, but rank {} calls {}", group.axis,
                                 mine.sequence, group.ranks[group.rank], std::string(own["text"]),
                                 group.ranks[peer], std::string(other["text"])));
  }
  // Whoever published this operation has read all of the one before it.
  if (mine.sequence > 0) store_->deleteKey(key_of(mine.sequence - 1, group.rank));
}

Json Agreement::read(const Group& group, const Call& mine, int64_t peer) {
  try {
    const std::string key = key_of(mine.sequence, peer);
    store_->wait({key}, group.timeout);
    return parse_json(store_->get_to_str(key), "what rank " + std::to_string(group.ranks[peer]) + " calls");
  } catch (const c10::Error&) {
    const double seconds = std::chrono::duration<double>(group.timeout).count();
    throw WorldError(WorldError::Kind::timeout,
                     fmt::format("{}: rank {} did not come to operation {} within {}", describe(group, mine),
                                 group.ranks[peer], mine.sequence, format_seconds(seconds)));
  }
}

}  // namespace muster::comm
