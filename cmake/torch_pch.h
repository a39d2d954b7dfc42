// The one precompiled header of the rooms below the torch line.
#pragma once
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
