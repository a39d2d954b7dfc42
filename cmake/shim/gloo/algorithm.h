#pragma once
#include <gloo/gloo_fwd.h>
