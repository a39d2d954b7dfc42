#include "telemetry/metrics.h"

#include <cmath>
#include <limits>

#include "base/error.h"

namespace muster::telemetry {
namespace {

// Keys and members in one list, read by both directions: visit(key, member) in the order of the file.
template <class Metrics, class Visit>
void for_each_field(Metrics& metrics, Visit&& visit) {
  visit("step", metrics.step);
  visit("loss", metrics.loss);
  visit("grad_norm", metrics.grad_norm);
  visit("learning_rate", metrics.learning_rate);
  visit("tokens", metrics.tokens);
  visit("tokens_seen", metrics.tokens_seen);
  visit("step_seconds", metrics.step_seconds);
  visit("tokens_per_second", metrics.tokens_per_second);
  visit("mfu", metrics.mfu);
  visit("hfu", metrics.hfu);
  visit("skipped", metrics.skipped);
  visit("validation_loss", metrics.validation_loss);
  visit("peak_bytes", metrics.peak_bytes);
  visit("data_wait_seconds", metrics.data_wait_seconds);
  visit("exposed_communication_seconds", metrics.exposed_communication_seconds);
}

struct Writer {
  Json json = Json::object();
  bool non_finite = false;

  void operator()(const char* key, double value) {
    json[key] = std::isfinite(value) ? Json(value) : Json();
    non_finite |= !std::isfinite(value);
  }
  void operator()(const char* key, const std::optional<double>& value) {
    if (value)
      (*this)(key, *value);
    else
      json[key] = nullptr;
  }
  void operator()(const char* key, int64_t value) { json[key] = value; }
  void operator()(const char* key, bool value) { json[key] = value; }
};

struct Reader {
  const Json& json;
  const std::string& source;
  bool non_finite;

  void operator()(const char* key, double& value) const {
    const Json* cell = find(key);
    if (!cell) return;
    if (cell->is_null() && non_finite)
      value = std::numeric_limits<double>::quiet_NaN();
    else
      value = take<double>(key, *cell, cell->is_number());
  }
  void operator()(const char* key, std::optional<double>& value) const {
    const Json* cell = find(key);
    if (cell && !cell->is_null()) value = take<double>(key, *cell, cell->is_number());
  }
  void operator()(const char* key, int64_t& value) const {
    if (const Json* cell = find(key)) value = take<int64_t>(key, *cell, cell->is_number_integer());
  }
  void operator()(const char* key, bool& value) const {
    if (const Json* cell = find(key)) value = take<bool>(key, *cell, cell->is_boolean());
  }

 private:
  const Json* find(const char* key) const { return json.contains(key) ? &json[key] : nullptr; }
  template <class T>
  T take(const char* key, const Json& cell, bool fits) const {
    if (fits) return cell.get<T>();
    throw WorldError(WorldError::Kind::data, fmt::format("{}: \"{}\" holds {}, which is not a value of it",
                                                         source, key, cell.dump().substr(0, 40)));
  }
};

}  // namespace

Json to_json(const StepMetrics& metrics) {
  Writer writer;
  for_each_field(metrics, writer);
  if (writer.non_finite) writer.json["non_finite"] = true;
  return std::move(writer.json);
}

StepMetrics step_metrics_from_json(const Json& json, const std::string& source) {
  if (!json.is_object()) throw WorldError(WorldError::Kind::data, source + ": not an object");
  StepMetrics metrics;
  const Reader reader{json, source, json.value("non_finite", Json()) == true};
  for_each_field(metrics, reader);
  return metrics;
}

}  // namespace muster::telemetry
