// A base for readers of JSON from outside: every event is refused unless the reader takes it.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace muster::checkpoint {

class StrictSax : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit StrictSax(std::string file) : file_(std::move(file)) {}

  bool null() override { return refuse("null has no meaning here"); }
  bool boolean(bool) override { return refuse("a truth value has no meaning here"); }
  bool number_integer(number_integer_t) override { return refuse("a negative number has no meaning here"); }
  bool number_unsigned(number_unsigned_t) override { return refuse("a number has no meaning here"); }
  bool number_float(number_float_t, const string_t& digits) override {
    return refuse(fmt::format("{} is no whole number of 64 bits", digits));
  }
  bool string(string_t&) override { return refuse("a string has no meaning here"); }
  bool binary(binary_t&) override { return refuse("binary has no meaning here"); }
  bool start_object(size_t) override { return refuse("an object has no meaning here"); }
  bool key(string_t&) override { return refuse("a key has no meaning here"); }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return refuse("a list has no meaning here"); }
  bool end_array() override { return true; }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& error) override {
    throw_data(fmt::format("byte {}: {}", position, error.what()));
  }

  // Feeds it `text`; nothing may follow the value.
  void parse(std::string_view text) { nlohmann::json::sax_parse(text, this); }

 protected:
  // Where the reader is, for messages: "tensor \"x\"".
  virtual std::string place() const = 0;
  [[noreturn]] bool refuse(const std::string& why) const { throw_data(place() + ": " + why); }
  [[noreturn]] void throw_data(const std::string& what) const {
    throw WorldError(WorldError::Kind::data, file_ + ": " + what);
  }
  const std::string& file() const { return file_; }

 private:
  std::string file_;
};

}  // namespace muster::checkpoint
